"""`ModelInferRequest` to the request that every door makes; an answer to `ModelInferResponse`."""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xirang.errors import InvalidRequest
from xirang.frontends.grpc.inference import message
from xirang.frontends.kserve import InferRequest, Wanted, refuse_shared_memory, shape_of
from xirang.frontends.kserve_answer import datatype_of
from xirang.frontends.tensor_forms import TEXT_SHOWN_MAX, from_binary, refuse_size, to_binary
from xirang.tensors.tensor import NUMPY_TYPES, Tensor

Request = message("ModelInferRequest")
Response = message("ModelInferResponse")

CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""Where the elements of each datatype stand when they are not raw. FP16 has no such place."""

WIRE_TYPES = {"int_contents": np.dtype("<i4"), "uint_contents": np.dtype("<u4")}
"""Fields that hold narrower integers too."""

PARAMETER_FIELDS = {
    bool: "bool_param",
    int: "int64_param",
    str: "string_param",
    float: "double_param",
}

EMPTY_FINAL_RESPONSE = "triton_enable_empty_final_response"
"""A stream's clients send it; it concerns models that answer more than once."""

_ALL = Wanted(is_binary_default=True)


def decode(request: Any) -> InferRequest:
    """The request in a message.

    Args:
        request: A `ModelInferRequest`.

    Raises:
        InvalidRequest: It contradicts the protocol; says where.
    """
    inputs, wanted, parameters = _inputs(request), _wanted(request.outputs), request.parameters
    if not parameters:
        return InferRequest(request.id, inputs, wanted)
    _refuse_reserved(parameters)
    return InferRequest(
        request.id,
        inputs,
        wanted,
        _unsigned(parameters, "timeout") * 1000 or None,
        _unsigned(parameters, "priority"),
        _is_true(parameters, "xirang_timing"),
        _is_true(parameters, "xirang_explain"),
    )


def encode(
    outputs: Mapping[str, NDArray[Any]],
    model: tuple[str, str],
    *,
    identity: str,
    parameters: Mapping[str, bool | float | str],
) -> Any:
    """The `ModelInferResponse` of an answer.

    Args:
        outputs: Name to array, in the order to be sent.
        model: Name and version of who made them.
        identity: The request's id.
        parameters: Of the response.

    Raises:
        ModelFailed: An output's type has no datatype in the protocol.
    """
    response = Response(model_name=model[0], model_version=model[1], id=identity)
    for name, array in outputs.items():
        datatype = datatype_of(name, array)
        response.outputs.add(name=name, datatype=datatype, shape=array.shape)
        response.raw_output_contents.append(to_binary(array, datatype))
    for name, value in parameters.items():
        setattr(response.parameters[name], PARAMETER_FIELDS[type(value)], value)
    return response


def value_of(parameter: Any) -> Any:
    """What an `InferParameter` holds; None if nothing."""
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def _refuse_reserved(parameters: Iterable[str]) -> None:
    for name in parameters:
        if name.startswith("triton_") and name != EMPTY_FINAL_RESPONSE:
            raise InvalidRequest(
                "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "
                f"following keys starting with 'triton_' are allowed: {EMPTY_FINAL_RESPONSE}"
            )


def _is_true(parameters: Mapping[str, Any], name: str) -> bool:
    return name in parameters and value_of(parameters[name]) is True


def _unsigned(parameters: Mapping[str, Any], name: str) -> int:
    """A parameter's value; 0 if it is not there."""
    if name not in parameters:
        return 0
    value = value_of(parameters[name])
    if type(value) is not int:
        raise InvalidRequest(
            f"invalid value type for '{name}' parameter, expected int64_param or uint64_param."
        )
    if value < 0:
        raise InvalidRequest(f"invalid value for '{name}' parameter, expected >= 0")
    return value


def _wanted(outputs: Any) -> Wanted:
    if not outputs:
        return _ALL
    names = tuple(dict.fromkeys(output.name for output in outputs))
    for output in outputs:
        if output.parameters:
            _check_output(output)
    return Wanted(names, frozenset(names))


