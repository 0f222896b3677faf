"""What went wrong, as gRPC tells it: a code, a text, and when to come back."""

from enum import IntEnum

import msgspec

from xirang.errors import NotReady, TooBusy, XirangError
from xirang.frontends.errors import RETRY_AFTER_NS, NoRoom, describe
from xirang.frontends.restricted import Restricted
from xirang.frontends.v2.shared_memory import AlreadyRegistered


class Code(IntEnum):
    """gRPC's status codes, as far as they are used here."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


CODES = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    408: Code.DEADLINE_EXCEEDED,
    413: Code.RESOURCE_EXHAUSTED,
    429: Code.UNAVAILABLE,
    499: Code.CANCELLED,
    500: Code.INTERNAL,
    501: Code.UNIMPLEMENTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE_EXCEEDED,
}
"""HTTP status of an error to its code. A full queue is UNAVAILABLE as in Triton, and because
clients try that again."""


class Status(msgspec.Struct, frozen=True):
    """How a call ended that did not end well.

    Attributes:
        code: Of gRPC.
        text: What was wrong, and what was expected.
        pushback_ms: When a client may try again; None if that is no use.
    """

    code: Code
    text: str
    pushback_ms: int | None = None


class NotServed(XirangError):
    """The protocol has it, this server does not."""

    status = 501


def status_of(error: BaseException) -> Status:
    """The status of an error of any kind; one that is ours to mend goes to the log."""
    number, text = describe(error)
    if isinstance(error, AlreadyRegistered):
        return Status(Code.ALREADY_EXISTS, text)
    if isinstance(error, Restricted):
        return Status(Code.UNAVAILABLE, text)  # Triton's code; trying again is no use
    pushback_ms = None
    if isinstance(error, TooBusy | NotReady | NoRoom):
        wait_ns = getattr(error, "retry_after_ns", 0) or RETRY_AFTER_NS
        pushback_ms = -(-wait_ns // 1_000_000)
    return Status(CODES.get(number, Code.UNKNOWN), text, pushback_ms)
