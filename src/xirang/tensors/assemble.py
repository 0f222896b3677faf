"""Stack requests into a run: their bytes go straight into one slab, padded to the target length.

Nothing is built per request but a slice: copying bytes into a slab through a memoryview costs a
tenth of what a numpy call would.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from xirang.core.signature import TensorSpec
from xirang.tensors.tensor import NUMPY_TYPES, Array, Tensor, to_array


class Slab:
    """Bytes that one instance assembles one input in, kept from run to run."""

    __slots__ = ("_bytes",)

    def __init__(self) -> None:
        self._bytes = bytearray()

    def reserve(self, size_bytes: int) -> bytearray:
        """At least this many bytes, of any content."""
        if len(self._bytes) < size_bytes:
            # By halves again: growing lengths do not allocate anew each time.
            self._bytes = bytearray(size_bytes + size_bytes // 2)
        return self._bytes


def assemble(
    spec: TensorSpec,
    tensors: Sequence[Tensor],
    *,
    axis: int | None,
    length: int,
    slab: Slab,
) -> Array:
    """One input of a run.

    Args:
        spec: The input.
        tensors: Each request's, shapes equal but for axis 0 and the length axis.
        axis: The length axis, or None if the input has none.
        length: The target length.
        slab: Where to put it; the result lives until the slab is used again.

    Returns:
        Shape: the sum of the rows, then the common shape with the target length; padding is 0.
    """
    first = tensors[0].shape
    rows = sum(tensor.shape[0] for tensor in tensors)
    shape = [rows, *first[1:]]
    if axis is not None:
        shape[axis] = length
    if spec.datatype == "BYTES":
        return _assemble_objects(tensors, shape)
    dtype = NUMPY_TYPES[spec.datatype]
    count = prod(shape)
    target = slab.reserve(count * dtype.itemsize)
    array = np.frombuffer(target, dtype, count).reshape(shape)
    if axis is None or all(tensor.shape[axis] == length for tensor in tensors):
        _concatenate(tensors, target)
    elif axis == 1:
        _pad_rows(tensors, target, row_bytes=count // rows * dtype.itemsize)
    else:
        _pad_any(tensors, array, axis)
    return array


def _concatenate(tensors: Sequence[Tensor], target: bytearray) -> None:
    view = memoryview(target)
    offset = 0
    for tensor in tensors:
        size = len(tensor.data)
        view[offset : offset + size] = tensor.data  # type: ignore[assignment]
        offset += size


def _pad_rows(tensors: Sequence[Tensor], target: bytearray, *, row_bytes: int) -> None:
    """The length is the first axis of a row: a row's bytes stand together, its padding behind."""
    view = memoryview(target)
    zeros = bytes(row_bytes)
    offset = 0
    for tensor in tensors:
        data = memoryview(tensor.data)  # type: ignore[arg-type]
        size = len(data) // tensor.shape[0]
        for begin in range(0, len(data), size):
            view[offset : offset + size] = data[begin : begin + size]
            view[offset + size : offset + row_bytes] = zeros[size:]
            offset += row_bytes


def _pad_any(tensors: Sequence[Tensor], array: Array, axis: int) -> None:
    array[:] = 0
    row = 0
    for tensor in tensors:
        index = [slice(None)] * array.ndim
        index[0] = slice(row, row + tensor.shape[0])
        index[axis] = slice(0, tensor.shape[axis])
        array[tuple(index)] = to_array(tensor)
        row += tensor.shape[0]


def _assemble_objects(tensors: Sequence[Tensor], shape: Sequence[int]) -> Array:
    array = np.empty(prod(shape), object)
    array[:] = [element for tensor in tensors for element in tensor.data]
    return array.reshape(shape)
