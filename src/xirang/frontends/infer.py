"""POST /v2/models/{model}/infer: from an exchange to a call of the engine, and back."""

from functools import partial
from typing import Any

from xirang.core.event import Function
from xirang.engine.call import Answer, Call
from xirang.errors import InvalidRequest, XirangError
from xirang.frontends import explaining
from xirang.frontends.budget import tightest
from xirang.frontends.caller import caller_of
from xirang.frontends.compression import compress, preferred
from xirang.frontends.errors import error_response
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.keys import Keys
from xirang.frontends.kserve import InferRequest, decode, decode_raw
from xirang.frontends.kserve_answer import encode, model_part
from xirang.frontends.service import Service
from xirang.frontends.timing import Stopwatch, is_asked


class InferRoute:
    """Answers infer requests for one model as one URL names it."""

    __slots__ = ("_keys", "_model_parts", "_name", "_service", "_version")

    def __init__(
        self, service: Service, name: str, version: str | None, keys: Keys | None = None
    ) -> None:
        self._service = service
        self._keys = keys
        self._name = name
        self._version = version
        self._model_parts: dict[str, bytes] = {}  # by version: it may change while we serve

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; its answer comes later, by `_answer`."""
        caller = caller_of(exchange, self._keys, self._name)
        if not self._model_parts:
            self._part(self._service.model(self._name, self._version).version)
        request = self._decode(exchange)
        budget_ns = tightest(request.budget_ns, exchange.headers)
        stopwatch = None
        if (request.is_timed or is_asked(exchange)) and not self._service.is_off(Function.TIMING):
            stopwatch = Stopwatch(
                exchange.begun_ns,
                budget_ns or self._service.model(self._name, self._version).budget_ns,
                self._service.now_ns,
            )
        call = Call(
            self._name,
            request.inputs,
            partial(self._answer, exchange, request, stopwatch),
            self._version,
            request.wanted.names,
            budget_ns,
            caller.priority(request.priority, exchange.headers),
            caller.client,
            caller.tenant,
            caller.fast,
            exchange.begun_ns,
        )
        exchange.on_disconnect = self._service.submit(call).cancel

    def _decode(self, exchange: Exchange) -> InferRequest:
        header = exchange.headers.get(b"inference-header-content-length")
        if header is None:
            if exchange.body:
                return decode(exchange.body)
        elif header != b"0":
            return decode(exchange.body, _length(header))
        return decode_raw(exchange.body, self._service.model(self._name, self._version))

    def _part(self, version: str) -> bytes:
        part = self._model_parts.get(version)
        if part is None:
            part = self._model_parts[version] = model_part(self._name, version)
        return part

    def _part_of(self, answer: Answer) -> bytes:
        if answer.stand_in:
            return model_part(answer.stand_in, answer.version)
        return self._part(answer.version)

    def _answer(
        self,
        exchange: Exchange,
        request: InferRequest,
        stopwatch: Stopwatch | None,
        answer: Answer | XirangError,
    ) -> None:
        """The reply of a call; whatever goes wrong here goes to this one client."""
        if isinstance(answer, XirangError):
            status, headers, body = error_response(answer)
            if stopwatch is not None:
                headers += stopwatch.line(None)
            exchange.respond(status, headers, body)
            return
        try:
            headers, body = encode(
                answer.outputs,
                request.wanted,
                identity=request.id,
                model=self._part_of(answer),
                parameters=self._parameters(request, stopwatch, answer),
            )
            if answer.lacks:
                headers += degraded(answer.lacks)
            accepted = exchange.headers.get(b"accept-encoding")
            if accepted is not None and (coding := preferred(accepted)) is not None:
                body = compress(body, coding)
                headers += b"content-encoding: %b\r\n" % coding.encode()
            if stopwatch is not None:
                headers += stopwatch.line(answer)
            if explaining.is_asked(exchange) and not self._service.is_off(Function.TIMING):
                headers += explaining.line(answer)
        except Exception as error:
            exchange.respond(*error_response(error))
        else:
            exchange.respond(200, headers, body)

    def _parameters(
        self, request: InferRequest, stopwatch: Stopwatch | None, answer: Answer
    ) -> dict[str, Any] | None:
        """Of the response; None if there is nothing to say."""
        found: dict[str, Any] = {"xirang_cropped": True} if answer.is_cropped else {}
        if stopwatch is not None and request.is_timed:
            found |= stopwatch.parameters(answer)
        if request.is_explained and not self._service.is_off(Function.TIMING):
            found |= explaining.parameters(answer)
        return found or None


def _length(header: bytes) -> int:
    try:
        return int(header)
    except ValueError:
        raise InvalidRequest(
            "Inference-Header-Content-Length must be a number, the size of the JSON head, "
            f"got {header.decode('latin-1')!r}"
        ) from None
