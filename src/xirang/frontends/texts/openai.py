"""POST /v1/embeddings in OpenAI's form: texts or token ids in, one call each, vectors out."""

import binascii
from functools import partial
from typing import Any

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from xirang.errors import UnknownModel
from xirang.frontends.documents import parsed
from xirang.frontends.errors import JSON_TYPE, describe, error_headers
from xirang.frontends.exchange import Exchange
from xirang.frontends.service import TextModel
from xirang.frontends.texts.desk import ITEMS_MAX, TextDesk
from xirang.frontends.texts.gathering import Gathering, InvalidField, Item, TextRequest
from xirang.text.task import Task
from xirang.text.tokenizer import Manner, TextTooLong

_TYPES = {429: "rate_limit_error", 503: "server_error", 504: "timeout_error"}
_CODES = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    504: "timeout",
}


class EmbeddingsRequest(msgspec.Struct, frozen=True):
    """What a request says, checked.

    Attributes:
        model: Name of the model.
        items: Texts, or token ids.
        is_base64: The form of the vectors; else JSON numbers.
        dimensions: To shorten the vectors to; None to leave them.
        truncate: Whether texts that are too long are cut; else they are refused.
    """

    model: str
    items: list[Item]
    is_base64: bool = False
    dimensions: int | None = None
    truncate: bool = True

    def output(self, text: TextModel) -> str:
        """The output that holds the vectors.

        Raises:
            UnknownModel: The model makes no embeddings.
            InvalidField: Its vectors cannot be shortened like that.
        """
        if text.task is not Task.EMBED:
            raise UnknownModel(f"The model '{self.model}' does not make embeddings")
        check_dimensions(self.dimensions, text)
        return text.output


class EmbeddingsRoute:
    """Answers embeddings requests for all text models."""

    def __init__(self, desk: TextDesk) -> None:
        self._desk = desk

    def welcome(self, exchange: Exchange) -> None:
        """Look at a head, before its body has come."""
        self._desk.check_key(exchange)

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in."""
        try:
            self._desk.check_key(exchange)
            request = decode(exchange.body)
            texts = TextRequest(
                request.model,
                request.items,
                request.output,
                partial(answer, request),
                error_response,
                Manner(truncate=request.truncate),
            )
            self._desk.take(exchange, texts)
        except Exception as error:
            exchange.respond(*error_response(error))

    def refusal(self, error: BaseException) -> tuple[int, bytes, bytes]:
        """An error in the form of this route."""
        return error_response(error)


def decode(body: bytes) -> EmbeddingsRequest:
    """The request in a body.

    Raises:
        InvalidRequest: It contradicts OpenAI's specification; the message says where.
    """
    document = parsed(body, "the request JSON must be an object with 'model' and 'input'")
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
    truncate = document.get("truncate", True)
    if type(truncate) is not bool:
        raise InvalidField("'truncate' must be true or false", "truncate")
    items = _items(document.get("input"))
    return EmbeddingsRequest(model, items, encoding == "base64", dimensions, truncate)


def _items(value: Any) -> list[Item]:
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


def check_dimensions(dimensions: int | None, text: TextModel) -> None:
    """Refuse a length that a model's vectors cannot be cut to; None leaves them as they are.

    Raises:
        InvalidField: They cannot.
    """
    allowed = text.folder.dimensions
    if dimensions is None or dimensions == text.dimension:
        return
    if dimensions > text.dimension:
        expected = f"but the model has {text.dimension}"
    elif allowed is None:
        expected = "but this model does not support other dimensions than its own"
    elif allowed and dimensions not in allowed:
        expected = f"but the model was made for {[*allowed, text.dimension]}"
    else:
        return
    raise InvalidField(f"'dimensions' is {dimensions}, {expected}", "dimensions")


def answer(request: EmbeddingsRequest, gathering: Gathering) -> tuple[bytes, bytes]:
    """Header lines and body of the response."""
    data = []
    for index, row in enumerate(gathering.rows):
        vector = shortened(row, request.dimensions)
        embedding: str | NDArray[Any] = vector
        if request.is_base64:
            embedding = binascii.b2a_base64(vector.tobytes(), newline=False).decode()
        data.append({"object": "embedding", "index": index, "embedding": embedding})
    document = {
        "object": "list",
        "data": data,
        "model": gathering.last.stand_in or request.model,
        "usage": {"prompt_tokens": gathering.tokens, "total_tokens": gathering.tokens},
    }
    return JSON_TYPE, orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def shortened(row: NDArray[Any], dimensions: int | None) -> NDArray[np.float32]:
    """A vector's first so many elements, of length 1 again; contiguous."""
    vector = np.ascontiguousarray(row.reshape(-1), np.float32)
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
        "param": _field(error),
        "code": _CODES.get(status),
    }
    return status, JSON_TYPE + error_headers(error), orjson.dumps({"error": body})


def _field(error: BaseException) -> str | None:
    if isinstance(error, InvalidField):
        return error.field
    return "input" if isinstance(error, TextTooLong) else None


def model_card(name: str) -> dict[str, Any]:
    """A model as `/v1/models` lists it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "xirang"}
