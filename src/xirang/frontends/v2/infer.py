"""POST /v2/models/{model}/infer: from an exchange to a call of the engine, and back."""

from functools import partial
from typing import Any

from xirang.core.event import Function
from xirang.engine.call import Answer, Call, Reply
from xirang.errors import XirangError
from xirang.frontends import explaining
from xirang.frontends.errors import NO_ROOM, NoRoom, about, error_response
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.extensions import Extensions
from xirang.frontends.forwarding import with_headers
from xirang.frontends.headers import Headers
from xirang.frontends.keys import Keys
from xirang.frontends.service import Service
from xirang.frontends.timing import Stopwatch
from xirang.frontends.v2.delivery import Delivery
from xirang.frontends.v2.kserve import InferRequest, decode
from xirang.frontends.v2.kserve_answer import encode, model_part
from xirang.frontends.v2.raw import decode_raw
from xirang.frontends.wire.compression import compress
from xirang.frontends.wishes import Wishes, wishes_of


class InferRoute:
    """Answers infer requests for one model as one URL names it."""

    __slots__ = ("_extensions", "_keys", "_model_parts", "_name", "_service", "_version")

    def __init__(
        self,
        service: Service,
        name: str,
        version: str | None,
        keys: Keys | None = None,
        extensions: Extensions | None = None,
    ) -> None:
        self._service = service
        self._extensions = extensions or Extensions()
        self._keys = keys
        self._name = name
        self._version = version
        self._model_parts: dict[str, bytes] = {}  # by version: it may change while we serve

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; its answer comes later, by `_answer`."""
        headers = exchange.headers
        wishes: Wishes = headers.read if headers.reader is self else self._read(headers, exchange)
        if not self._model_parts:
            self._part(self._service.model(self._name, self._version).version)
        body, head_length = exchange.body, wishes.head_length
        if head_length or (body and head_length is None):
            request = decode(body, head_length, self._extensions.regions)
        else:
            request = decode_raw(body, self._service.model(self._name, self._version))
        if request.placed_bytes:
            _hold(exchange, request.placed_bytes)
        budget_ns, priority = request.budget_ns, request.priority
        if not wishes.is_open:
            budget_ns, priority = wishes.terms(budget_ns, priority)
        stopwatch = None
        if (wishes.is_timed or request.is_timed) and not self._service.is_off(Function.TIMING):
            stopwatch = Stopwatch(
                exchange.begun_ns,
                budget_ns or self._service.model(self._name, self._version).budget_ns,
                self._service.now_ns,
            )
        delivery = None
        if (special := request.wanted.special) is not None:
            model = self._service.model(self._name, self._version)
            delivery = self._extensions.delivery(special, model)
        reply: Reply = partial(self._answer, exchange, request, wishes, stopwatch, delivery)
        if exchange.is_followed:
            reply = exchange.follow(reply, self._name, request.id)
        about = request.about
        if (forward := self._extensions.http_forward) is not None:
            about = with_headers(about, exchange.headers, forward)
        call = Call(
            self._name,
            request.inputs,
            reply,
            self._version,
            request.wanted.names,
            budget_ns,
            priority,
            wishes.client,
            wishes.tenant,
            wishes.fast,
            exchange.begun_ns,
            about,
        )
        exchange.on_disconnect = self._service.submit(call).cancel

    def welcome(self, exchange: Exchange) -> None:
        """Look at a head, before its body has come.

        Raises:
            XirangError: It will not be served, whatever its body says.
        """
        self._read(exchange.headers, exchange)

    def _read(self, headers: Headers, exchange: Exchange) -> Wishes:
        wishes = headers.read = wishes_of(exchange, self._keys, self._name)
        headers.reader = self
        return wishes

    def _part(self, version: str) -> bytes:
        part = self._model_parts[version] = model_part(self._name, version)
        return part

    def _answer(
        self,
        exchange: Exchange,
        request: InferRequest,
        wishes: Wishes,
        stopwatch: Stopwatch | None,
        delivery: Delivery | None,
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
            if answer.stand_in:
                model = model_part(answer.stand_in, answer.version)
            else:
                model = self._model_parts.get(answer.version) or self._part(answer.version)
            parameters = None
            if stopwatch is not None or request.is_explained or answer.is_cropped:
                parameters = self._parameters(request, stopwatch, answer)
            headers, body = encode(
                answer.outputs if delivery is None else delivery(answer.outputs),
                request.wanted,
                identity=request.id,
                model=model,
                parameters=parameters,
            )
            if answer.lacks or wishes.is_more or stopwatch is not None:
                headers, body = self._dressed((headers, body), wishes, stopwatch, answer)
        except Exception as error:
            exchange.respond(*error_response(about(error, exchange.headers)))
        else:
            exchange.respond(200, headers, body)

    def _dressed(
        self,
        response: tuple[bytes, bytes],
        wishes: Wishes,
        stopwatch: Stopwatch | None,
        answer: Answer,
    ) -> tuple[bytes, bytes]:
        """Header lines and body with what few ask for."""
        headers, body = response
        if answer.lacks:
            headers += degraded(answer.lacks)
        if wishes.coding is not None:
            body = compress(body, wishes.coding)
            headers += b"content-encoding: %b\r\n" % wishes.coding.encode()
        if stopwatch is not None:
            headers += stopwatch.line(answer)
        if wishes.is_explained and not self._service.is_off(Function.TIMING):
            headers += explaining.line(answer)
        return headers, body

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


def _hold(exchange: Exchange, size_bytes: int) -> None:
    """Count what a request took out of shared memory as if it had come with it."""
    if exchange.wire is not None and not exchange.wire.hold(exchange, size_bytes):
        raise NoRoom(NO_ROOM)
