"""JSON objects out of bodies, and answers to requests that are not hot."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from xirang.errors import InvalidRequest
from xirang.frontends.errors import TooLarge

BODY_BYTES_MAX = 1 << 20
VERBS_NOT_POST = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
"""Of URLs on which a POST is hot, and never comes to an application."""


def parsed(body: bytes, expected: str) -> dict[str, Any]:
    """The JSON object in a body.

    Args:
        body: All of it.
        expected: What is said of the object where there is none.

    Raises:
        InvalidRequest: There is none.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"failed to parse the request JSON: {error}") from None
    if type(document) is not dict:
        raise InvalidRequest(expected)
    return document


async def body_of(request: Request) -> bytes:
    """A request's whole body.

    Raises:
        TooLarge: It has more than `BODY_BYTES_MAX` bytes: settings and questions are short.
    """
    parts, size_bytes = [], 0
    async for part in request.stream():
        parts.append(part)
        size_bytes += len(part)
        if size_bytes > BODY_BYTES_MAX:
            raise TooLarge(f"the body is larger than {BODY_BYTES_MAX} bytes")
    return b"".join(parts)


async def object_of(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body; an empty one if there is no body.

    Raises:
        InvalidRequest: The body is something else.
    """
    body = await body_of(request)
    return parsed(body, "the body must be a JSON object") if body else {}


def told(content: Any, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(orjson.dumps(content), status, media_type="application/json")


def refused(status: int, headers: bytes, body: bytes) -> Response:
    """A hot route's refusal, whose header lines end in CR LF, as an answer of an application."""
    lines = (line.partition(b": ") for line in headers.split(b"\r\n") if line)
    return Response(body, status, {name.decode(): value.decode() for name, _, value in lines})


def done() -> Response:
    """The answer to a command that was carried out."""
    return Response(media_type="application/json")
