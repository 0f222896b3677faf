"""Open Inference Protocol v2, infer: wire bytes to a request and an answer to wire bytes.

Nothing here knows HTTP; the JSON head and the binary tensors behind it are the same for
every door that speaks v2.
"""

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import msgspec
import orjson

from xirang.backends.requests import About
from xirang.errors import InvalidRequest
from xirang.frontends.about import about_of
from xirang.frontends.v2.alike import Alikes
from xirang.frontends.v2.shared_memory import NO_REGIONS, Place, Regions
from xirang.frontends.v2.special import Special, place_of, special_of
from xirang.frontends.v2.tensor_forms import (
    COPY_BYTES_MAX,
    from_binary,
    from_json,
    kind,
    refuse_size,
)
from xirang.tensors.tensor import NUMPY_TYPES, Tensor

RANK_MAX = 32
NUMBER_MAX = 2**63 - 1
HEADS_KEPT_MAX = 256
HEAD_KEPT_BYTES_MAX = 2048

_heads: "dict[bytes, _Head]" = {}
"""Heads of binary requests as parsed: a steady client sends the same bytes each time, and what
they mean depends on nothing else. Bounded; emptied when full."""


class Wanted(msgspec.Struct, frozen=True):
    """Which outputs a client asked for, and in which form.

    Attributes:
        names: None for all.
        binary: Those of `names` to be sent as binary.
        is_binary_default: The form of outputs when none are named.
        special: What is asked of some of them beside that; None if nothing is.
    """

    names: tuple[str, ...] | None = None
    binary: frozenset[str] = frozenset()
    is_binary_default: bool = False
    special: Special | None = None

    def is_binary(self, name: str) -> bool:
        """Whether that output goes out as binary."""
        return self.is_binary_default if self.names is None else name in self.binary


class InferRequest(msgspec.Struct, frozen=True, gc=False):
    """What an infer request says, whatever door it came through.

    Attributes:
        id: Echoed in the response unless empty.
        inputs: Name to tensor.
        wanted: Outputs and their forms.
        budget_ns: Of the parameter `timeout`; None when there is none.
        priority: 1 is the highest, 0 the model's default.
        is_timed: The answer shall say where the time went.
        is_explained: And why it came when it came.
        placed_bytes: What was copied for it out of shared memory.
        about: What models may want to know of it besides its tensors; None for nothing.
    """

    id: str
    inputs: dict[str, Tensor]
    wanted: Wanted
    budget_ns: int | None = None
    priority: int = 0
    is_timed: bool = False
    is_explained: bool = False
    placed_bytes: int = 0
    about: About | None = None


class _Blob(msgspec.Struct, frozen=True):
    """An input whose elements follow the JSON head."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    count: int
    size_bytes: int
    is_small: bool
    """Whether its bytes are copied and looked at no more."""


class _Placed(msgspec.Struct, frozen=True):
    """An input whose elements lie in shared memory."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    count: int
    place: Place


class _Elements(msgspec.Struct, frozen=True):
    """A request in JSON but for the elements of its only input."""

    request: InferRequest
    name: str
    datatype: str
    shape: tuple[int, ...]
    count: int


_alikes: Alikes[_Elements] = Alikes()


class _Head(msgspec.Struct):
    """A parsed JSON head: the request, and the inputs whose bytes are still to be bound."""

    request: InferRequest
    blobs: list[_Blob] = []
    blob_bytes: int = 0
    placed: list[_Placed] = []


def decode(
    body: bytes, header_length: int | None = None, regions: Regions = NO_REGIONS
) -> InferRequest:
    """The request in a body of JSON, or of a JSON head with binary tensors behind it.

    Args:
        body: All of it.
        header_length: Bytes of the JSON head, above 0; None when all is JSON.
        regions: Of shared memory, in which inputs may lie.

    Raises:
        InvalidRequest: The body contradicts the protocol; the message says where.
        UnknownRegion: An input lies in a region that there is not.
    """
    if header_length is None:
        alike = _read_again(body)
        if alike is not None:
            return alike
        head = _parse(body)
        if head.blobs:
            raise InvalidRequest(
                f"'binary_data_size' of input '{head.blobs[0].name}' needs the header "
                "Inference-Header-Content-Length"
            )
        if head.placed:
            size_bytes = _fetch(head.placed, regions, head.request.inputs)
            return msgspec.structs.replace(head.request, placed_bytes=size_bytes)
        _keep(body, head.request)
        return head.request
    if not 0 < header_length <= len(body):
        raise InvalidRequest(
            f"inference header size should be in range (0, {len(body)}), got: {header_length}"
        )
    text = body[:header_length]
    known = _heads.get(text)
    if known is None:
        known = _parse(text)
        if header_length <= HEAD_KEPT_BYTES_MAX:
            if len(_heads) >= HEADS_KEPT_MAX:
                _heads.clear()
            _heads[text] = known
    return _bind(known, body, header_length, regions)


