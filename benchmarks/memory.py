"""The figures of memory: plans against their bounds, the peak law against real runs, leases.

Run `python -m benchmarks.memory`; the real models are used where `make models` has laid them out.
Every plan is held against the naive validator before its figure counts.
"""

import csv
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from timeit import repeat

from benchmarks import memory_runs, memory_torch, memory_wave, memory_workers
from benchmarks.figures import Figure, print_figures
from xirang.backends.onnx_trace import Trace
from xirang.core.memory.arena import Refused
from xirang.core.memory.law import Law
from xirang.core.memory.lifetime import Lifetimes, of_rows
from xirang.core.memory.planner import Planner, plan
from xirang.core.memory.pool import Pool, PoolSettings
from xirang.core.memory.validate import fault_of
from xirang.memory.native.compile import LIBRARY
from xirang.memory.native.library import Library
from xirang.memory.native.search import search_in
from xirang.plan import ALIGNMENT, TracedModel, law_from, traced_model
from xirang.repository.discover import discover

ROOT = Path(__file__).parent.parent
PROBLEMS = ROOT / "tests" / "data" / "memory"
HARD = "ABCDEFGHIJK"
HARD_SECONDS, GRAPH_SECONDS = 3.0, 1.0
"""Of one core: plans are the same on every machine, however busy it is."""

CAPACITY_BYTES, CAPACITY_SECONDS = 1_048_576, 60.0
CAPACITY_STEPS = 300_000_000

MODELS = ("all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2", "splade-tiny")
WIDE = "splade-tiny"
"""Its scores for a whole vocabulary, 32 rows of 128, took 500 MB twice; in slices 72 MB in all."""

SERVED = "paraphrase-MiniLM-L3-v2"
UNSEEN = ((4, 100), (16, 40), (1, 200), (7, 64), (5, 150), (8, 128), (3, 250), (16, 128))
BUDGET_BYTES = 32_000_000


def hard() -> list[Figure]:
    """The problems of MiniMalloc."""
    ratios, seconds = [], []
    for name in HARD:
        ratio, spent = _planned(_problem(name))
        ratios.append(ratio)
        seconds.append(spent)
        print(f"       {name}: plan ÷ bound {ratio:.4f} in {spent:.2f} s", flush=True)
    return [
        Figure("MiniMalloc A–K, plan ÷ bound, median", median(ratios), 1.10, False),
        Figure("… worst", max(ratios), 1.19, False),
        Figure("… slowest", max(seconds), HARD_SECONDS, False, "s"),
    ]


def capacity() -> list[Figure]:
    """The same, within the capacity that they were made for, by the native search."""
    if not LIBRARY.exists():
        print("       no native search here: see python -m xirang.memory.native.compile")
        return []
    search = search_in(Library())
    solved = 0
    for name in HARD:
        lifetimes = _problem(name)
        start, spent, is_found = process_time(), 0.0, False
        planner = Planner(lifetimes, search=search)
        while not is_found and spent < CAPACITY_SECONDS:
            is_found = planner.reach(CAPACITY_BYTES, steps_max=planner.steps + CAPACITY_STEPS)
            spent = process_time() - start
        made = planner.plan
        fault = fault_of(lifetimes, made.offsets, made.height_bytes)
        assert fault is None, fault
        solved += is_found
        print(f"       {name}: {'found' if is_found else 'none'} in {spent:.2f} s", flush=True)
    return [Figure("A–K, plans within their capacity", solved, len(HARD))]


def graphs() -> list[Figure]:
    """Traces of eighteen architectures."""
    found = [_planned(_problem(p.stem)) for p in sorted(PROBLEMS.glob("zoo_*"))]
    return [
        Figure(f"{len(found)} graphs, plan ÷ bound, worst", max(r for r, _ in found), 1.0, False),
        Figure("… slowest", max(s for _, s in found), GRAPH_SECONDS, False, "s"),
    ]


def models() -> Iterator[Figure]:
    """The peak law of real models, found from tiny runs, at shapes that it has not seen."""
    for name in MODELS:
        if not (ROOT / "models" / name).exists():
            print(f"       {name}: not laid out, see make models")
            continue
        model = traced_model(discover([str(ROOT / "models" / name)])[0])
        sizes = sorted((s for s in UNSEEN if s[1] <= max(model.known[0])), key=prod)
        start = perf_counter()
        calibration = model.calibration()
        law = law_from(calibration, model.traces(calibration), alignment=1)
        spent = perf_counter() - start
        errors = [
            abs(law.peak_bytes(*size) / trace.peak_bytes - 1)
            for size, trace in zip(sizes, model.traces(sizes), strict=True)
            if trace.peak_bytes is not None
        ]
        print(f"       {name}: law in {spent:.1f} s, held against {len(errors)} real peaks")
        yield Figure(f"{name}, law against real peak, worst", 100 * max(errors), 0.1, False, "%")
        yield from _plans(name, law, sizes)
        yield from _limits(name, model, law)


