"""What went wrong, as an HTTP answer: status, headers and a JSON body."""

import functools
import logging
from collections.abc import Callable, Mapping

import orjson

from xirang.errors import ModelFailed, NotReady, TooBusy, Unauthorized, XirangError
from xirang.observe.logs import identity_of

RETRY_AFTER_NS = 1_000_000_000
"""Told when nothing better is known."""

MESSAGE_LENGTH_MAX = 1000
"""Names out of a request may be long; they are not worth sending back whole."""

JSON_TYPE = b"content-type: application/json\r\n"

Refusal = Callable[[BaseException], tuple[int, bytes, bytes]]
"""From an error to status, header lines and body."""

_NO_RETRY = b"x-should-retry: false\r\n"

_ABOUT = "xirang_about"

_logger = logging.getLogger(__name__)


class TooLarge(XirangError):
    """The body, as sent or decompressed, is above the limit."""

    status = 413


class HeadTooLarge(XirangError):
    """Request line and headers are above the limit."""

    status = 431


class Dawdled(XirangError):
    """The rest of the request did not come in time."""

    status = 408


class NoRoom(XirangError):
    """All bodies together are above the limit."""

    status = 503


NO_ROOM = "too many bytes of requests are in memory; come back later"


class UnsupportedEncoding(XirangError):
    """The body comes in a Content-Encoding that is not read here."""

    status = 501


def error_body(message: str) -> bytes:
    """The Open Inference Protocol's form of an error."""
    return orjson.dumps({"error": message})


def error_response(error: BaseException) -> tuple[int, bytes, bytes]:
    """Status, header lines and body for an error of any kind."""
    if isinstance(error, TooBusy):
        return error.status, *_busy(str(error), error.retry_after_ns)
    status, message = describe(error)
    return status, JSON_TYPE + error_headers(error), error_body(message)


@functools.lru_cache(maxsize=256)
def _busy(message: str, wait_ns: int) -> tuple[bytes, bytes]:
    """Header lines and body of a no; under overload the same is said to many."""
    error = TooBusy(message, retry_after_ns=wait_ns)
    return JSON_TYPE + error_headers(error), error_body(message[:MESSAGE_LENGTH_MAX])


def refusal_of(route: object) -> Refusal:
    """How a route tells what is wrong: in its own form, if it has one."""
    own: Refusal = getattr(route, "refusal", error_response)
    return own


def refusal(
    error: BaseException, route: object, headers: Mapping[bytes, bytes]
) -> tuple[int, bytes, bytes]:
    """An error as a route tells it: status, header lines and body.

    Args:
        error: What is wrong.
        route: Which was asked; None for none.
        headers: Of the request.
    """
    return refusal_of(route)(about(error, headers))


def about(error: BaseException, headers: Mapping[bytes, bytes]) -> BaseException:
    """The error, with what its line in the log shall say of the request it is about."""
    if not isinstance(error, XirangError):
        setattr(error, _ABOUT, identity_of(headers))
    return error


def describe(error: BaseException) -> tuple[int, str]:
    """Status and text of an error; one that is ours to mend goes to the log, not to the client."""
    if isinstance(error, XirangError):
        return error.status, str(error)[:MESSAGE_LENGTH_MAX]
    told = getattr(error, _ABOUT, {})
    _logger.error("unexpected error while answering a request", exc_info=error, extra=told)
    return 500, "internal error; the server's log has the details"


def error_headers(error: BaseException) -> bytes:
    """Header lines that tell a client whether and when to come back, or what it may send.

    OpenAI's clients try again after 429 and any 5xx, unless `x-should-retry` says otherwise: a
    request that is wrong stays wrong, and one that came too late is not wanted any more.
    """
    if isinstance(error, TooBusy | NotReady | NoRoom):
        wait_ns = getattr(error, "retry_after_ns", 0) or RETRY_AFTER_NS
        milliseconds = -(-wait_ns // 1_000_000)
        seconds = -(-milliseconds // 1000)
        return b"retry-after: %d\r\nretry-after-ms: %d\r\nx-should-retry: true\r\n" % (
            seconds,
            milliseconds,
        )
    if isinstance(error, ModelFailed | Dawdled) or not isinstance(error, XirangError):
        return b""  # it may go well the next time
    if isinstance(error, Unauthorized):
        return b"www-authenticate: Bearer\r\n" + _NO_RETRY
    if isinstance(error, UnsupportedEncoding):
        return b"accept-encoding: gzip, deflate\r\n" + _NO_RETRY
    return _NO_RETRY