def _keep(text: bytes, request: InferRequest) -> None:
    """Whoever tells one request from another in words sends no two that are alike."""
    if request.about is not None or len(request.inputs) != 1:
        return
    bare = msgspec.structs.replace(request, inputs={})
    for name, tensor in request.inputs.items():
        shape = tensor.shape
        _alikes.keep(text, _Elements(bare, name, tensor.datatype, shape, prod(shape)))


def _read_again(text: bytes) -> InferRequest | None:
    """A request that is like one before it but for the elements; None: read all of it."""
    found = _alikes.find(text)
    if found is None:
        return None
    known, elements = found
    may_hold_bool = elements.find(b"u") >= 0 or elements.find(b"l") >= 0
    try:
        data = from_json(
            orjson.loads(elements),
            known.datatype,
            known.count,
            rank=len(known.shape),
            may_hold_bool=may_hold_bool,
        )
    except (orjson.JSONDecodeError, InvalidRequest):
        return None  # what is wrong is told by who reads all of it
    request = known.request
    return InferRequest(
        "",
        {known.name: Tensor(known.datatype, known.shape, data)},
        request.wanted,
        request.budget_ns,
        request.priority,
        request.is_timed,
        request.is_explained,
    )


def _bind(head: _Head, body: bytes, offset: int, regions: Regions) -> InferRequest:
    if len(body) - offset != head.blob_bytes:
        raise InvalidRequest(
            f"the 'binary_data_size' of all inputs add up to {head.blob_bytes} bytes, "
            f"but {len(body) - offset} follow the JSON head"
        )
    request = head.request
    inputs = request.inputs.copy()
    for blob in head.blobs:
        end = offset + blob.size_bytes
        data = body[offset:end] if blob.is_small else _large(blob, memoryview(body)[offset:end])
        inputs[blob.name] = Tensor(blob.datatype, blob.shape, data)
        offset = end
    placed_bytes = _fetch(head.placed, regions, inputs) if head.placed else 0
    return InferRequest(
        request.id,
        inputs,
        request.wanted,
        request.budget_ns,
        request.priority,
        request.is_timed,
        request.is_explained,
        placed_bytes,
        request.about,
    )


def _large(blob: _Blob, view: memoryview) -> bytes | memoryview | list[bytes]:
    return _strings_of(blob, view) if blob.datatype == "BYTES" else view


def _fetch(placed: list[_Placed], regions: Regions, inputs: dict[str, Tensor]) -> int:
    """Copy inputs out of shared memory; how many bytes they are."""
    size_bytes = sum(each.place.size_bytes for each in placed)
    regions.bound(size_bytes)
    for each in placed:
        view = memoryview(regions.read(each.place))
        inputs[each.name] = Tensor(each.datatype, each.shape, _strings_of(each, view))
    return size_bytes


def _strings_of(blob: _Blob | _Placed, view: memoryview) -> bytes | memoryview | list[bytes]:
    try:
        return from_binary(view, blob.datatype, blob.count)
    except InvalidRequest as error:
        raise InvalidRequest(f"input '{blob.name}': {error}") from None