def _plans(name: str, law: Law, sizes: list[tuple[int, int]]) -> Iterator[Figure]:
    found = [_planned(law.regimes[0].lifetimes(*size).aligned(ALIGNMENT)) for size in sizes]
    yield Figure(f"{name}, plan ÷ bound, worst", max(ratio for ratio, _ in found), 1.0, False)


def _limits(name: str, model: TracedModel, law: Law) -> Iterator[Figure]:
    """The largest batch of each length by the law, and by the runtime's own way."""
    lengths = [n for n in (32, 64, 128, 256) if n <= max(model.known[0])]
    kept = 0
    for length in lengths:
        rows = law.rows_max(length, BUDGET_BYTES)
        within, beyond = model.traces([(rows, length), (rows + 1, length)])
        kept += _peak(within) <= BUDGET_BYTES < _peak(beyond)
    yield Figure(f"{name}, lengths whose largest batch is exact", kept, len(lengths))
    rows = law.rows_max(128, BUDGET_BYTES)
    gain = rows / max(1, _theirs(model, rows, 128))
    yield Figure(f"{name}, rows for a byte ÷ the runtime's default", gain, 1.3)


def _theirs(model: TracedModel, rows: int, length: int) -> int:
    """The most rows that stay in the budget in the runtime's default arena.

    Each is run in a process of its own: what an arena has served before makes it larger, by how
    much hangs on the order.
    """
    low, high = 0, 2 * rows + 1
    while high - low > 1:
        middle = (low + high) // 2
        (trace,) = model.traces([(middle, length)], is_default=True)
        if trace.peak_bytes is None or trace.peak_bytes <= BUDGET_BYTES:
            low = middle
        else:
            high = middle
    return low


def _peak(trace: Trace) -> int:
    assert trace.peak_bytes is not None, "it is above the one before"
    return trace.peak_bytes


def leases() -> list[Figure]:
    """What a warm run pays for its memory, in an idle pool and in one of many arenas."""
    pool = Pool(PoolSettings(8 << 30))
    for number in range(16):
        share = pool.add_share(str(number), guarantee_bytes=1 << 28, limit_bytes=1 << 30)
        pool.add_arena(share, 16 << 30)

    def once() -> None:
        lease = pool.lease(3, 100_000_000)
        assert not isinstance(lease, Refused)
        pool.release(lease, now_ns=1)

    once()
    return [Figure("lease and release, warm", _best_us(once), 2.0, False, "µs")]


def _best_us(act: Callable[[], None]) -> float:
    return min(repeat(act, number=1000, repeat=30)) * 1e6 / 1000


def _problem(name: str) -> Lifetimes:
    with (PROBLEMS / f"{name}.csv").open() as file:
        return of_rows(
            (int(r["lower"]), int(r["upper"]), int(r["size"])) for r in csv.DictReader(file)
        )


def _planned(lifetimes: Lifetimes) -> tuple[float, float]:
    """Plan ÷ bound, and the seconds of one core that it took."""
    start = process_time()
    made = plan(lifetimes)
    spent = process_time() - start
    fault = fault_of(lifetimes, made.offsets, made.height_bytes)
    assert fault is None, fault
    return made.ratio, spent


def main() -> None:
    print_figures(leases())
    print_figures(graphs())
    print_figures(hard())
    print_figures(capacity())
    for figure in models():
        print_figures([figure])
    if (ROOT / "models" / WIDE).exists():
        print_figures([*memory_runs.budgeted(ROOT / "models" / WIDE)])
    if (ROOT / "models" / SERVED).exists():
        print_figures([*memory_runs.served(ROOT / "models" / SERVED)])
    for folder in (ROOT / "models" / name for name in MODELS):
        for figure in memory_runs.figures(folder) if folder.exists() else ():
            print_figures([figure])
    for folder in (ROOT / "models" / name for name in memory_runs.PICTURES):
        for figure in memory_runs.pictures(folder) if folder.exists() else ():
            print_figures([figure])
    print_figures([*memory_runs.end_to_end()])
    for figure in memory_wave.figures():
        print_figures([figure])
    for figure in memory_torch.figures():
        print_figures([figure])
    memory_workers.main()


if __name__ == "__main__":
    main()
