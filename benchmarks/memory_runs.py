"""The figures of runs in our arenas: peaks as foreseen, limits, speed, page faults.

Run `python -m benchmarks.memory`. Each model runs in ONNX Runtime twice, in our arena and as the
runtime does by default, in turns, so that both see the same machine.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from statistics import median
from time import perf_counter, process_time, thread_time

import numpy as np

from benchmarks.figures import Figure
from xirang import app
from xirang.backends.executable import Executable, Footprint, footprint_of
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_allocator import allocator
from xirang.config import Config
from xirang.core.memory.polynomial import Size, each_of
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.engine.model import Model
from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.packed import PackedFootprint
from xirang.memory.room import InstanceRoom, OwnGround
from xirang.repository.calibrate import feed
from xirang.repository.discover import discover
from xirang.repository.load import load
from xirang.repository.tiny_runs import packed_feed
from xirang.tensors.tensor import Array

Inputs = dict[str, Array]
Shape = tuple[int, Size]

LENGTHS = (16, 32, 48, 64, 100, 128, 200, 256)
UNSEEN: Sequence[Shape] = ((1, 16), (4, 100), (7, 64), (8, 128), (3, 250), (16, 128))
TIMED: Sequence[Shape] = ((1, 16), (8, 32), (8, 128), (32, 64))
PICTURES: dict[str, tuple[Sequence[Shape], Sequence[Size]]] = {
    "ocr-recognition": (
        [(1, (48, 100)), (4, (48, 333)), (7, (48, 61)), (2, (32, 640)), (3, (41, 257))],
        [(48, 64), (48, 101), (48, 160), (48, 320), (48, 487), (32, 100), (40, 333), (64, 640)],
    ),
    "ocr-direction": (
        [(8, (48, 192)), (5, (33, 500)), (9, (96, 97)), (16, (50, 301)), (30, (40, 255))],
        [(48, 192), (48, 101), (33, 500), (96, 97), (50, 301), (40, 255), (200, 200), (128, 64)],
    ),
    "ocr-detection": (
        [(1, (96, 160)), (3, (224, 96)), (2, (64, 480)), (1, (320, 416)), (5, (160, 160))],
        [(32, 64), (64, 64), (96, 320), (320, 96), (224, 224), (160, 416), (128, 32), (352, 256)],
    ),
}
"""Models of two lengths: shapes that they have not seen, and lengths for the largest batch."""

BUDGET_BYTES = 32_000_000
POOL_MIB = 64
UNSEEN_PACKED = 20
CLIENTS, ROUNDS, ROUND_SECONDS = 48, 60, 0.5
SECONDS = 3.0
WARM_RUNS = 20

Act = Callable[[], object]


class Pair:
    """A model in our arena, and the same with the runtime's own.

    Attributes:
        model: As it is served.
        footprint: What is known of it.
        default: The runtime's own way.
    """

    def __init__(self, folder: Path) -> None:
        (source,) = discover([str(folder)])
        assert source.path is not None
        settings = Config().settings_of(source.name)
        self.model: Model = load(source, settings, clock=MonotonicClock()).model
        footprint = footprint_of(self.model.executable)
        assert footprint is not None
        self.footprint: Footprint = footprint
        self.default = _without(self.model.executable, OnnxExecutable(source.path))
        self.arena = HostArena()
        self.reach = 0
        room = footprint.room(self.arena)
        assert isinstance(room, InstanceRoom)
        self.room = room
        self._dice = np.random.default_rng(0)

    def inputs(self, rows: int, length: Size) -> Inputs:
        signature = self.model.signature
        made = feed(signature, rows, each_of(length))
        for name, array in made.items():
            if array.dtype.kind == "f":
                array[:] = self._dice.standard_normal(array.shape)
            elif not signature.input_layout(name).is_mask and "type" not in name:
                array[:] = self._dice.integers(0, 1000, array.shape)
        return made

    def run(
        self, size: Shape, inputs: Inputs, lease_bytes: int, wanted: tuple[str, ...] = ()
    ) -> Inputs:
        if lease_bytes > self.reach:
            self.arena.resize(self.reach, lease_bytes)
            self.reach = lease_bytes
        self.room.open(*size, lease_bytes)
        own = {name: self.room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return self.room.run(self.model.executable, own, wanted or self.model.output_names)


def _without(around: Executable, plain: OnnxExecutable) -> Executable:
    """The same pooling around the plain model, if there is any."""
    if isinstance(around, OnnxExecutable):
        return plain
    from copy import copy

    other = copy(around)
    other._executable = plain  # type: ignore[attr-defined]
    return other


def figures(folder: Path) -> Iterator[Figure]:
    """All of one model."""
    if allocator() is None:
        return
    start = perf_counter()
    pair = Pair(folder)
    print(f"       {folder.name}: loaded and calibrated in {perf_counter() - start:.1f} s")
    yield from _peaks(folder.name, pair, UNSEEN)
    yield from _limits(folder.name, pair, LENGTHS)
    yield from _warm(folder.name, pair)
    yield from _times(folder.name, pair)


def pictures(folder: Path) -> Iterator[Figure]:
    """The law and the limits of a model of two lengths."""
    if allocator() is None:
        return
    pair = Pair(folder)
    unseen, lengths = PICTURES[folder.name]
    yield from _peaks(folder.name, pair, unseen)
    yield from _limits(folder.name, pair, lengths)


def end_to_end() -> Iterator[Figure]:
    """A model of PyTorch whose rows stand end to end: foreseen against reached, at unseen runs."""
    from tests.support.packed_encoder import POSITIONS

    (source,) = discover(["torch:tests.support.packed_encoder:PackedEncoder"])
    settings = replace(Config().settings_of(source.name), length_max=POSITIONS)
    model = load(source, settings, clock=MonotonicClock()).model
    footprint = footprint_of(model.executable)
    if not isinstance(footprint, PackedFootprint):
        print("       there is no allocator for PyTorch here")
        return
    dice = np.random.default_rng(0)
    room = footprint.room(HostArena())
    ratios = []
    for _ in range(UNSEEN_PACKED):
        rows = dice.integers(1, 128, dice.integers(1, 40)).tolist()
        size: Shape = (len(rows), (sum(rows), max(rows)))
        need = footprint.peak_bytes(*size)
        made = packed_feed(model.signature, rows)
        for _ in range(2):  # the first of a shape may make what is kept
            room.open(*size, 2 * need)
            inputs = {name: room.take(array.shape, array.dtype) for name, array in made.items()}
            for name, array in made.items():
                inputs[name][...] = array
            room.run(model.executable, inputs, model.output_names)
        ratios.append(need / room.peak_bytes)
    yield Figure("rows end to end, foreseen ÷ reached, least", min(ratios), 1.0)
    yield Figure("… most", max(ratios), 1.1, False)


def budgeted(folder: Path) -> Iterator[Figure]:
    """One request of which a single tensor is larger than all the memory there is."""
    (source,) = discover([str(folder)])
    assert source.path is not None
    dice = np.random.default_rng(0)
    rows = {
        "input_ids": dice.integers(1000, 20_000, (32, 128)),
        "attention_mask": np.ones((32, 128), np.int64),
    }
    (expected,) = OnnxExecutable(source.path).run(rows, ["sparse"]).values()
    engine = app.load(str(folder), memory_pool_mib=POOL_MIB)

    async def answered() -> Array:
        async with engine:
            return (await engine.infer(source.name, rows))["sparse"]

    same = int((asyncio.run(answered()) == expected).all(axis=1).sum())
    yield Figure(f"{source.name}, rows of 128 answered in {POOL_MIB} MiB, of 32", same, 32)


def served(folder: Path) -> Iterator[Figure]:
    """A closed loop on two engines in turns: with pool and plans, and without either."""
    dice = np.random.default_rng(0)
    requests = [
        {
            "input_ids": dice.integers(1000, 20_000, (1, length)),
            "attention_mask": np.ones((1, length), np.int64),
        }
        for length in dice.integers(8, 64, 64).tolist()
    ]
    engines = (
        app.load(str(folder), memory_pool_mib=512),
        app.load(str(folder), memory_native=False, memory_pool_mib=-1),
    )

    async def answered(engine: Engine) -> tuple[float, float]:
        """In a moment: how many, and the processor time of each."""
        end, count = perf_counter() + ROUND_SECONDS, 0

        async def ask(number: int) -> None:
            nonlocal count
            while perf_counter() < end:
                await engine.infer(folder.name, requests[number % 64], outputs=["output"])
                number += 7
                count += 1

        before = process_time()
        await asyncio.gather(*map(ask, range(CLIENTS)))
        return count, (process_time() - before) / count

    async def rounds() -> list[tuple[float, float]]:
        found = []
        async with engines[0], engines[1]:
            for turn in range(ROUNDS):
                order = engines if turn % 2 else engines[::-1]
                told = {engine: await answered(engine) for engine in order}
                (ours, cost), (theirs, their_cost) = (told[engine] for engine in engines)
                found.append((ours / theirs, cost / their_cost))
        return found

    pairs = asyncio.run(rounds())
    answers, costs = (median(column) for column in zip(*pairs, strict=True))
    yield Figure(f"{folder.name} served, answers ÷ without pool and plans", answers, 1.0)
    yield Figure("… processor time of a request ÷ without", costs, 1.0, False)


def _peaks(name: str, pair: Pair, unseen: Sequence[Shape]) -> Iterator[Figure]:
    """Against what is alive at once in a run without a plan, counted as asked for."""
    library = allocator()
    assert library is not None
    errors, planned, same = [], 0, 0
    for size in unseen:
        inputs, need = pair.inputs(*size), pair.footprint.peak_bytes(*size)
        own = OwnGround(library)
        own.run(pair.model.executable, inputs, pair.model.output_names)
        real = own.ground.run.alive_peak_bytes + sum(array.nbytes for array in inputs.values())
        errors.append(abs(need / real - 1))
        outputs = pair.run(size, inputs, need)
        planned += pair.room.is_planned and pair.room.peak_bytes == need
        expected = pair.default.run(inputs, pair.model.output_names)
        same += all(np.array_equal(outputs[key], expected[key]) for key in expected)
    yield Figure(f"{name}, foreseen against real peak, worst", 100 * max(errors), 0.1, False, "%")
    yield Figure("… unseen shapes with every tensor where it was planned", planned, len(unseen))
    yield Figure("… with the same bits as by default", same, len(unseen))


def _limits(name: str, pair: Pair, lengths: Sequence[Size]) -> Iterator[Figure]:
    kept = 0
    for length in lengths:
        rows = pair.footprint.rows_max(length, BUDGET_BYTES)
        pair.run((rows, length), pair.inputs(rows, length), BUDGET_BYTES)
        try:
            pair.run((rows + 1, length), pair.inputs(rows + 1, length), BUDGET_BYTES)
        except NoMemory:
            kept += 1
    yield Figure(f"{name}, lengths whose largest batch passes and +1 fails", kept, len(lengths))


def _warm(name: str, pair: Pair) -> Iterator[Figure]:
    """Page faults of a shape that has been run before; the outputs are those of a text model."""
    wanted = pair.model.output_names[:1]
    size: Shape = (8, 64)
    inputs, need = pair.inputs(*size), pair.footprint.peak_bytes(*size)
    for _ in range(3):
        pair.run(size, inputs, need, wanted)
    before = getrusage(RUSAGE_THREAD).ru_minflt
    for _ in range(WARM_RUNS):
        pair.run(size, inputs, need, wanted)
    faults = getrusage(RUSAGE_THREAD).ru_minflt - before
    yield Figure(f"{name}, page faults a warm run", faults / WARM_RUNS, 0, False)


def _times(name: str, pair: Pair) -> Iterator[Figure]:
    """Ours ÷ the runtime's default, in turns; the output is the first, a text model's vectors."""
    ratios = []
    wanted = pair.model.output_names[:1]
    for size in TIMED:
        inputs, need = pair.inputs(*size), pair.footprint.peak_bytes(*size)
        ours = partial(pair.run, size, inputs, need, wanted)
        ratios.append(_ratio(ours, partial(pair.default.run, inputs, wanted)))
        print(f"       {name} {size}: {ratios[-1]:.3f} × the default's time")
    mean = prod(ratios) ** (1 / len(ratios))
    yield Figure(f"{name}, time ÷ the runtime's default, mean", mean, 1.0, False)


def _ratio(ours: Act, theirs: Act) -> float:
    """Of processor time, since the machine may have other work too; the median of pairs."""
    ratios: list[float] = []
    begun = perf_counter()
    while perf_counter() - begun < SECONDS or len(ratios) < 5:
        acts = (ours, theirs) if len(ratios) % 2 else (theirs, ours)
        spent = dict(zip(acts, [_spent(act) for act in acts], strict=True))
        ratios.append(spent[ours] / spent[theirs])
    return median(ratios[2:])


def _spent(act: Act) -> float:
    start = thread_time()
    act()
    return thread_time() - start
