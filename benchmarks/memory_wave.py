"""The figures of the pool under load: a wave, three models in half of what they want, an output
larger than the budget, thousands of shapes, and what counting memory costs.

Run `python -m benchmarks.memory_wave`, or `python -m benchmarks.memory` for these among all others.
"""

import argparse
import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep

import numpy as np
import onnx

from benchmarks.figures import Figure, print_figures
from benchmarks.minilm import LENGTHS, SEED, Served, closed, opened
from xirang.backends.executable import footprint_of
from xirang.backends.onnx_allocator import allocator
from xirang.config import ModelSettings
from xirang.core.memory.arena import Lease, Refused
from xirang.core.memory.pool import Pool, PoolSettings
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.engine.model import Model
from xirang.lab.server import ServerProcess
from xirang.repository.discover import discover
from xirang.repository.load import cores, load
from xirang.repository.minilm import prepare

MIB = 1 << 20
ROOT = Path(__file__).parent.parent
MODELS = ROOT / "models"
VOCABULARY = 30_522
"""Words of splade-tiny."""

THREE = ("all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2", "splade-tiny")

COUNTED = ("--log-level=error",)
BARE = ("--memory-pool-mib=-1", "--memory-native=false")
"""As the runtime allocates by itself."""

LARGE = ("--batching=first-come", "--max-batch-size=8", "--budget-ms=60000")
"""Our own runs are as small as is cheap; a wave of memory needs those of others."""

QUIET_S, AFTER_S = 5.0, 5.0
QUIET_RATE = 1.0
WAVE_CLIENTS, WAVE_REQUESTS = 32, 160


# ---------------------------------------------------------------------- a wave


