"""What a callable, a module or an archive says of its inputs and outputs, as tensor specs."""

from typing import Any

from xirang.core.signature import Dim, TensorSpec
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import NUMPY_TYPES


def declared_specs(declared: Any, what: str) -> tuple[TensorSpec, ...]:
    """Specs with a batch axis in front.

    Args:
        declared: Name to datatype and dims of one row: a size, -1 where it may vary, or a word
            that ties axes of the same word.
        what: Is declared, for the error.

    Raises:
        InvalidSetting: It is not understood.
    """
    try:
        return tuple(
            TensorSpec(name, _datatype(datatype), (None, *(_dim(dim) for dim in dims)))
            for name, (datatype, dims) in declared.items()
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidSetting(
            f"{what} is {declared!r} ({error}); "
            "expected a dict of name to (datatype, dims), as {'x': ('FP32', [64])}"
        ) from error


def _datatype(name: str) -> str:
    if name not in NUMPY_TYPES:
        raise ValueError(f"unknown datatype {name!r}, known are {', '.join(NUMPY_TYPES)}")
    return name


def _dim(dim: int | str) -> Dim:
    return None if dim == -1 else dim
