"""What a run costs around the model: assembly and split, in microseconds a request.

Run `python -m benchmarks.micro_shapes`. Machines differ, so each figure stands beside a loop that
does the same work with nothing around it: copies of the same bytes, slices of the same array.
"""

from collections.abc import Callable
from random import Random
from timeit import repeat

import numpy as np

from benchmarks.figures import Figure, print_figures
from xirang.core.signature import Layout, TensorSpec, Tie
from xirang.tensors.assemble import Stack
from xirang.tensors.split import Shares, split
from xirang.tensors.tensor import Array, Tensor, of_array

GOAL_US = 0.3
RATIO_MAX = 2.1
"""The goal by what the bare loop cost where it was set: 0.14 µs a copy, 0.14 µs a slice."""

REQUESTS, LENGTH = 32, 128
NUMBER, ROUNDS = 20, 500
"""Short rounds and many: on a shared machine some of them are undisturbed."""

IDS = TensorSpec("ids", "INT64", (None, None))
TEXT = Layout(ties=(Tie(1),))


def measure() -> list[Figure]:
    """All figures; each is the least disturbed of some rounds."""
    equal, mixed = [LENGTH] * REQUESTS, _lengths()
    rows = [
        ("assembly, 32 × 128 int64, equal lengths", _assembly_us(equal), GOAL_US),
        ("… ÷ copies of the same bytes", _assembly_us(equal) / _copies_us(equal), RATIO_MAX),
        ("assembly, 32 × 8…128 int64, padded to 128", _assembly_us(mixed), GOAL_US),
        ("… ÷ copies of the same bytes", _assembly_us(mixed) / _copies_us(mixed), RATIO_MAX),
        ("split, 32 vectors of 384", _split_us(equal, tied=False), GOAL_US),
        (
            "… ÷ slices of the same array",
            _split_us(equal, tied=False) / _slices_us(equal),
            RATIO_MAX,
        ),
        ("split, 32 × 8…128 × 8, cut to own length", _split_us(mixed, tied=True), GOAL_US),
        (
            "… ÷ slices of the same array",
            _split_us(mixed, tied=True) / _slices_us(mixed),
            RATIO_MAX,
        ),
    ]
    return [
        Figure(name, value, goal, False, "µs" if goal == GOAL_US else "×")
        for name, value, goal in rows
    ]


def main() -> None:
    print_figures(measure())


def _lengths() -> list[int]:
    random = Random(1)
    return [random.randint(8, LENGTH) for _ in range(REQUESTS - 1)] + [LENGTH]


def _tensors(lengths: list[int]) -> list[Tensor]:
    arrays = [np.arange(length, dtype=np.int64)[None] for length in lengths]
    return [of_array(array) for array in arrays]


def _hidden() -> Array:
    return np.zeros((REQUESTS, LENGTH, 8), np.float32)


def _assembly_us(lengths: list[int]) -> float:
    stack, tensors = Stack(IDS, TEXT), _tensors(lengths)
    return _best(lambda: stack(tensors, rows=REQUESTS, target=(LENGTH,)))


def _copies_us(lengths: list[int]) -> float:
    """The bytes of every request into one buffer, wiped if some is padding, and nothing else."""
    data = [tensor.data for tensor in _tensors(lengths)]
    size = LENGTH * 8
    view, blank = memoryview(bytearray(REQUESTS * size)), bytes(REQUESTS * size)
    is_padded = sum(lengths) < REQUESTS * LENGTH

    def copy() -> None:
        if is_padded:
            view[:] = blank
        begin = 0
        for part in data:
            view[begin : begin + len(part)] = part  # type: ignore[assignment]
            begin += size

    return _best(copy)


def _split_us(lengths: list[int], *, tied: bool) -> float:
    own = [(length,) for length in lengths]
    shares = Shares([1] * REQUESTS, own, (LENGTH,), REQUESTS)
    outputs = {"y": _hidden() if tied else np.zeros((REQUESTS, 384), np.float32)}
    layouts = {"y": TEXT} if tied else {}
    return _best(lambda: split(outputs, shares, layouts))


def _slices_us(lengths: list[int]) -> float:
    """A slice a request, and nothing else."""
    array = _hidden()
    return _best(lambda: [array[i : i + 1, :n] for i, n in enumerate(lengths)])


def _best(call: Callable[[], object]) -> float:
    return min(repeat(call, number=NUMBER, repeat=ROUNDS)) / NUMBER / REQUESTS * 1e6


if __name__ == "__main__":
    main()