def _parse(text: bytes) -> _Head:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        document = _with_non_finite(text, error)
    if type(document) is not dict:
        raise InvalidRequest("the request JSON must be an object with 'inputs'")
    identity = document.get("id", "")
    if type(identity) is not str:
        raise InvalidRequest("'id' must be a string")
    inputs = document.get("inputs")
    if type(inputs) is not list:
        raise InvalidRequest("'inputs' must be an array of tensors")
    told, is_binary_default = _NOTHING_TOLD, False
    if (parameters := document.get("parameters")) is not None:
        told, is_binary_default = _parameters(parameters)
    wanted = _wanted(document.get("outputs"), is_binary_default=is_binary_default)
    about = about_of(identity, document.get("parameters"))
    head = _Head(InferRequest(identity, {}, wanted, *told, about=about))
    may_hold_bool = _may_hold_bool(text)
    names: set[str] = set()
    for element in inputs:
        name = _input(element, head, may_hold_bool=may_hold_bool)
        if name in names:
            raise InvalidRequest(f"input '{name}' already exists in request")
        names.add(name)
    return head


def _with_non_finite(text: bytes, error: orjson.JSONDecodeError) -> Any:
    """The same, where `NaN` and `Infinity` stand for numbers: Triton's client writes them so."""
    if b"NaN" in text or b"Infinity" in text:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # the first reader says better what is wrong
    raise InvalidRequest(f"failed to parse the request JSON: {error}") from None


def _may_hold_bool(text: bytes) -> bool:
    """False only when no `true` and no `false` stands from the first `data` on.

    Looking for one letter of each is far quicker than for the words, and the usual text of
    numbers has neither. A backslash could spell the key otherwise, so then all is looked at.
    """
    start = text.find(b'"data"')
    if start < 0 or text.find(b"\\", 0, start) >= 0:
        start = 0
    return text.find(b"u", start) >= 0 or text.find(b"l", start) >= 0


def _input(element: Any, head: _Head, *, may_hold_bool: bool) -> str:
    """Parse one element of 'inputs' into the head; returns its name."""
    if type(element) is not dict:
        raise InvalidRequest("each of 'inputs' must be an object with name, shape and datatype")
    name = element.get("name")
    if type(name) is not str:
        raise InvalidRequest("each of 'inputs' must have a 'name', a string")
    try:
        _content(name, element, head, may_hold_bool=may_hold_bool)
    except InvalidRequest as error:
        raise InvalidRequest(f"input '{name}': {error}") from None
    return name


def _content(name: str, element: dict[str, Any], head: _Head, *, may_hold_bool: bool) -> None:
    datatype = element.get("datatype")
    if type(datatype) is not str or datatype not in NUMPY_TYPES:
        raise InvalidRequest(
            f"'datatype' is {kind(datatype)}; expected one of {', '.join(NUMPY_TYPES)}"
        )
    shape = shape_of(element.get("shape"))
    count = prod(shape)
    parameters = element.get("parameters")
    size_bytes, place = _DATA if parameters is None else _elsewhere(parameters)
    if ("data" in element) + (size_bytes is not None) + (place is not None) != 1:
        raise InvalidRequest(_where_it_lies(element, size_bytes, place))
    if place is not None:
        if datatype != "BYTES":
            refuse_size(place.size_bytes, datatype, count)
        head.placed.append(_Placed(name, datatype, shape, count, place))
        return
    if size_bytes is None:
        data = from_json(
            element["data"], datatype, count, rank=len(shape), may_hold_bool=may_hold_bool
        )
        head.request.inputs[name] = Tensor(datatype, shape, data)
        return
    if datatype != "BYTES":
        refuse_size(size_bytes, datatype, count)
    is_small = size_bytes <= COPY_BYTES_MAX and datatype != "BYTES"
    head.blobs.append(_Blob(name, datatype, shape, count, size_bytes, is_small))
    head.blob_bytes += size_bytes


def shape_of(value: Any) -> tuple[int, ...]:
    """A tensor's shape, from the list that a client sent.

    Raises:
        InvalidRequest: It is no list of sizes, or beyond all memory.
    """
    if type(value) is not list or len(value) > RANK_MAX:
        raise InvalidRequest(f"'shape' must be an array of at most {RANK_MAX} integers")
    for axis in value:
        if type(axis) is not int or not 0 <= axis <= NUMBER_MAX:
            raise InvalidRequest(
                f"'shape' holds {kind(axis)}; expected integers from 0 to {NUMBER_MAX}"
            )
    if 0 in value and prod(axis or 1 for axis in value) > NUMBER_MAX:
        raise InvalidRequest("'shape' is absurd: no elements, but axes beyond all memory")
    return tuple(value)


