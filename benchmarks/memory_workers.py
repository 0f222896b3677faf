"""The figures of models in worker processes whose runs take leases of the pool.

Run `python -m benchmarks.memory_workers`. Each model is in two processes, one whose memory is
governed and one that allocates as the runtime does, and they run in turns.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time

import numpy as np

from benchmarks.figures import Figure, print_figures
from xirang.backends.executable import footprint_of
from xirang.backends.isolated.executable import IsolatedExecutable
from xirang.backends.isolated.leases import WorkerFootprint
from xirang.config import Config
from xirang.engine.clock import MonotonicClock
from xirang.engine.model import Model
from xirang.memory.arena import NoMemory
from xirang.repository.calibrate import feed
from xirang.repository.discover import discover
from xirang.repository.load import load
from xirang.tensors.tensor import Array

ROOT = Path(__file__).parent.parent
MODELS = ("all-MiniLM-L6-v2", "paraphrase-MiniLM-L3-v2")
LENGTHS = (16, 32, 48, 64, 100, 128, 200, 256)
TIMED = ((1, 16), (8, 32), (8, 128), (32, 64))
BUDGET_BYTES = 32_000_000
RESERVED_BYTES = 4 << 30
SECONDS = 4.0

Inputs = dict[str, Array]


def loaded(folder: Path, *, is_governed: bool) -> Model:
    """A model in one process."""
    (source,) = discover([str(folder)])
    settings = replace(
        Config().settings_of(source.name),
        process="yes",
        instances=1,
        memory_native=is_governed,
        learned="off",
    )
    return load(source, settings, clock=MonotonicClock()).model


class Guest:
    """A model whose runs take leases of an arena that both processes map."""

    def __init__(self, model: Model) -> None:
        footprint = footprint_of(model.executable)
        assert isinstance(footprint, WorkerFootprint)
        self.model, self.footprint = model, footprint
        self.arena = footprint.arena(RESERVED_BYTES)
        self.room = footprint.room(self.arena)
        self.reach = 0

    def run(self, inputs: Inputs, lease_bytes: int, wanted: tuple[str, ...]) -> Inputs:
        """Assemble the inputs in the lease, and run."""
        if lease_bytes > self.reach:
            self.arena.resize(self.reach, lease_bytes)
            self.reach = lease_bytes
        rows, length = next(iter(inputs.values())).shape
        self.room.open(rows, length, lease_bytes)
        own = {name: self.room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return self.room.run(self.model.executable, own, wanted)


def figures(folder: Path) -> Iterator[Figure]:
    """All of one model."""
    governed, plain = (loaded(folder, is_governed=is_so) for is_so in (True, False))
    try:
        guest = Guest(governed)
        yield from _limits(folder.name, guest)
        yield from _times(folder.name, guest, plain)
    finally:
        for model in (governed, plain):
            assert model.workers is not None
            model.workers.close()


def _inputs(model: Model, rows: int, length: int) -> Inputs:
    made = feed(model.signature, rows, (length,) * model.signature.lengths)
    dice = np.random.default_rng(0)
    for name, array in made.items():
        if not model.signature.input_layout(name).is_mask and "type" not in name:
            array[:] = dice.integers(0, 1000, array.shape)
    return made


def _limits(name: str, guest: Guest) -> Iterator[Figure]:
    model, kept = guest.model, 0
    for length in LENGTHS:
        rows = guest.footprint.rows_max(length, BUDGET_BYTES)
        guest.run(_inputs(model, rows, length), BUDGET_BYTES, model.output_names)
        try:
            guest.run(_inputs(model, rows + 1, length), BUDGET_BYTES, model.output_names)
        except NoMemory:
            kept += 1
    title = f"{name} in a process, lengths whose largest batch passes and +1 fails"
    yield Figure(title, kept, len(LENGTHS))


def _times(name: str, guest: Guest, plain: Model) -> Iterator[Figure]:
    ratios, same = [], 0
    wanted = guest.model.output_names[:1]

    def copied(inputs: Inputs) -> Inputs:
        """As a run without a lease is assembled."""
        own = {key: array.copy() for key, array in inputs.items()}
        return plain.executable.run(own, wanted)

    for size in TIMED:
        inputs, need = _inputs(plain, *size), guest.footprint.peak_bytes(*size)
        ours = Act(guest.model, partial(guest.run, inputs, need, wanted))
        theirs = Act(plain, partial(copied, inputs))
        found, expected = ours.run(), theirs.run()
        same += all(np.array_equal(found[key], expected[key]) for key in expected)
        ratios.append(_ratio(ours, theirs))
        print(f"       {name} {size}: {ratios[-1]:.3f} × the time of a run without a lease")
    mean = prod(ratios) ** (1 / len(ratios))
    yield Figure(f"{name} in a process, processor time ÷ without leases, mean", mean, 1.02, False)
    yield Figure("… shapes with the same bits", same, len(TIMED))


class Act:
    """A run of a model, and the processor time that it takes on both sides."""

    def __init__(self, model: Model, run: Callable[[], Inputs]) -> None:
        self.run = run
        assert isinstance(model.workers, IsolatedExecutable)
        (process,) = model.workers.process_ids
        self._file = Path(f"/proc/{process}/schedstat")

    def spent(self) -> float:
        before, start = self._worker_ns(), thread_time()
        self.run()
        return thread_time() - start + (self._worker_ns() - before) / 1e9

    def _worker_ns(self) -> int:
        return int(self._file.read_text().split()[0])


def _ratio(ours: Act, theirs: Act) -> float:
    """The median of pairs, in turns, since the machine may have other work too."""
    ratios: list[float] = []
    begun = perf_counter()
    while perf_counter() - begun < SECONDS or len(ratios) < 5:
        acts = (ours, theirs) if len(ratios) % 2 else (theirs, ours)
        spent = dict(zip(acts, [act.spent() for act in acts], strict=True))
        ratios.append(spent[ours] / spent[theirs])
    return median(ratios[2:])


def main() -> None:
    for name in MODELS:
        if (ROOT / "models" / name).exists():
            print_figures(list(figures(ROOT / "models" / name)))


if __name__ == "__main__":
    main()
