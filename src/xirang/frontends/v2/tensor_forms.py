"""One tensor's elements on the wire, both ways: a JSON list, or binary bytes.

Numbers go from JSON to bytes by one precompiled `struct` call, which is quicker than numpy
here and stricter: it refuses text, null, fractions for integers, and values out of range.
"""

import functools
import itertools
import struct
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.errors import InvalidRequest
from xirang.tensors.tensor import NUMPY_TYPES

CODES = {
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP32": "f",
    "FP64": "d",
}
"""Datatypes whose elements are JSON numbers, with their `struct` letters."""

NESTING_MAX = 8
"""Depth of nested lists that is always read; deeper only for tensors of that rank."""

COPY_BYTES_MAX = 4096
"""Up to here a copy is cheaper than a memoryview, and lets go of the body."""

TEXT_SHOWN_MAX = 40

_LENGTH = struct.Struct("<I")
_ITEM_BYTES = {name: dtype.itemsize for name, dtype in NUMPY_TYPES.items()}


@functools.lru_cache(maxsize=4096)
def _packer(code: str, count: int) -> struct.Struct:
    return struct.Struct(f"<{count}{code}")


def from_json(
    data: Any, datatype: str, count: int, *, rank: int, may_hold_bool: bool
) -> bytes | list[bytes]:
    """The elements of a JSON `data` member.

    Args:
        data: A list, flat or nested.
        datatype: Of the tensor.
        count: Elements that the tensor's shape has.
        rank: Axes that the shape has.
        may_hold_bool: False only when the JSON text holds neither `true` nor `false`, which
            spares the look at each element (to Python, and so to `struct`, a bool is an int).

    Raises:
        InvalidRequest: Elements of another type or number, or out of the datatype's range.
    """
    if type(data) is not list:
        raise InvalidRequest(f"'data' must be an array, got {kind(data)}")
    if data and type(data[0]) is list:
        data = _flattened(data, depth_max=max(rank, NESTING_MAX))
    if len(data) != count:
        raise InvalidRequest(f"'data' has {len(data)} elements, but 'shape' asks for {count}")
    code = CODES.get(datatype)
    if code is None:
        return _special(data, datatype)
    if may_hold_bool:
        _refuse_other_than(data, {int, float}, datatype)
    try:
        return _packer(code, count).pack(*data)
    except (struct.error, OverflowError):
        raise InvalidRequest(_first_fault(data, datatype)) from None


def _special(data: list[Any], datatype: str) -> bytes | list[bytes]:
    """Elements that are not numbers."""
    match datatype:
        case "BYTES":
            _refuse_other_than(data, {str}, datatype)
            return [element.encode() for element in data]
        case "BOOL":
            _refuse_other_than(data, {bool}, datatype)
            return bytes(data)
    raise InvalidRequest(
        f"receiving {datatype} data via JSON is not supported. Please use the binary data format"
    )


def _flattened(data: list[Any], *, depth_max: int) -> list[Any]:
    for _ in range(depth_max - 1):
        if set(map(type, data)) != {list}:
            raise InvalidRequest("'data' must be nested evenly: lists and elements stand mixed")
        data = data[0] if len(data) == 1 else list(itertools.chain.from_iterable(data))
        if not data or type(data[0]) is not list:
            return data
    raise InvalidRequest(f"'data' is nested deeper than {depth_max} levels")


def _refuse_other_than(data: list[Any], types: set[type], datatype: str) -> None:
    if not types.issuperset(map(type, data)):
        fault = next(element for element in data if type(element) not in types)
        raise InvalidRequest(
            f"'data' of {datatype} holds {kind(fault)}; expected {_expected(datatype)}"
        )


def _first_fault(data: list[Any], datatype: str) -> str:
    packer = _packer(CODES[datatype], 1)
    for position, element in enumerate(data):
        try:
            packer.pack(element)
        except struct.error:
            what = f"{element} out of range" if type(element) is int else kind(element)
            return (
                f"'data' of {datatype} holds {what} at {position}; expected {_expected(datatype)}"
            )
        except OverflowError:
            return f"'data' of {datatype} holds {element} at {position}, which is out of range"
    raise AssertionError("each element packs alone but not all together")