_Elsewhere = tuple[int | None, Place | None]
_DATA: _Elsewhere = (None, None)


def _elsewhere(parameters: Any) -> _Elsewhere:
    """How many binary bytes an input has, or where it lies in shared memory."""
    if type(parameters) is not dict:
        raise InvalidRequest("'parameters' must be an object")
    size_bytes = None
    if "binary_data_size" in parameters:
        size_bytes = _unsigned(parameters, "binary_data_size")
    return size_bytes, place_of(parameters)


def _where_it_lies(element: Mapping[str, Any], size_bytes: int | None, place: Place | None) -> str:
    given = {
        "'data'": "data" in element,
        "'binary_data_size'": size_bytes is not None,
        "'shared_memory_region'": place is not None,
    }
    words = " ".join(field for field, is_set in given.items() if is_set)
    return (
        "Input must set only one of the following fields: 'data', 'binary_data_size' in "
        "'parameters', 'shared_memory_region' in 'parameters'. "
        f"But {f'set {words}' if words else 'no field is set'}"
    )


def _unsigned(parameters: dict[str, Any], key: str) -> int:
    value = parameters[key]
    if type(value) is not int or not 0 <= value <= NUMBER_MAX:
        raise InvalidRequest(f"parameter '{key}' must be an unsigned integer, got {kind(value)}")
    return value


def _boolean(parameters: dict[str, Any], key: str) -> bool:
    value = parameters.get(key, False)
    if type(value) is not bool:
        raise InvalidRequest(f"parameter '{key}' must be true or false, got {kind(value)}")
    return value


_Told = tuple[int | None, int, bool, bool]
_NOTHING_TOLD: _Told = (None, 0, False, False)


def told_of(parameters: Mapping[str, Any]) -> tuple[int | None, int]:
    """Budget and priority that parameters of a request tell; None and 0 where they do not.

    Raises:
        InvalidRequest: A parameter is reserved, or not of its type.
    """
    (budget_ns, priority, *_), _ = _parameters(parameters)
    return budget_ns, priority


def _parameters(parameters: Any) -> tuple[_Told, bool]:
    """The last fields of a request, and whether outputs go as binary unless named."""
    if type(parameters) is not dict:
        raise InvalidRequest("'parameters' of the request must be an object")
    for key, value in parameters.items():
        if key.startswith("triton_"):
            raise InvalidRequest(
                "parameter keys starting with 'triton_' are reserved for Triton usage "
                "and should not be specified."
            )
        if type(value) not in {str, int, bool, float}:
            raise InvalidRequest(
                f"parameter '{key}' has invalid type. "
                "It should be either 'int', 'bool', 'float' or 'string'."
            )
    budget_us = _unsigned(parameters, "timeout") if "timeout" in parameters else 0
    priority = _unsigned(parameters, "priority") if "priority" in parameters else 0
    asked = _boolean(parameters, "xirang_timing"), _boolean(parameters, "xirang_explain")
    return (budget_us * 1000 or None, priority, *asked), _boolean(parameters, "binary_data_output")


def _wanted(outputs: Any, *, is_binary_default: bool) -> Wanted:
    if outputs is None or outputs == []:
        return _ALL_BINARY if is_binary_default else _ALL_JSON
    if type(outputs) is not list:
        raise InvalidRequest("'outputs' must be an array of objects with a 'name'")
    forms: dict[str, bool] = {}
    asked: dict[str, dict[str, Any]] = {}
    for element in outputs:
        if type(element) is not dict or type(name := element.get("name")) is not str:
            raise InvalidRequest("each of 'outputs' must be an object with a 'name', a string")
        if (parameters := element.get("parameters")) is None:
            forms.setdefault(name, False)
            continue
        if type(parameters) is not dict:
            raise InvalidRequest(f"output '{name}': 'parameters' must be an object")
        forms.setdefault(name, _boolean(parameters, "binary_data"))
        if len(parameters) > ("binary_data" in parameters):
            asked.setdefault(name, parameters)
    names = tuple(forms)
    binary = frozenset(name for name in names if forms[name])
    return Wanted(names, binary, special=special_of(asked) if asked else None)


_ALL_JSON = Wanted()
_ALL_BINARY = Wanted(is_binary_default=True)
