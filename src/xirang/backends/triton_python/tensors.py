"""Tensors and errors as model files for Triton's Python backend know them."""

from enum import IntEnum
from typing import Any

import numpy as np

from xirang.backends.requests import CODES
from xirang.tensors.tensor import DATATYPES, NUMPY_TYPES, Array, data_type_of

_CPU = (1, 0)
"""DLPack's device: the host, of which there is one."""

_BYTES = "BYTES"


class TritonModelException(Exception):
    """What a model asked for cannot be done."""


class TritonError:
    """What is wrong with one request."""

    class __ErrorCode(IntEnum):
        UNKNOWN = CODES.index("UNKNOWN")
        INTERNAL = CODES.index("INTERNAL")
        NOT_FOUND = CODES.index("NOT_FOUND")
        INVALID_ARG = CODES.index("INVALID_ARG")
        UNAVAILABLE = CODES.index("UNAVAILABLE")
        UNSUPPORTED = CODES.index("UNSUPPORTED")
        ALREADY_EXISTS = CODES.index("ALREADY_EXISTS")
        CANCELLED = CODES.index("CANCELLED")

    UNKNOWN = __ErrorCode.UNKNOWN
    INTERNAL = __ErrorCode.INTERNAL
    NOT_FOUND = __ErrorCode.NOT_FOUND
    INVALID_ARG = __ErrorCode.INVALID_ARG
    UNAVAILABLE = __ErrorCode.UNAVAILABLE
    UNSUPPORTED = __ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = __ErrorCode.ALREADY_EXISTS
    CANCELLED = __ErrorCode.CANCELLED

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message = str(message)
        self._code = type(self).INTERNAL.__class__(code)

    def message(self) -> str:
        """What is wrong."""
        return self._message

    def code(self) -> int:
        """Of what kind that is."""
        return self._code

    def __str__(self) -> str:
        return self._message


class Tensor:
    """A name and an array."""

    __slots__ = ("_array", "_name")

    def __init__(self, name: Any, array: Any) -> None:
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            raise TypeError(
                f"Tensor({type(name).__name__}, {type(array).__name__}); "
                "expected a name and a numpy.ndarray"
            )
        if _datatype(array) is None:
            raise TritonModelException(f"NumPy dtype is not supported: {array.dtype}")
        self._name = name
        self._array = array

    def name(self) -> str:
        """Its name."""
        return self._name

    def as_numpy(self) -> Array:
        """Its array, not copied; strings are bytes objects."""
        return self._array

    def shape(self) -> list[int]:
        """The array's."""
        return list(self._array.shape)

    def triton_dtype(self) -> str:
        """Its datatype, as of the Open Inference Protocol."""
        return str(_datatype(self._array))

    def is_cpu(self) -> bool:
        """It always lies in the host's memory here."""
        return True

    def to_dlpack(self) -> Any:
        """A DLPack capsule of its memory."""
        return self.__dlpack__()

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> "Tensor":
        """The tensor of a DLPack capsule, or of whatever gives one, not copied."""
        whole = tensor if hasattr(tensor, "__dlpack__") else _Capsule(tensor)
        return Tensor(name, np.from_dlpack(whole))

    def __dlpack__(self, **options: Any) -> Any:
        if self._array.dtype.kind in "OS":
            raise TritonModelException("DLPack does not have support for string tensors.")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


class _Capsule:
    """A bare capsule, for numpy, which asks what is behind it."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


def sent(tensor: Tensor) -> Array:
    """A tensor's array as it goes out: little-endian numbers, or bytes objects."""
    array = tensor.as_numpy()
    if array.dtype.kind in "OS":
        words: Array = np.empty(array.size, object)
        words[:] = [_word(element) for element in array.ravel()]
        return words.reshape(array.shape)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _word(element: Any) -> bytes:
    return element if isinstance(element, bytes) else str(element).encode()


def _datatype(array: Array) -> str | None:
    if array.dtype.kind in "OS":
        return _BYTES
    return DATATYPES.get(array.dtype.newbyteorder("<"))


TRITON_STRING_TO_NUMPY: dict[str, type] = {
    data_type_of(name): kind.type for name, kind in NUMPY_TYPES.items()
} | {"TYPE_BOOL": bool}
"""Datatypes of configurations; names are Triton's."""

_NUMBERED = ("TYPE_INVALID", *TRITON_STRING_TO_NUMPY)
"""By Triton's numbers, which run in the order of the Open Inference Protocol."""


def triton_string_to_numpy(name: str) -> type:
    """The type of numpy of a configuration's datatype."""
    return TRITON_STRING_TO_NUMPY[name]


def triton_to_numpy_type(number: int) -> type:
    """The type of numpy of Triton's number for a datatype."""
    return TRITON_STRING_TO_NUMPY[_NUMBERED[number]]


def numpy_to_triton_type(kind: Any) -> int:
    """Triton's number for a type of numpy."""
    return _NUMBERED.index(data_type_of(DATATYPES[np.dtype(kind)]))
