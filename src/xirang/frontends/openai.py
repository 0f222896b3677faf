"""POST /v1/embeddings in OpenAI's form: texts or token ids in, one call each, vectors out."""

import asyncio
import binascii
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.core.event import Function
from xirang.engine.call import Answer, Call
from xirang.errors import InvalidRequest, TooBusy, UnknownModel, XirangError
from xirang.frontends.budget import tightest
from xirang.frontends.caller import caller_of
from xirang.frontends.errors import JSON_TYPE, describe, error_headers
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.keys import Keys
from xirang.frontends.service import Service, TextModel, Ticket
from xirang.frontends.timing import Stopwatch, is_asked

ITEMS_MAX = 2048
"""Of OpenAI's specification."""
INLINE_CHARACTERS_MAX = 4096
"""Up to here a request is tokenised on the loop, about a millisecond; longer ones on a thread."""
TOKENISING_THREADS = 2
TOKENISING_MAX = 256
"""Requests that wait for such a thread."""

_TYPES = {429: "rate_limit_error", 503: "server_error", 504: "timeout_error"}
_CODES = {404: "model_not_found", 429: "rate_limit_exceeded", 504: "timeout"}


class InvalidField(InvalidRequest):
    """A field of the request holds what it must not.

    Attributes:
        field: Its name.
    """

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class EmbeddingsRequest(msgspec.Struct, frozen=True):
    """What a request says, checked.

    Attributes:
        model: Name of the model.
        items: Texts, or token ids.
        is_base64: The form of the vectors; else JSON numbers.
        dimensions: To shorten the vectors to; None to leave them.
    """

    model: str
    items: list[str] | list[list[int]]
    is_base64: bool
    dimensions: int | None


class EmbeddingsRoute:
    """Answers embeddings requests for all text models."""

    def __init__(
        self, service: Service, texts: Mapping[str, TextModel], keys: Keys | None = None
    ) -> None:
        self._service = service
        self._keys = keys
        self._texts = texts
        self._tokenising = 0
        self._threads = ThreadPoolExecutor(TOKENISING_THREADS, thread_name_prefix="tokenise")

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in; every item of it becomes a call of its own."""
        try:
            if self._keys is not None:
                self._keys.of(exchange.headers)  # before the body is looked at
            gathering = self._gathering(exchange, decode(exchange.body))
        except Exception as error:
            exchange.respond(*error_response(error))
            return
        exchange.on_disconnect = gathering.stop
        try:
            self._tokenise(gathering, partial(self._submit, gathering))
        except Exception as error:
            gathering.fail(error)

    def _gathering(self, exchange: Exchange, request: EmbeddingsRequest) -> "Gathering":
        text = self._texts.get(request.model)
        if text is None:
            raise UnknownModel(
                f"The model '{request.model}' does not exist or does not embed texts"
            )
        if request.dimensions is not None and request.dimensions > text.dimension:
            raise InvalidField(
                f"'dimensions' is {request.dimensions}, but the model has {text.dimension}",
                "dimensions",
            )
        caller = caller_of(exchange, self._keys, request.model)
        terms = Terms(
            tightest(None, exchange.headers),
            caller.priority(0, exchange.headers),
            caller.client,
            caller.tenant,
            caller.fast,
            exchange.begun_ns,
        )
        return Gathering(exchange, request, text, terms)

    def _tokenise(self, gathering: "Gathering", then: Callable[[list[list[int]]], None]) -> None:
        items, text = gathering.request.items, gathering.text
        if sum(map(len, items)) <= INLINE_CHARACTERS_MAX:
            then(token_ids(items, text))
            return
        if self._tokenising >= TOKENISING_MAX:
            raise TooBusy("too many long texts are waiting to be tokenised")
        self._tokenising += 1
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, token_ids, items, text)

        def finish(done: "asyncio.Future[list[list[int]]]") -> None:
            self._tokenising -= 1
            try:
                then(done.result())
            except Exception as error:
                gathering.fail(error)

        future.add_done_callback(finish)

    def _submit(self, gathering: "Gathering", ids: list[list[int]]) -> None:
        gathering.begin(ids)
        text, model = gathering.text, gathering.request.model
        if is_asked(gathering.exchange) and not self._service.is_off(Function.TIMING):
            terms = gathering.terms
            budget_ns = terms.budget_ns or self._service.model(model).budget_ns
            gathering.stopwatch = Stopwatch(terms.arrival_ns, budget_ns, self._service.now_ns)
        for index, item in enumerate(ids):
            if gathering.is_over:
                return
            call = Call(
                model,
                text.inputs(item),
                partial(gathering.take, index),
                None,
                (text.embedding_output,),
                *gathering.terms,
            )
            try:
                gathering.tickets.append(self._service.submit(call))
            except XirangError as error:
                gathering.fail(error)


class Terms(NamedTuple):
    """On what terms all items of a request are served: the last fields of a `Call`, in order."""

    budget_ns: int | None
    priority: int
    client: int
    tenant: str
    fast: bool | None
    arrival_ns: int


class Gathering:
    """One request's items on their way: answered when all are in, or at the first error."""

    __slots__ = (
        "exchange",
        "is_over",
        "left",
        "request",
        "rows",
        "stopwatch",
        "terms",
        "text",
        "tickets",
        "tokens",
    )

    def __init__(
        self, exchange: Exchange, request: EmbeddingsRequest, text: TextModel, terms: "Terms"
    ) -> None:
        self.exchange = exchange
        self.terms = terms
        self.request = request
        self.text = text
        self.tickets: list[Ticket] = []
        self.rows: list[NDArray[Any] | None] = []
        self.left = 0
        self.tokens = 0
        self.is_over = False
        self.stopwatch: Stopwatch | None = None

    def begin(self, ids: list[list[int]]) -> None:
        """The items are known."""
        self.rows = [None] * len(ids)
        self.left = len(ids)
        self.tokens = sum(map(len, ids))

    def take(self, index: int, answer: Answer | XirangError) -> None:
        """The reply of one item's call."""
        if self.is_over:
            return
        if isinstance(answer, XirangError):
            self.fail(answer)
            return
        try:
            self.rows[index] = answer.outputs[self.text.embedding_output].reshape(-1)
            self.left -= 1
            if not self.left:
                self.is_over = True
                model = answer.stand_in or self.request.model
                headers, body = JSON_TYPE, encode(self.rows, self.request, self.tokens, model)
                if answer.lacks:
                    headers += degraded(answer.lacks)
                if self.stopwatch is not None:
                    headers += self.stopwatch.line(answer)
                self.exchange.respond(200, headers, body)
        except Exception as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Answer with the error; what else is under way for the request stops."""
        self.stop()
        if not self.exchange.status:
            status, headers, body = error_response(error)
            if self.stopwatch is not None:
                headers += self.stopwatch.line(None)
            self.exchange.respond(status, headers, body)

    def stop(self) -> None:
        """Take back every call that is still out."""
        self.is_over = True
        tickets, self.tickets = self.tickets, []
        for ticket in tickets:
            ticket.cancel()


def decode(body: bytes) -> EmbeddingsRequest:
    """The request in a body.

    Raises:
        InvalidRequest: It contradicts OpenAI's specification; the message says where.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"failed to parse the request JSON: {error}") from None
    if type(document) is not dict:
        raise InvalidRequest("the request JSON must be an object with 'model' and 'input'")
    model = document.get("model")
    if type(model) is not str:
        raise InvalidField("'model' must be a string", "model")
    encoding = document.get("encoding_format") or "float"
    if encoding not in ("float", "base64"):
        raise InvalidField("'encoding_format' must be 'float' or 'base64'", "encoding_format")
    dimensions = document.get("dimensions")
    if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
        raise InvalidField("'dimensions' must be a positive integer", "dimensions")
    if type(document.get("user", "")) not in {str, type(None)}:
        raise InvalidField("'user' must be a string", "user")
    return EmbeddingsRequest(model, _items(document.get("input")), encoding == "base64", dimensions)


