"""The generate extension: a request and its answer as one flat JSON object, also as an event."""

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import msgspec
import orjson

from xirang.backends.requests import About
from xirang.engine.call import Answer, Call
from xirang.errors import InvalidRequest, XirangError
from xirang.frontends.about import about_of
from xirang.frontends.caller import caller_of
from xirang.frontends.documents import parsed
from xirang.frontends.errors import JSON_TYPE, error_response
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.extensions import Extensions
from xirang.frontends.forwarding import with_headers
from xirang.frontends.keys import Keys
from xirang.frontends.service import ModelInfo, Service, TensorSpec
from xirang.frontends.v1.plain_json import flat_json
from xirang.frontends.v2.kserve import told_of
from xirang.frontends.v2.tensor_forms import from_json
from xirang.tensors.tensor import Array, Tensor

EVENT_TYPE = b"content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"


class GenerateRequest(msgspec.Struct, frozen=True):
    """What a request says, checked.

    Attributes:
        id: Echoed in the answer unless empty.
        inputs: Name to tensor.
        budget_ns: None when it brings none.
        priority: 0 is the model's default.
        about: What models may want to know of it besides; None for nothing.
    """

    id: str
    inputs: dict[str, Tensor]
    budget_ns: int | None
    priority: int
    about: About | None = None


class GenerateRoute:
    """Answers them for one model as one URL names it."""

    __slots__ = ("_extensions", "_is_stream", "_keys", "_name", "_service", "_version")

    def __init__(
        self,
        service: Service,
        name: str,
        version: str | None,
        keys: Keys | None = None,
        extensions: Extensions | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        self._service = service
        self._extensions = extensions or Extensions()
        self._name = name
        self._version = version
        self._keys = keys
        self._is_stream = is_stream

    def welcome(self, exchange: Exchange) -> None:
        """Look at a head, before its body has come."""
        caller_of(exchange, self._keys, self._name)

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; its answer comes later, by `_answer`."""
        caller = caller_of(exchange, self._keys, self._name)
        request = decode(exchange.body, self._service.model(self._name, self._version))
        reply = exchange.follow(partial(self._answer, exchange, request.id), self._name, request.id)
        about = request.about
        if (forward := self._extensions.http_forward) is not None:
            about = with_headers(about, exchange.headers, forward)
        terms = caller.terms(exchange, request.budget_ns, request.priority)
        call = Call(self._name, request.inputs, reply, self._version, None, *terms, about=about)
        exchange.on_disconnect = self._service.submit(call).cancel

    def _answer(self, exchange: Exchange, identity: str, answer: Answer | XirangError) -> None:
        """The reply of a call; whatever goes wrong here goes to this one client."""
        if isinstance(answer, XirangError):
            exchange.respond(*error_response(answer))
            return
        try:
            model = (answer.stand_in or self._name, answer.version)
            body = encode(answer.outputs, model, identity=identity)
        except Exception as error:
            exchange.respond(*error_response(error))
            return
        headers = degraded(answer.lacks) if answer.lacks else b""
        if self._is_stream:
            exchange.respond(200, EVENT_TYPE + headers, b"data: %b\n\n" % body)
        else:
            exchange.respond(200, JSON_TYPE + headers, body)


def decode(body: bytes, model: ModelInfo) -> GenerateRequest:
    """The request in a body: a member for each input, all others are parameters.

    Raises:
        InvalidRequest: It is no object, or a value fits no input.
    """
    document = parsed(body, "the request JSON must be an object with a member for each input")
    identity = document.pop("id", "")
    if type(identity) is not str:
        raise InvalidRequest("'id' must be a string")
    own = document.pop("parameters", {})
    if type(own) is not dict:
        raise InvalidRequest("'parameters' of the request must be an object")
    is_batched = bool(model.config.get("max_batch_size"))
    inputs: dict[str, Tensor] = {}
    for spec in model.inputs:
        if spec.name in document:
            inputs[spec.name] = _tensor(spec, document.pop(spec.name), is_batched=is_batched)
    parameters = document | own
    budget_ns, priority = told_of(parameters)
    return GenerateRequest(identity, inputs, budget_ns, priority, about_of(identity, parameters))


def _tensor(spec: TensorSpec, value: Any, *, is_batched: bool) -> Tensor:
    elements = value if type(value) is list else [value]
    shape = _shape(spec.shape, len(elements), is_batched=is_batched)
    count = prod(shape)
    try:
        data = from_json(elements, spec.datatype, count, rank=1, may_hold_bool=True)
    except InvalidRequest as error:
        raise InvalidRequest(f"input '{spec.name}': {error}") from None
    return Tensor(spec.datatype, shape, data)


def _shape(shape: tuple[int, ...], count: int, *, is_batched: bool) -> tuple[int, ...]:
    """One row, of which the innermost axis that varies holds what the others leave."""
    sizes = [1, *shape[1:]] if is_batched else list(shape)
    varying = [axis for axis, size in enumerate(sizes) if size < 0]
    for axis in varying:
        sizes[axis] = 1
    if varying:
        sizes[varying[-1]] = count // (prod(sizes) or 1)
    return tuple(sizes)


def encode(outputs: Mapping[str, Array], model: tuple[str, str], *, identity: str) -> bytes:
    """The answer: a member for each output, a value where there is only one, else a flat list.

    Args:
        outputs: Name to array.
        model: Name and version.
        identity: Of the request.

    Raises:
        InvalidRequest: An output cannot be written as JSON.
        ModelFailed: An output's type has no datatype in the protocol.
    """
    members = []
    for name, array in outputs.items():
        text = flat_json(name, array)
        members.append((name, text[1:-1] if array.size == 1 else text))
    if identity:
        members.append(("id", orjson.dumps(identity)))
    members.append(("model_name", orjson.dumps(model[0])))
    members.append(("model_version", orjson.dumps(model[1])))
    return b"{%b}" % b",".join(b"%b:%b" % (orjson.dumps(name), text) for name, text in members)
