"""POST /v2/models/{model}/infer: from an exchange to a call of the engine, and back."""

from functools import partial

from xirang.engine.call import Answer, Call
from xirang.errors import InvalidRequest, XirangError
from xirang.frontends.budget import tightest
from xirang.frontends.caller import caller_of
from xirang.frontends.compression import compress, preferred
from xirang.frontends.errors import error_response
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Keys
from xirang.frontends.kserve import InferRequest, decode, decode_raw
from xirang.frontends.kserve_answer import encode, model_part
from xirang.frontends.service import Service


class InferRoute:
    """Answers infer requests for one model as one URL names it."""

    __slots__ = ("_keys", "_model_part", "_name", "_service", "_version")

    def __init__(
        self, service: Service, name: str, version: str | None, keys: Keys | None = None
    ) -> None:
        self._service = service
        self._keys = keys
        self._name = name
        self._version = version
        self._model_part: bytes | None = None

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; its answer comes later, by `_answer`."""
        caller = caller_of(exchange, self._keys, self._name)
        if self._model_part is None:
            model = self._service.model(self._name, self._version)
            self._model_part = model_part(model.name, model.version)
        request = self._decode(exchange)
        call = Call(
            self._name,
            request.inputs,
            partial(self._answer, exchange, request),
            self._version,
            request.wanted.names,
            tightest(request.budget_ns, exchange.headers),
            caller.priority(request.priority, exchange.headers),
            caller.client,
            caller.tenant,
            caller.fast,
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

    def _answer(
        self, exchange: Exchange, request: InferRequest, answer: Answer | XirangError
    ) -> None:
        """The reply of a call; whatever goes wrong here goes to this one client."""
        if isinstance(answer, XirangError):
            exchange.respond(*error_response(answer))
            return
        try:
            assert self._model_part is not None
            headers, body = encode(
                answer.outputs, request.wanted, identity=request.id, model=self._model_part
            )
            accepted = exchange.headers.get(b"accept-encoding")
            if accepted is not None and (coding := preferred(accepted)) is not None:
                body = compress(body, coding)
                headers += b"content-encoding: %b\r\n" % coding.encode()
        except Exception as error:
            exchange.respond(*error_response(error))
        else:
            exchange.respond(200, headers, body)


def _length(header: bytes) -> int:
    try:
        return int(header)
    except ValueError:
        raise InvalidRequest(
            "Inference-Header-Content-Length must be a number, the size of the JSON head, "
            f"got {header.decode('latin-1')!r}"
        ) from None