def _check_output(output: Any) -> None:
    refuse_shared_memory(output.parameters)
    if "classification" in output.parameters:
        if not _unsigned(output.parameters, "classification"):
            raise InvalidRequest("invalid value for 'classification' parameter, expected >= 0")
        raise InvalidRequest(
            f"output '{output.name}': classification is not served here; "
            "ask for the tensor and rank it in the client"
        )


def _inputs(request: Any) -> dict[str, Tensor]:
    raw = request.raw_input_contents
    if len(raw) > len(request.inputs):
        raise InvalidRequest(
            f"{len(raw)} raw_input_contents for {len(request.inputs)} inputs; "
            "expected one for each, in their order"
        )
    inputs: dict[str, Tensor] = {}
    for index, element in enumerate(request.inputs):
        name = element.name
        if name in inputs:
            raise InvalidRequest(f"input '{name}' already exists in request")
        blob = raw[index] if index < len(raw) else None
        if (blob is None) == (not element.HasField("contents")):
            raise InvalidRequest(_lack_or_excess(name, request.model_name, is_lack=blob is None))
        try:
            inputs[name] = _tensor(element, blob)
        except InvalidRequest as error:
            raise InvalidRequest(f"input '{name}': {error}") from None
    return inputs


def _lack_or_excess(name: str, model: str, *, is_lack: bool) -> str:
    """Triton's words for an input whose elements are nowhere, or in both places."""
    if is_lack:
        return f"unable to find data for input tensor '{name}' for model '{model}' in request."
    return (
        "contents field must not be specified when using raw_input_contents for "
        f"'{name}' for model '{model}'"
    )


def _tensor(element: Any, blob: bytes | None) -> Tensor:
    datatype = element.datatype
    if datatype not in NUMPY_TYPES:
        raise InvalidRequest(
            f"the datatype is {datatype[:TEXT_SHOWN_MAX]!r}; "
            f"expected one of {', '.join(NUMPY_TYPES)}"
        )
    if element.parameters:
        refuse_shared_memory(element.parameters)
    shape = shape_of(list(element.shape))
    if blob is None:
        return Tensor(datatype, shape, _typed(element.contents, datatype, prod(shape)))
    if datatype == "BYTES":
        return Tensor(datatype, shape, from_binary(memoryview(blob), datatype, prod(shape)))
    refuse_size(len(blob), datatype, prod(shape))
    return Tensor(datatype, shape, blob)


def _typed(contents: Any, datatype: str, count: int) -> bytes | list[bytes]:
    """The elements of a tensor that come as numbers, not raw."""
    field = CONTENTS.get(datatype)
    given = [described.name for described, _ in contents.ListFields()]
    if field is None or any(name != field for name in given):
        place = f"in {field}" if field else "raw only: there is no field for them"
        raise InvalidRequest(
            f"elements of {datatype} are expected {place}, not in {', '.join(given) or 'contents'}"
        )
    elements = getattr(contents, field)
    if len(elements) != count:
        raise InvalidRequest(
            f"{field} has {len(elements)} elements, but the shape asks for {count}"
        )
    if datatype == "BYTES":
        return list(elements)
    return _narrowed(np.array(elements, WIRE_TYPES.get(field, NUMPY_TYPES[datatype])), datatype)


def _narrowed(array: NDArray[Any], datatype: str) -> bytes:
    """Their bytes; small integers come as larger ones and must be in range."""
    narrow = array.astype(NUMPY_TYPES[datatype])
    if narrow.dtype != array.dtype and (faults := np.flatnonzero(narrow != array)).size:
        limits = np.iinfo(narrow.dtype)
        raise InvalidRequest(
            f"{array[faults[0]]} is out of range; "
            f"expected integers from {limits.min} to {limits.max}"
        )
    return narrow.tobytes()
