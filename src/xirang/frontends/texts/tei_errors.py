"""Errors in the form of Text Embeddings Inference: `error`, `error_type`, and its statuses."""

import orjson

from xirang.errors import (
    Expired,
    InvalidRequest,
    ModelFailed,
    NotReady,
    TooBusy,
    XirangError,
)
from xirang.frontends.errors import JSON_TYPE, NoRoom, TooLarge, describe, error_headers
from xirang.text.tokenizer import TextTooLong


class WrongBody(InvalidRequest):
    """The body is not what the route takes."""


class EmptyBatch(InvalidRequest):
    """There is nothing in it."""


class BatchTooLarge(InvalidRequest):
    """There is too much in it."""


class WrongTask(InvalidRequest):
    """The model is for something else."""


_ANSWERS: tuple[tuple[tuple[type[XirangError], ...], int, str], ...] = (
    ((EmptyBatch,), 400, "Empty"),
    ((BatchTooLarge, TextTooLong, TooLarge), 413, "Validation"),
    ((WrongTask, ModelFailed), 424, "Backend"),
    ((TooBusy,), 429, "Overloaded"),
    ((NotReady, NoRoom), 503, "Unhealthy"),
    ((Expired,), 504, "Backend"),
    ((InvalidRequest,), 422, "Validation"),
)
"""The first that fits."""


def error_response(error: BaseException) -> tuple[int, bytes, bytes]:
    """Status, header lines and body for an error of any kind."""
    status, message = describe(error)
    kind = "Backend" if status >= 500 else "Validation"
    for classes, own_status, own_kind in _ANSWERS:
        if isinstance(error, classes):
            status, kind = own_status, own_kind
            break
    body = orjson.dumps({"error": message, "error_type": kind})
    return status, JSON_TYPE + error_headers(error), body
