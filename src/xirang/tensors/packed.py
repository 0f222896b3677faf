"""Sequences end to end instead of padded rows: concatenate them, and cut the answers apart again.

A packed run has no padding. An input with a length is laid out as [all elements, …], row after
row, and one more input says where each row begins and ends.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from xirang.core.signature import ROWS_FIRST, Layout, Tie
from xirang.tensors.assemble import Take
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import NUMPY_TYPES, Array, Tensor

OFFSETS = "cu_seqlens"
"""Name of the input with the offsets; models with packed attention know it under this name."""


def can_pack(layouts: Mapping[str, Layout]) -> bool:
    """Whether requests of these layouts can be laid end to end.

    The length has to be one, and the axis behind the rows: only so are a request's bytes already
    in order, and packing copies each of them once.
    """
    return all(
        layout.batch_axis == 0 and layout.ties in ((), (Tie(1),)) for layout in layouts.values()
    )


def offsets(*, rows: Sequence[int], lengths: Sequence[int]) -> Array:
    """Where each row begins, and where the last one ends: int64, one more than there are rows.

    Args:
        rows: Rows of each owner.
        lengths: Length of each owner's rows.
    """
    bounds = np.zeros(sum(rows) + 1, np.int64)
    np.cumsum(np.repeat(lengths, rows), out=bounds[1:])
    return bounds


def pack(tensors: Sequence[Tensor], layout: Layout, take: Take | None = None) -> Array:
    """One input of a packed run.

    Args:
        tensors: Each request's, shapes equal but for the rows and the length.
        layout: What its axes mean.
        take: Gives the memory for it; a new array has memory of its own.

    Returns:
        Shape: rows × length in sum and what is behind them; rows in sum where it has no length.
    """
    first = 2 if layout.ties else 1
    shape = (sum(prod(tensor.shape[:first]) for tensor in tensors), *tensors[0].shape[first:])
    parts: list[Any] = [tensor.data for tensor in tensors]
    dtype = NUMPY_TYPES[tensors[0].datatype]
    if dtype.kind == "O":
        array = np.empty(prod(shape), object)
        array[:] = [word for part in parts for word in part]
        return array.reshape(shape)
    if take is None:
        return np.frombuffer(bytearray().join(parts), dtype).reshape(shape)
    array = take(shape, dtype)
    own: Any = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    begin = 0
    for part in parts:
        end = begin + len(part)
        own[begin:end] = part
        begin = end
    return array


def unpack(
    outputs: Mapping[str, Array],
    *,
    rows: Sequence[int],
    lengths: Sequence[int],
    layouts: Mapping[str, Layout],
) -> dict[str, list[Array]]:
    """Every output in parts, one an owner, in the order of the rows; views, as `split` gives.

    Args:
        outputs: Name to array; axis 0 counts elements where the layout ties axis 1 to the length,
            else rows.
        rows: Rows of each owner.
        lengths: Length of each owner's rows.
        layouts: Output name to what its axes mean in a run that is not packed.

    Raises:
        RowsMismatchError: Axis 0 of an output is not as long as it has to be.
    """
    elements = [count * length for count, length in zip(rows, lengths, strict=True)]
    parts: dict[str, list[Array]] = {}
    for name, array in outputs.items():
        has_length = bool(layouts.get(name, ROWS_FIRST).ties)
        sizes = elements if has_length else rows
        if array.ndim == 0 or array.shape[0] != sum(sizes):
            raise RowsMismatchError(
                f"output '{name}' of a packed run has shape {array.shape}; "
                f"expected {sum(sizes)} as its first dimension"
            )
        begin = 0
        parts[name] = own = []
        for size, count, length in zip(sizes, rows, lengths, strict=True):
            part = array[begin : begin + size]
            own.append(part.reshape(count, length, *array.shape[1:]) if has_length else part)
            begin += size
    return parts
