"""What the head of a call says: which procedure, by when, how it is packed, and its metadata."""

import binascii
import re
from base64 import b64decode

import msgspec

from xirang.errors import InvalidRequest
from xirang.frontends.grpc.framing import ending
from xirang.frontends.grpc.http2.heads import Head, block_of
from xirang.frontends.grpc.servicer import Envelope
from xirang.frontends.grpc.status import status_of
from xirang.frontends.headers import Headers
from xirang.frontends.wire.compression import preferred

OWN_FIELDS = frozenset(
    [b"te", b"content-type", b"grpc-timeout", b"grpc-encoding", b"grpc-accept-encoding"]
)
"""Those of gRPC itself: no metadata."""

UNITS_NS = {
    b"H": 3600 * 10**9,
    b"M": 60 * 10**9,
    b"S": 10**9,
    b"m": 10**6,
    b"u": 10**3,
    b"n": 1,
}

_KIND = re.compile(rb"application/grpc(?![^+;])")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")


class CallHead(msgspec.Struct, frozen=True, gc=False):
    """Of all calls with the same fields on one connection.

    Attributes:
        path: Of the procedure.
        envelope: What comes with each message, but for the time.
        timeout_ns: From the head's coming to the call's deadline; None without one.
        coding: Of those messages that are packed.
        accepted: The coding that the client likes best for answers; None for none.
    """

    path: str
    envelope: Envelope
    timeout_ns: int | None
    coding: bytes
    accepted: str | None

    def envelope_at(self, begun_ns: int, now_ns: int) -> Envelope:
        """What comes with a message now.

        Args:
            begun_ns: When the head came.
            now_ns: Now.
        """
        if self.timeout_ns is None:
            return self.envelope
        left_ns = max(0, self.timeout_ns - (now_ns - begun_ns))
        return Envelope(self.envelope.headers, self.envelope.connection, left_ns)


def read_call(head: Head, connection: int) -> CallHead | bytes:
    """What a head says, or the fields that refuse it.

    Args:
        head: Of any request.
        connection: A number that stands for its connection.
    """
    fields = dict(head.fields)
    if head.method != b"POST":
        return block_of([(b":status", b"405"), (b"allow", b"POST")])
    if not _KIND.match(fields.get(b"content-type", b"")):
        return block_of([(b":status", b"415")])
    try:
        timeout, accepted = fields.get(b"grpc-timeout"), fields.get(b"grpc-accept-encoding")
        metadata = Headers(
            (name, _plain(name, value) if name.endswith(b"-bin") else value)
            for name, value in head.fields
            if name not in OWN_FIELDS
        )
        return CallHead(
            head.path.decode("latin-1"),
            Envelope(metadata, connection),
            None if timeout is None else _nanoseconds(timeout),
            fields.get(b"grpc-encoding", b""),
            None if accepted is None else preferred(accepted),
        )
    except InvalidRequest as error:
        return ending(status_of(error), is_all=True)


def _nanoseconds(timeout: bytes) -> int:
    found = _TIMEOUT.fullmatch(timeout)
    if found is None:
        raise InvalidRequest(
            f"grpc-timeout is {timeout.decode('latin-1')!r}; "
            "expected up to eight digits and one of H, M, S, m, u, n"
        )
    return int(found[1]) * UNITS_NS[found[2]]


def _plain(name: bytes, value: bytes) -> bytes:
    """Bytes that ride in base64, with its padding or without."""
    try:
        return b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise InvalidRequest(f"metadata {name.decode()} is not base64") from None
