"""The figures of PyTorch from a plan: the same answers, in less memory, in no more time.

Run `python -m benchmarks.memory_torch`; the exported program runs twice, from its plan in an arena
and as PyTorch runs it, in turns, so that both see the same machine.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import memory_replayed
from benchmarks.figures import Figure, print_figures
from benchmarks.memory_replayed import texts, time_ratio
from xirang.core.memory.polynomial import Polynomial
from xirang.memory.arena import HostArena
from xirang.tensors.tensor import Array

TINY = tuple((rows, length) for rows in (1, 2, 3) for length in (8, 16, 24))
LENGTHS = (8, 16, 32, 64, 128, 256, 512)
SHAPES = ((1, 16), (8, 32), (8, 128), (32, 64), (4, 512))
LARGE = 1000
"""Rows × length from which the peak is no longer that of a slice."""

LAYERS, WIDTH, HEADS, WORDS = 6, 384, 12, 30_522
"""Of MiniLM; its weights are drawn by lot."""

Inputs = dict[str, Array]


def figures() -> Iterator[Figure]:
    """All of them."""
    try:
        import torch
    except ImportError:
        print("       PyTorch is not there: pip install 'xirang[torch]'")
        return
    torch.set_num_threads(1)
    for is_whole in (True, False):
        name = "attention whole" if is_whole else "attention in parts"
        yield from _compared(name, _Pair(is_whole=is_whole))
    yield from memory_replayed.figures()


class _Pair:
    """A program from its plan, and as PyTorch runs it."""

    def __init__(self, *, is_whole: bool) -> None:
        from xirang.backends.torch_study import Feed, study

        program = _program(is_whole=is_whole)
        self.module = program.module()
        feeds = [Feed(*size, texts(*size)) for size in TINY]
        taken = [Polynomial((0, 0, 0, 8, 0, 0))] * 2
        found = study(program, lambda x: self.module(*x.values()), feeds, taken, LENGTHS)
        print(f"       {found.says}")
        self.footprint = found.footprint
        self.arena = HostArena()
        self.arena.resize(0, 1 << 30)
        self.room = self.footprint.room(self.arena)

    def opened(self, rows: int, length: int) -> tuple[Inputs, Callable[[], object]]:
        """Inputs in the arena, and what runs them there."""
        import torch

        inputs = texts(rows, length)
        self.room.open(rows, length, self.footprint.peak_bytes(rows, length))
        placed = {name: self.room.take(a.shape, a.dtype) for name, a in inputs.items()}
        for name, array in inputs.items():
            placed[name][...] = array
        tensors = {name: torch.from_numpy(array) for name, array in placed.items()}
        return inputs, lambda: self.room.call(tensors)


def _compared(name: str, pair: _Pair) -> Iterator[Figure]:
    import torch

    peaks, times, largest = [], [], 0.0
    for rows, length in SHAPES:
        inputs, planned = pair.opened(rows, length)
        tensors = {key: torch.from_numpy(array) for key, array in inputs.items()}
        alone = _alone(pair, tensors)
        with torch.inference_mode():
            (given,), expected = planned(), alone()
            largest = max(largest, float((given - expected).abs().max() / expected.abs().max()))
            peak, ratio = _peak(pair, planned, alone, rows, length), time_ratio(planned, alone)
        print(f"       {rows} × {length}: peak {peak:.3f}, time {ratio:.3f} of PyTorch's own")
        times.append(ratio)
        if rows * length >= LARGE:
            peaks.append(peak)
    yield Figure(f"{name}: answers off by, of the largest", largest, 1e-6, False)
    yield Figure(f"{name}: peak ÷ PyTorch's own, worst of large runs", max(peaks), 0.8, False)
    yield Figure(f"{name}: processor time ÷ PyTorch's own, mean", float(np.mean(times)), 1.0, False)


def _alone(pair: _Pair, tensors: dict[str, object]) -> Callable[[], object]:
    return lambda: pair.module(*tensors.values())


def _peak(
    pair: _Pair, planned: Callable[[], object], alone: Callable[[], object], rows: int, length: int
) -> float:
    """What a lease holds, against what is alive at once without: inputs count on both sides."""
    from xirang.backends.torch_allocations import taken_bytes

    foreseen = pair.footprint.peak_bytes(rows, length)
    outside = pair.footprint.outside_bytes(rows, length)
    assert taken_bytes(planned) <= outside, "more lies outside of the plan than was foreseen"
    inputs = sum(array.nbytes for array in texts(rows, length).values())
    return foreseen / (inputs + taken_bytes(alone))


def _program(*, is_whole):
    import torch
    from tests.support.planned_models import Encoder

    torch.manual_seed(0)
    module = Encoder(is_whole=is_whole, width=WIDTH, heads=HEADS, layers=LAYERS, words=WORDS)
    rows = torch.export.Dim("rows", min=1, max=1024)
    length = torch.export.Dim("length", min=1, max=512)
    example = torch.ones(2, 16, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(
            module.eval(), (example, example), dynamic_shapes=({0: rows, 1: length},) * 2
        )


if __name__ == "__main__":
    for figure in figures():
        print_figures([figure])
