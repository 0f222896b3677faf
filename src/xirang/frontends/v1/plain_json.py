"""Tensors as plain JSON values, whose shape is told by their nesting."""

import base64
from math import prod
from typing import Any

from numpy.typing import NDArray

from xirang.errors import InvalidRequest
from xirang.frontends.service import TensorSpec
from xirang.frontends.v2.kserve_answer import datatype_of
from xirang.frontends.v2.tensor_forms import from_json, kind, to_json
from xirang.tensors.tensor import Tensor

RANK_MAX = 32


def nested_shape(value: Any) -> tuple[int, ...]:
    """The shape of a value: none for a scalar, else the lengths of its lists, outermost first.

    Raises:
        InvalidRequest: It is nested too deep.
    """
    shape = []
    while type(value) is list:
        shape.append(len(value))
        if len(shape) > RANK_MAX:
            raise InvalidRequest(f"a value is nested deeper than {RANK_MAX} levels")
        value = value[0] if value else None
    return tuple(shape)


def tensor_of(value: Any, spec: TensorSpec, shape: tuple[int, ...]) -> Tensor:
    """A value as an input of a model.

    Args:
        value: A scalar, or a list that holds as much as the shape.
        spec: Of the input.
        shape: That it is to have.

    Raises:
        InvalidRequest: It holds other elements than that.
    """
    flat, count = value if type(value) is list else [value], prod(shape)
    data: bytes | list[bytes]
    try:
        if spec.datatype == "BYTES":
            data = _words(flat, count)
        else:
            data = from_json(flat, spec.datatype, count, rank=len(shape), may_hold_bool=True)
    except InvalidRequest as error:
        raise InvalidRequest(f"input '{spec.name}': {error}") from None
    return Tensor(spec.datatype, shape, data)


def _words(values: list[Any], count: int) -> list[bytes]:
    """Strings, or bytes as `{"b64": …}`, out of lists in lists."""
    for _ in range(RANK_MAX):
        if not any(type(each) is list for each in values):
            break
        values = [e for each in values for e in (each if type(each) is list else [each])]
    if len(values) != count:
        raise InvalidRequest(f"holds {len(values)} elements; expected {count}")
    return [_word(each) for each in values]


def _word(value: Any) -> bytes:
    if type(value) is str:
        return value.encode()
    if type(value) is dict and value.keys() == {"b64"} and type(value["b64"]) is str:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except ValueError:
            raise InvalidRequest("'b64' is not base64") from None
    raise InvalidRequest(f"holds {kind(value)}; expected a string or {{'b64': …}}")


def spec_of(name: Any, specs: tuple[TensorSpec, ...]) -> TensorSpec:
    """The input of that name.

    Raises:
        InvalidRequest: There is none.
    """
    for spec in specs:
        if spec.name == name:
            return spec
    raise InvalidRequest(
        f"unknown input {kind(name)}; expected some of {[spec.name for spec in specs]}"
    )


def flat_json(name: str, array: NDArray[Any]) -> bytes:
    """An output as one flat list.

    Raises:
        ModelFailed: It has no datatype in the protocol.
        InvalidRequest: It cannot be written as JSON.
    """
    return to_json(array, datatype_of(name, array))


def nested_json(name: str, array: NDArray[Any]) -> bytes:
    """An output as lists in lists, as deep as it has axes."""
    if array.ndim <= 1:
        text = flat_json(name, array)
        return text if array.ndim else text[1:-1]
    return b"[%b]" % b",".join([nested_json(name, row) for row in array])
