"""Finds out at load whether a model of PyTorch can be run from a plan, and what that takes.

A planned program counts only if its answers at a few tiny shapes are those of the model itself.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xirang.backends.torch_allocations import taken_by_step
from xirang.backends.torch_cuda import Accelerator
from xirang.backends.torch_footprint import Sample, TorchFootprint
from xirang.backends.torch_place import with_numpy_type
from xirang.backends.torch_planned import PlannedProgram
from xirang.backends.torch_room import TorchRoom
from xirang.backends.torch_trace import Unplannable
from xirang.core.memory.polynomial import Polynomial, Size, area
from xirang.tensors.tensor import Array

TOLERANCE = 1e-6
"""By how much a planned answer may be off, as a part of the largest: most are the same bits."""

SAMPLES_MIN = 4
"""Fewer do not tell rows from lengths; those that the program was not exported for are left out."""

RESERVED_BYTES = 1 << 30
"""Addresses for tiny runs."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Inputs of a tiny run.

    Attributes:
        rows: How many.
        length: Of its rows; each where there are several, 1 if it has none.
        inputs: The arrays.
    """

    rows: int
    length: Size
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Study:
    """What was found.

    Attributes:
        footprint: Of the planned program.
        share: Of the bytes, how much lies in the plan.
        says: The same in words.
    """

    footprint: TorchFootprint
    share: float
    says: str


def exported_module(
    model: Any, feed: Feed, free: Mapping[str, set[int]], *, device: str = "cpu"
) -> Any:
    """Export a module or a function over tensors.

    Args:
        model: Which.
        feed: An example.
        free: The axes that may vary, of each input.
        device: Where it is.

    Raises:
        Unplannable: It does not let itself be exported, and why.
    """
    import torch
    from torch.fx.experimental import _config

    tensors = tensors_of(feed, device)
    shapes = tuple(dict.fromkeys(sorted(free[name]), torch.export.Dim.AUTO) for name in tensors)
    module = _module_of(model, list(tensors))
    try:
        # Else it would take one row for something else than two.
        with warnings.catch_warnings(), _config.patch(backed_size_oblivious=True):
            warnings.simplefilter("ignore")
            return torch.export.export(module, tuple(tensors.values()), dynamic_shapes=(shapes,))
    except Exception as error:  # whatever a model provokes
        first = str(error).strip().partition("\n")[0]
        raise Unplannable(f"it cannot be exported: {first}") from error


def _module_of(model: Any, names: Sequence[str]) -> Any:
    """Something over tensors by name as a module over tensors in order."""
    import torch

    class Called(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return self.model(**dict(zip(names, tensors, strict=True)))

    return Called().eval()


def study(
    exported: Any,
    call: Callable[[dict[str, Any]], Any],
    feeds: Sequence[Feed],
    inputs: Sequence[Polynomial],
    lengths: Sequence[Size],
    accelerator: Accelerator | None = None,
) -> Study:
    """Plan a program, and hold it against itself.

    Args:
        exported: Of `torch.export`; its inputs are those of the feeds, in the same order.
        call: The model as it is, over tensors by name.
        feeds: Tiny runs, at least one.
        inputs: What each input takes.
        lengths: For which plans are made.
        accelerator: Where it is; None for the CPU.

    Raises:
        Unplannable: It cannot be run from a plan, and why.
    """
    import torch

    target = "cpu" if accelerator is None else accelerator.target
    largest = max(feeds, key=lambda feed: feed.rows * area(feed.length))
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # From a device they are fetched before the run ends.
        stay = accelerator is None
        program = PlannedProgram(exported, tensors_of(largest, target), outputs_stay=stay)
        if not program.placed:
            raise Unplannable("none of its operations can write where it is told")
        taken = [feed for feed in feeds if program.symbols(tensors_of(feed)) is not None]
        if len(taken) < min(SAMPLES_MIN, len(feeds)):
            raise Unplannable("it was not exported for all sizes that the model takes")
        samples = [_sample(program, feed) for feed in taken]
        guessed = TorchFootprint(program, samples, inputs, lengths, accelerator)
        runs = [_Tried(guessed, feed, call) for feed in taken]
    samples = [_sample(program, feed, run.taken) for feed, run in zip(taken, runs, strict=True)]
    placed, outside = (sum(sizes) for sizes in program.sizes_bytes(samples[-1].symbols))
    share = placed / max(1, placed + outside)
    says = _says(program, share, is_same=all(run.is_same for run in runs))
    return Study(TorchFootprint(program, samples, inputs, lengths, accelerator), share, says)


class _Tried:
    """A tiny run in an arena.

    Attributes:
        is_same: Whether it gave the very same bits as the model.
        taken: Step to what was taken of PyTorch's own allocator, slices being of one row each.
    """

    def __init__(
        self, footprint: TorchFootprint, feed: Feed, call: Callable[[dict[str, Any]], Any]
    ) -> None:
        there = footprint.accelerator
        target = "cpu" if there is None else there.target
        tensors, expected = tensors_of(feed, target), flat(call(tensors_of(feed, target)))
        arena = footprint.arena(RESERVED_BYTES)
        try:
            usual = footprint.room(arena)
            self.is_same = all(map(_equal, _ran(usual, feed, tensors), expected))
            sliced = TorchRoom(footprint, arena, slice_bytes=1)
            if not all(map(_is_close, _ran(sliced, feed, tensors), expected)):
                raise Unplannable("its planned answers differ from its own")
            self.taken = taken_by_step(lambda m: sliced.call(tensors, mark=m), device=target)
        finally:
            arena.close()


def _ran(room: TorchRoom, feed: Feed, tensors: Mapping[str, Any]) -> tuple[Any, ...]:
    room.open(feed.rows, feed.length, RESERVED_BYTES)
    outputs = room.call(tensors)
    if outputs is None:
        raise Unplannable("its plan does not hold at a size that the model takes")
    return outputs


def flat(result: Any) -> list[Any]:
    """The tensors of a result, in order."""
    from torch.utils._pytree import tree_leaves

    return list(tree_leaves(result))


def _equal(one: Any, other: Any) -> bool:
    """Whether two tensors are the same bits, or both not a number."""
    first, second = (with_numpy_type(each).numpy(force=True) for each in (one, other))
    return bool(np.array_equal(first, second, equal_nan=one.is_floating_point()))


def _is_close(one: Any, other: Any) -> bool:
    if _equal(one, other):
        return True
    if not one.is_floating_point() or one.shape != other.shape:
        return False
    largest = float(other.abs().max())
    return bool(float((one - other).abs().max()) <= TOLERANCE * largest)


def tensors_of(feed: Feed, device: str = "cpu") -> dict[str, Any]:
    """Its inputs on a device; where they are floats, with numbers that tell answers apart."""
    import torch

    dice = np.random.default_rng(0)
    tensors = {}
    for name, array in feed.inputs.items():
        is_plain = array.dtype.kind == "f" and not array.any()
        filled = dice.standard_normal(array.shape).astype(array.dtype) if is_plain else array.copy()
        tensors[name] = torch.from_numpy(filled).to(device)
    return tensors


def _sample(program: PlannedProgram, feed: Feed, taken: Mapping[int, int] | None = None) -> Sample:
    symbols = program.symbols(tensors_of(feed))
    assert symbols is not None
    blocks = list(zip(program.outside, program.sizes_bytes(symbols)[1], strict=True))
    working = {}
    for step, most in (taken or {}).items():
        known = sum([size for block, size in blocks if block.start <= step <= block.last])
        if most > known:
            working[step] = most - known
    return Sample(feed.rows, feed.length, symbols, working)


def _says(program: PlannedProgram, share: float, *, is_same: bool) -> str:
    return (
        f"{len(program.placed)} of {len(program.placed) + len(program.outside)} tensors, "
        f"{int(100 * share)} % of the bytes, lie in the plan, {program.merged} results over what "
        f"they are made of; {'the same bits' if is_same else f'within {TOLERANCE}'} as without"
    )
