"""`ModelInferRequest` to the request that every door makes; an answer to `ModelInferResponse`."""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xirang.errors import InvalidRequest
from xirang.frontends.about import about_of
from xirang.frontends.grpc.inference import message
from xirang.frontends.v2.kserve import InferRequest, Wanted, shape_of
from xirang.frontends.v2.kserve_answer import datatype_of
from xirang.frontends.v2.shared_memory import NO_REGIONS, Place, Regions
from xirang.frontends.v2.special import CLASSIFICATION, place_of, special_of
from xirang.frontends.v2.tensor_forms import TEXT_SHOWN_MAX, from_binary, refuse_size, to_binary
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

ID_TAG, RAW_INPUT_TAG, RAW_OUTPUT_TAG = b"\x1a", b"\x3a", b"\x32"
"""What stands before an id, the third field of requests and of responses, and before raw tensors,
the seventh of requests and the sixth of responses."""

_ALL = Wanted(is_binary_default=True)


def decode(request: Any, regions: Regions = NO_REGIONS) -> InferRequest:
    """The request in a message.

    Args:
        request: A `ModelInferRequest`.
        regions: Of shared memory, in which inputs may lie.

    Raises:
        InvalidRequest: It contradicts the protocol; says where.
        UnknownRegion: An input lies in a region that there is not.
    """
    inputs, placed_bytes = _inputs(request, regions)
    wanted, parameters = _wanted(request.outputs), request.parameters
    if not parameters:
        about = about_of(request.id, None)
        return InferRequest(request.id, inputs, wanted, placed_bytes=placed_bytes, about=about)
    _refuse_reserved(parameters)
    return InferRequest(
        request.id,
        inputs,
        wanted,
        _unsigned(parameters, "timeout") * 1000 or None,
        _unsigned(parameters, "priority"),
        _is_true(parameters, "xirang_timing"),
        _is_true(parameters, "xirang_explain"),
        placed_bytes,
        about_of(request.id, {name: value_of(each) for name, each in parameters.items()}),
    )


def encode(
    outputs: Mapping[str, NDArray[Any]],
    model: tuple[str, str],
    *,
    identity: str,
    parameters: Mapping[str, bool | float | str],
    placed: Container[str] = (),
) -> bytes:
    """The `ModelInferResponse` of an answer, encoded.

    What says of which model and form the outputs are is the same for many answers, and made once.

    Args:
        outputs: Name to array, in the order to be sent.
        model: Name and version of who made them.
        identity: The request's id.
        parameters: Of the response.
        placed: Outputs whose elements the client finds in shared memory.

    Raises:
        ModelFailed: An output's type has no datatype in the protocol.
    """
    parts = [_model_part(*model)]
    if identity:
        parts.append(delimited(ID_TAG, identity.encode()))
    if parameters:
        parts.append(_parameters_part(parameters))
    raws: list[bytes] = []
    for name, array in outputs.items():
        datatype = datatype_of(name, array)
        parts.append(_output_part(name, datatype, array.shape))
        # One for each output, also where there is nothing in it: clients count them.
        raw = b"" if name in placed else to_binary(array, datatype)
        raws += (RAW_OUTPUT_TAG + varint(len(raw)), raw)
    return b"".join((*parts, *raws))


def delimited(tag: bytes, content: bytes) -> bytes:
    """A field of protobuf that says how long it is."""
    return b"%b%b%b" % (tag, varint(len(content)), content)


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    if number < 128:
        return bytes((number,))
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes((*groups, number))


@lru_cache(maxsize=256)
def _model_part(name: str, version: str) -> bytes:
    encoded: bytes = Response(model_name=name, model_version=version).SerializeToString()
    return encoded


@lru_cache(maxsize=1024)
def _output_part(name: str, datatype: str, shape: tuple[int, ...]) -> bytes:
    response = Response()
    response.outputs.add(name=name, datatype=datatype, shape=shape)
    encoded: bytes = response.SerializeToString()
    return encoded


def _parameters_part(parameters: Mapping[str, bool | float | str]) -> bytes:
    response = Response()
    for name, value in parameters.items():
        setattr(response.parameters[name], PARAMETER_FIELDS[type(value)], value)
    encoded: bytes = response.SerializeToString()
    return encoded


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
    asked = {o.name: _asked(o.parameters) for o in outputs if o.parameters}
    return Wanted(names, frozenset(names), special=special_of(asked) if asked else None)


def _asked(parameters: Any) -> dict[str, Any]:
    """What is asked of an output."""
    asked = {name: value_of(parameter) for name, parameter in parameters.items()}
    if CLASSIFICATION in asked and not _unsigned(parameters, CLASSIFICATION):
        raise InvalidRequest("invalid value for 'classification' parameter, expected >= 0")
    return asked


def _inputs(request: Any, regions: Regions) -> tuple[dict[str, Tensor], int]:
    """The inputs by name, and how many of their bytes come out of shared memory."""
    raw = request.raw_input_contents
    inputs: dict[str, Tensor] = {}
    used = placed_bytes = 0
    for element in request.inputs:
        name = element.name
        if name in inputs:
            raise InvalidRequest(f"input '{name}' already exists in request")
        blob = None
        if element.parameters and (place := _place(element)) is not None:
            placed_bytes += place.size_bytes
            regions.bound(placed_bytes)
            blob = regions.read(place)
        elif used < len(raw):
            blob = raw[used]
            used += 1
        if (blob is None) == (not element.HasField("contents")):
            raise InvalidRequest(_lack_or_excess(name, request.model_name, is_lack=blob is None))
        try:
            inputs[name] = _tensor(element, blob)
        except InvalidRequest as error:
            raise InvalidRequest(f"input '{name}': {error}") from None
    if used < len(raw):
        raise InvalidRequest(
            f"{len(raw)} raw_input_contents for {used} inputs; "
            "expected one for each that is not in shared memory, in their order"
        )
    return inputs, placed_bytes


def _place(element: Any) -> Place | None:
    return place_of({name: value_of(each) for name, each in element.parameters.items()})


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
