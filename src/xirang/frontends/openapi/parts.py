"""Pieces of the OpenAPI document that all its pages share."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from xirang.frontends.service import TensorSpec

Json = dict[str, Any]

NUMBERS_MAX = 64
"""A model of larger examples is shown without one."""

REFUSALS = {
    400: "what was wrong with the request, and what was expected",
    401: "an API key is needed, and this is none",
    403: "the API key does not allow this",
    404: "no such model or version",
    405: "another method was expected",
    408: "the rest of the request did not come in time",
    413: "the body is too large",
    429: "the queue is full; `Retry-After` says when to come back",
    431: "the head is too large",
    500: "the model failed",
    501: "a Content-Encoding that is not read here",
    503: "the server is loading or draining, or holds too many bytes of requests",
    504: "the latency budget is spent",
}
BUDGET = {
    "name": "X-Request-Timeout-Ms",
    "in": "header",
    "description": "latency budget of this request, in milliseconds",
    "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1_000_000_000},
}


def asked(identity: str, words: str, *, kind: str = "object") -> Json:
    """A GET that answers with JSON of a kind."""
    return {"operationId": identity, "summary": words, "responses": responses_of({"type": kind})}


def plain_text(identity: str, words: str) -> Json:
    """A GET that answers with text."""
    content = {"text/plain": {"schema": {"type": "string"}}}
    response = {"description": words, "content": content}
    return {"operationId": identity, "summary": words, "responses": {"200": response}}


def posted(identity: str, words: str, schema: Json, answer: Json, **more: Any) -> Json:
    """A POST of JSON that answers with JSON; `more` is of `responses_of`."""
    return {
        "operationId": identity,
        "summary": words,
        "parameters": [BUDGET],
        "requestBody": body_of(schema),
        "responses": responses_of(answer, **more),
    }


def body_of(schema: Json, *, is_required: bool = True) -> Json:
    """The body of a request."""
    return {"required": is_required, "content": {"application/json": {"schema": schema}}}


def responses_of(
    schema: Json,
    *,
    kind: str = "application/json",
    error: str = "Error",
    refusals: Mapping[int, str] | None = None,
) -> Json:
    """The answer, and all that may go wrong.

    Args:
        schema: Of the answer.
        kind: Its media type.
        error: Name of the schema of what goes wrong.
        refusals: What may go wrong besides.
    """
    form = {"application/json": {"schema": {"$ref": f"#/components/schemas/{error}"}}}
    told = REFUSALS | dict(refusals or {})
    refused = {str(status): {"description": told[status], "content": form} for status in told}
    answer = {"description": "the answer", "content": {kind: {"schema": schema}}}
    return {"200": answer, **refused}


def example_of(specs: Sequence[TensorSpec]) -> list[Json] | None:
    """One row of ones, four where a size may vary: what most models take."""
    tensors = []
    for spec in specs:
        shape = [1 if axis == 0 else 4 for axis in range(len(spec.shape))]
        shape = [known if size < 0 else size for size, known in zip(spec.shape, shape, strict=True)]
        if prod(shape) > NUMBERS_MAX or spec.datatype == "FP16":
            return None
        element: Any = {"BYTES": "text", "BOOL": True}.get(spec.datatype, 1)
        tensors.append(
            {
                "name": spec.name,
                "shape": shape,
                "datatype": spec.datatype,
                "data": [element] * prod(shape),
            }
        )
    return tensors


ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "description": "a sentence; on /v1 OpenAI's object with the sentence in `message`",
            "type": ["string", "object"],
        }
    },
}
ELEMENTS: Mapping[str, Json] = {
    "BOOL": {"type": "boolean"},
    "BYTES": {"type": "string"},
    **{
        f"{sign}INT{bits}": {
            "type": "integer",
            "minimum": 0 if sign else -(2 ** (bits - 1)),
            "maximum": 2 ** (bits if sign else bits - 1) - 1,
        }
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
}