class Watched:
    """The resident memory of a process, looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/statm")
        self._seen: list[tuple[float, int]] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Watched":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def at(self, instant: float) -> float:
        """MiB at the last look before an instant."""
        return [size for when, size in self._seen if when <= instant][-1] * 4096 / MIB

    def most(self, begin: float, end: float) -> float:
        """The most MiB between two instants."""
        return max(size for when, size in self._seen if begin <= when <= end) * 4096 / MIB

    def _look(self) -> None:
        while not self._done.wait(0.1):
            self._seen.append((monotonic(), int(self._file.read_text().split()[1])))


def wave() -> list[Figure]:
    """How much of what a wave took is back with the system five seconds later."""
    figure = Figure("share of a wave's growth back after 5 s", _given_back("ours", *LARGE), 0.95)
    _given_back("the runtime's own arena", *LARGE, *BARE)
    return [figure]


def _given_back(name: str, *options: str) -> float:
    home = prepare(MODELS)
    served = Served(home, LENGTHS.token_lists(1024, seed=SEED))
    with ServerProcess([home], *COUNTED, *options) as server, Watched(server.pid) as watched:
        served.on(server, "quiet", opened(QUIET_RATE, QUIET_S))
        before, begin = watched.at(monotonic()), monotonic()
        rush = served.on(server, "the wave", closed(WAVE_CLIENTS, WAVE_REQUESTS))
        end = monotonic()
        served.on(server, "quiet", opened(QUIET_RATE, AFTER_S))
        sleep(max(0.0, end + AFTER_S + 0.2 - monotonic()))
        most, after = watched.most(begin, end), watched.at(end + AFTER_S)
    back = (most - after) / max(1e-9, most - before)
    times = rush.throughput / QUIET_RATE
    print(
        f"       {name}: {before:.0f} MiB before a wave of {times:.0f} times the load, "
        f"{most:.0f} in it, {after:.0f} after it: {100 * back:.1f} % back",
        flush=True,
    )
    return back


# ---------------------------------------------------------------------- models that compete


class Guarded:
    """Looks at every lease of the process while it is open.

    Attributes:
        leases: How many were asked for.
        over: How often more was held than there is.
        broken: How often a share was refused what it is promised.
    """

    def __init__(self) -> None:
        self.leases = self.over = self.broken = 0
        self._plain = Pool.lease

    def __enter__(self) -> "Guarded":
        def lease(pool: Pool, arena: int, size_bytes: int) -> Lease | Refused:
            place = pool.arenas[arena]
            own = [each.leased for each in pool.arenas.values() if each.share is place.share]
            needed = place.share.fixed + sum(own) + pool.slabs(size_bytes)
            found = self._plain(pool, arena, size_bytes)
            self.leases += 1
            self.broken += isinstance(found, Refused) and needed <= place.share.guarantee
            self.over += pool.broker.held > pool.broker.capacity
            return found

        Pool.lease = lease  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Pool.lease = self._plain  # type: ignore[method-assign]


class House:
    """An engine with a pool, and its scheduler."""

    def __init__(self, capacity_mib: int = 8192) -> None:
        pool = PoolSettings(capacity_mib * MIB)
        self.scheduler = Scheduler(devices={"cpu": cores()}, pool=pool)
        self.engine = Engine(scheduler=self.scheduler)
        assert self.scheduler.ledger is not None
        self.ledger = self.scheduler.ledger

    def add(self, path: str | Path, **claim: int) -> Model:
        """Load a model, by its name or where it lies, and serve it; its claim may be changed."""
        (source,) = discover([str(MODELS / path)])
        model = load(source, ModelSettings(), clock=MonotonicClock()).model
        assert model.claim is not None
        model.claim = replace(model.claim, **claim)
        self.engine.add(model)
        return model

    async def ask(self, model: Model, rows: int, length: int) -> None:
        """One request, with all the time in the world."""
        inputs = {s.name: np.ones((rows, length), np.int64) for s in model.signature.inputs}
        await self.engine.infer(model.name, inputs, budget_ms=6e5)

    async def burst(self, model: Model, lengths: Sequence[int]) -> float:
        """Requests a second."""
        begin = monotonic()
        await asyncio.gather(*[self.ask(model, 1, length) for length in lengths])
        return len(lengths) / (monotonic() - begin)

    async def stream(self, model: Model, rate: float, seconds: float, dice: Random) -> int:
        """How many of a Poisson stream of requests failed."""
        end, asked = monotonic() + seconds, []
        while monotonic() < end:
            asked.append(asyncio.ensure_future(self.ask(model, 1, dice.randint(3, 200))))
            await asyncio.sleep(dice.expovariate(rate))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return sum(isinstance(each, BaseException) for each in answers)


def there(names: Sequence[str]) -> list[str]:
    """Those that `make models` has laid out."""
    return [name for name in names if (MODELS / name).exists()]


async def three(seconds: float) -> list[Figure]:
    """Several models whose peaks are twice the budget, loaded to 80 %."""
    dice, names = Random(SEED), there(THREE)
    roomy = House()
    async with roomy.engine:
        lengths = [dice.randint(3, 200) for _ in range(96)]
        rates = [await roomy.burst(roomy.add(name), lengths) for name in names]
    accounts = roomy.ledger.accounts
    slab = roomy.ledger.pool.slab_bytes
    weights = {name: accounts[name].share.fixed * slab for name in names}
    wanted = {name: accounts[name].predicted_bytes * len(accounts[name].arenas) for name in names}
    house = House((sum(weights.values()) + sum(wanted.values()) // 2) // MIB)
    async with house.engine:
        models = [
            house.add(name, guarantee_bytes=weights[name] + wanted[name] // 4, keep_bytes=0)
            for name in names
        ]
        with Guarded() as guarded:
            pairs = zip(models, rates, strict=True)
            share = 0.8 / len(models)
            streams = [house.stream(m, share * rate, seconds, dice) for m, rate in pairs]
            failures = sum(await asyncio.gather(*streams))
    refused = sum([each.share.counts.refuse for each in house.ledger.accounts.values()])
    print(
        f"       weights {sum(weights.values()) / MIB:.0f} MiB, runs want "
        f"{sum(wanted.values()) / MIB:.0f} MiB and have half; {guarded.leases} leases, "
        f"{refused} refused"
    )
    return [
        Figure(f"{len(models)} models at twice the budget: failures", failures, 0, False),
        Figure("… leases refused within a guarantee", guarded.broken, 0, False),
        Figure("… times the budget was passed", guarded.over, 0, False),
    ]


async def large_output() -> list[Figure]:
    """Half a gigabyte of scores, where a model may have 300 MiB: on the way, and as its output."""
    figures = []
    with TemporaryDirectory() as folder:
        with_scores(MODELS / "splade-tiny", Path(folder) / "splade-scores")
        for what, path in (("scores", MODELS / "splade-tiny"), ("output", Path(folder))):
            figures += await _large(what, path)
    return figures


async def _large(what: str, path: Path) -> list[Figure]:
    house = House()
    async with house.engine:
        model = house.add(path, limit_bytes=300 * MIB)
        begin, failures = monotonic(), 0
        try:
            await house.ask(model, 32, 128)
        except Exception as error:  # whatever it is, it is a failure
            print(f"       {error}")
            failures += 1
        most = house.ledger.accounts[model.name].predicted_bytes / MIB
        print(
            f"       answered in {monotonic() - begin:.1f} s, in leases of {most:.0f} MiB at most"
        )
    return [
        Figure(f"500 MB of {what} in 300 MiB: failures", failures, 0, False),
        Figure("… its largest lease", most, 300, False, "MiB"),
    ]


def with_scores(model: Path, target: Path) -> None:
    """The same model, which also gives what it has of each word at each position."""
    graph = onnx.load(model / "model.onnx")
    words = {each.name for each in graph.graph.initializer if tuple(each.dims) == (VOCABULARY,)}
    (scored,) = [node for node in graph.graph.node if words & set(node.input)]
    shape = ["batch", "length", VOCABULARY]
    graph.graph.output.append(
        onnx.helper.make_tensor_value_info(scored.output[0], onnx.TensorProto.FLOAT, shape)
    )
    target.mkdir()
    onnx.save(graph, target / "model.onnx")


async def shapes(count: int, runs: int) -> list[Figure]:
    """What is kept of ever new shapes."""
    dice, house = Random(SEED), House()
    (name,) = there(THREE[1:2])
    async with house.engine:
        model = house.add(name)
        account = house.ledger.accounts[name]
        footprint = footprint_of(model.executable)
        assert footprint is not None
        sizes = dice.sample([(r, n) for r in range(1, 129) for n in range(1, 513)], count)
        before = _resident_mib()
        for rows, length in sizes:
            account.need_bytes(rows, length)
            account.rows_max(length)
            footprint.peak_bytes(rows, length)
        small = sorted(sizes, key=prod)[:runs]
        for rows, length in small:
            await house.ask(model, rows, length)
        grown = _resident_mib() - before
        held = house.ledger.snapshot().shares[0].committed_bytes / MIB
    print(f"       {count} shapes looked up, {runs} of them run; arenas have {held:.0f} MiB")
    return [Figure(f"{count} shapes: resident memory grown", grown, 64, False, "MiB")]


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MIB


# ---------------------------------------------------------------------- what it costs


def throughput(rounds: int, count: int) -> list[Figure]:
    """A saturated server with the pool on and off, in turns."""
    home = prepare(MODELS)
    served = Served(home, LENGTHS.token_lists(count, seed=SEED))
    rates: dict[str, list[float]] = {"on": [], "off": []}
    with (
        ServerProcess([home], *COUNTED) as on,
        ServerProcess([home], *COUNTED, "--memory-pool-mib=-1") as off,
    ):
        for _ in range(rounds):
            for name, server in (("on", on), ("off", off)):
                result = served.on(server, f"pool {name}, 64 clients", closed(64, count))
                rates[name].append(result.throughput)
    ratios = [on / off for on, off in zip(rates["on"], rates["off"], strict=True)]
    return [Figure("throughput with the pool ÷ without", median(ratios), 1.0)]


def figures(*, seconds: float = 15.0, rounds: int = 5, count: int = 600) -> Iterator[Figure]:
    """All of them, one after another; none where memory cannot be counted."""
    if allocator() is None:
        print("       the native allocator is not built: no run is counted in the pool")
        return
    yield from wave()
    yield from asyncio.run(three(seconds))
    if there(THREE[2:]):
        yield from asyncio.run(large_output())
    yield from asyncio.run(shapes(10_000, 400))
    yield from throughput(rounds, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=600)
    told = parser.parse_args()
    for figure in figures(seconds=told.seconds, rounds=told.rounds, count=told.requests):
        print_figures([figure])


if __name__ == "__main__":
    main()
