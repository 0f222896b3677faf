"""A tensor on its way in: datatype, shape and bytes; nothing is copied before assembly."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from xirang.errors import InvalidRequest

Array = NDArray[Any]

NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype(object),
}
"""Datatypes of the Open Inference Protocol, section "Tensor Data", as numpy types."""

DATATYPES: dict[np.dtype[Any], str] = {v: k for k, v in NUMPY_TYPES.items()}


def data_type_of(datatype: str) -> str:
    """A datatype as Triton's model configurations write it, such as `TYPE_FP32`."""
    return "TYPE_STRING" if datatype == "BYTES" else f"TYPE_{datatype}"


class Tensor(msgspec.Struct, gc=False):
    """One input of one request.

    Attributes:
        datatype: A key of `NUMPY_TYPES`.
        shape: Batch axis included.
        data: Little-endian row-major bytes; for BYTES a list with one bytes object an element.
    """

    datatype: str
    shape: tuple[int, ...]
    data: bytes | memoryview | list[bytes]


def of_array(array: Array) -> Tensor:
    """The tensor of a numpy array.

    Args:
        array: Any shape. Object and string arrays become BYTES (strings as UTF-8).

    Raises:
        TypeError: Its type has no datatype in the Open Inference Protocol.
    """
    if array.dtype.kind in "OSU":
        flat = [v if isinstance(v, bytes) else str(v).encode() for v in array.ravel()]
        return Tensor("BYTES", array.shape, flat)
    contiguous = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    datatype = DATATYPES.get(contiguous.dtype)
    if datatype is None:
        raise TypeError(f"no datatype for numpy {array.dtype}; expected one of {list(NUMPY_TYPES)}")
    return Tensor(datatype, array.shape, contiguous.reshape(-1).view(np.uint8).data)


def to_array(tensor: Tensor) -> Array:
    """The numpy array of a tensor (a view of its bytes where there are bytes)."""
    if isinstance(tensor.data, list):
        array = np.empty(len(tensor.data), object)
        array[:] = tensor.data
        return array.reshape(tensor.shape)
    return np.frombuffer(tensor.data, NUMPY_TYPES[tensor.datatype]).reshape(tensor.shape)


def rows_of(tensor: Tensor, axis: int, begin: int, count: int) -> Tensor:
    """Some of a tensor's rows: a view of its bytes where they stand together.

    Args:
        tensor: Any.
        axis: Where its rows are counted.
        begin: The first row.
        count: How many.
    """
    shape = (*tensor.shape[:axis], count, *tensor.shape[axis + 1 :])
    if axis == 0:
        per_row = len(tensor.data) // tensor.shape[0]
        data = tensor.data if isinstance(tensor.data, list) else memoryview(tensor.data)
        return Tensor(tensor.datatype, shape, data[begin * per_row : (begin + count) * per_row])
    rows = to_array(tensor)[(slice(None),) * axis + (slice(begin, begin + count),)]
    return Tensor(tensor.datatype, shape, of_array(rows).data)


def cropped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The part of a tensor that stands first along every axis."""
    if tensor.shape == shape:
        return tensor
    part = to_array(tensor)[tuple(slice(size) for size in shape)]
    return Tensor(tensor.datatype, shape, of_array(part).data)


def decoded(array: Array, name: str) -> Array:
    """An array of UTF-8 bytes as one of strings, for a model that takes text.

    Args:
        array: Of bytes objects.
        name: Of the input.

    Raises:
        InvalidRequest: An element is not UTF-8.
    """
    words = np.empty(array.size, object)
    try:
        words[:] = [element.decode() for element in array.ravel()]
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"input '{name}' holds bytes that are not UTF-8: {error}") from error
    return words.reshape(array.shape)