def _items(value: Any) -> list[str] | list[list[int]]:
    """The `input` member as a list of texts or a list of token ids."""
    if type(value) is str:
        items: list[Any] = [value]
    elif type(value) is list and value and set(map(type, value)) == {int}:
        items = [value]
    elif type(value) is list:
        items = value
    else:
        raise InvalidField(_INPUT_EXPECTED, "input")
    if not 1 <= len(items) <= ITEMS_MAX:
        raise InvalidField(f"'input' must have 1 to {ITEMS_MAX} items, got {len(items)}", "input")
    kinds = set(map(type, items))
    if kinds not in ({str}, {list}):
        raise InvalidField(_INPUT_EXPECTED, "input")
    for item in items:
        if not item:
            raise InvalidField("'input' must not hold an empty string or list", "input")
        if kinds == {list} and set(map(type, item)) != {int}:
            raise InvalidField(_INPUT_EXPECTED, "input")
    return items


_INPUT_EXPECTED = (
    "'input' must be a string, an array of strings, an array of token ids, "
    "or an array of arrays of token ids"
)


def token_ids(items: Sequence[str] | Sequence[Sequence[int]], text: TextModel) -> list[list[int]]:
    """The token ids of each item; runs on a thread when there is much to do.

    Raises:
        InvalidRequest: An item is too long, or holds an id that the model does not know.
    """
    result: list[list[int]] = []
    for item in items:
        if isinstance(item, str):
            result.append(text.encode(item))
            continue
        if len(item) > text.length_max:
            raise InvalidField(
                f"'input' has an item of {len(item)} tokens; the model takes {text.length_max}",
                "input",
            )
        if min(item) < 0 or max(item) >= text.vocabulary_size:
            raise InvalidField(
                f"'input' holds a token id outside 0 to {text.vocabulary_size - 1}", "input"
            )
        result.append(list(item))
    return result


def encode(
    rows: Sequence[NDArray[Any] | None], request: EmbeddingsRequest, tokens: int, model: str
) -> bytes:
    """The response's body."""
    data = []
    for index, row in enumerate(rows):
        assert row is not None, "all items are in"
        vector = _shortened(row, request.dimensions)
        embedding: str | NDArray[Any] = vector
        if request.is_base64:
            embedding = binascii.b2a_base64(vector.tobytes(), newline=False).decode()
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    document = {
        "object": "list",
        "data": data,
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _shortened(row: NDArray[Any], dimensions: int | None) -> NDArray[np.float32]:
    """The vector's first so many elements, of length 1 again; contiguous."""
    vector = np.ascontiguousarray(row, np.float32)
    if dimensions is None or dimensions == len(vector):
        return vector
    cut = vector[:dimensions]
    norm = float(np.linalg.norm(cut))
    return cut / np.float32(norm) if norm > 0 else cut


def error_response(error: BaseException) -> tuple[int, bytes, bytes]:
    """Status, header lines and body for an error, in OpenAI's form."""
    status, message = describe(error)
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = {
        "message": message,
        "type": _TYPES.get(status, kind),
        "param": error.field if isinstance(error, InvalidField) else None,
        "code": _CODES.get(status),
    }
    return status, JSON_TYPE + error_headers(error), orjson.dumps({"error": body})


def model_card(name: str) -> dict[str, Any]:
    """A model as `/v1/models` lists it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "xirang"}