def _expected(datatype: str) -> str:
    match datatype:
        case "BYTES":
            return "strings"
        case "BOOL":
            return "true or false"
        case "FP32" | "FP64":
            return "numbers"
    limits = np.iinfo(NUMPY_TYPES[datatype])
    return f"integers from {limits.min} to {limits.max}"


def kind(value: Any) -> str:
    """What a JSON value is, in a few words, whatever its size and depth."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value[:TEXT_SHOWN_MAX]!r}"
        case list():
            return "an array"
    return "an object"


def from_binary(blob: memoryview, datatype: str, count: int) -> bytes | memoryview | list[bytes]:
    """The elements of one input's binary bytes.

    Raises:
        InvalidRequest: Too few or too many bytes, or BYTES elements that do not add up.
    """
    if datatype == "BYTES":
        return _strings(blob, count)
    refuse_size(len(blob), datatype, count)
    return bytes(blob) if len(blob) <= COPY_BYTES_MAX else blob


def refuse_size(size_bytes: int, datatype: str, count: int) -> None:
    """Check that so many bytes are just so many elements.

    Raises:
        InvalidRequest: They are not.
    """
    expected = count * _ITEM_BYTES[datatype]
    if size_bytes != expected:
        raise InvalidRequest(f"input byte size mismatch. Expected {expected}, got {size_bytes}")


def _strings(blob: memoryview, count: int) -> list[bytes]:
    elements: list[bytes] = []
    offset, end = 0, len(blob)
    while offset < end:
        if end - offset < 4:
            raise InvalidRequest(
                "incomplete string length indicator, "
                f"expecting 4 bytes but only {end - offset} bytes available"
            )
        (length,) = _LENGTH.unpack_from(blob, offset)
        offset += 4
        if length > end - offset:
            raise InvalidRequest(
                f"incomplete string data, expecting string of length {length} "
                f"but only {end - offset} bytes available"
            )
        elements.append(bytes(blob[offset : offset + length]))
        offset += length
    if len(elements) != count:
        raise InvalidRequest(f"expected {count} string elements, got {len(elements)}")
    return elements


def to_json(array: NDArray[Any], datatype: str) -> bytes:
    """The elements as one flat JSON array.

    FP32 is written as the shortest text that reads back as the same float32. NaN and the
    infinities, which JSON lacks, are written as `NaN` and `Infinity`, as Triton does and its
    clients read: null would turn into something else without a word.

    Raises:
        InvalidRequest: The datatype, or these bytes, cannot be written as JSON.
    """
    if datatype == "BYTES":
        return _strings_to_json(array)
    if datatype == "FP16":
        raise InvalidRequest(
            "sending FP16 data via JSON is not supported. "
            "Please use the binary data format for output"
        )
    flat = array.reshape(-1)
    if not flat.flags.c_contiguous:
        flat = np.ascontiguousarray(flat)
    text = orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)
    # For bytes, `find` takes less than half the time of `in`.
    return _with_non_finite(flat, text) if text.find(b"null") >= 0 else text


def _with_non_finite(flat: NDArray[Any], text: bytes) -> bytes:
    words = text[1:-1].split(b",")
    for position in np.flatnonzero(~np.isfinite(flat)):
        value = flat[position]
        words[position] = b"NaN" if np.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"
    return b"[%b]" % b",".join(words)


def _strings_to_json(array: NDArray[Any]) -> bytes:
    try:
        return orjson.dumps([element.decode() for element in _elements(array)])
    except UnicodeDecodeError:
        raise InvalidRequest(
            "an output of BYTES is not UTF-8 and cannot be sent via JSON. "
            "Please use the binary data format"
        ) from None


def to_binary(array: NDArray[Any], datatype: str) -> bytes:
    """The elements as little-endian row-major bytes; BYTES with a length before each."""
    if datatype != "BYTES":
        return array.tobytes()
    parts: list[bytes] = []
    for element in _elements(array):
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def _elements(array: NDArray[Any]) -> list[bytes]:
    flat = array.reshape(-1).tolist()
    return [v if type(v) is bytes else str(v).encode() for v in flat]
