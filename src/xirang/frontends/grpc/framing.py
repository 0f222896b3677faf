"""Messages of gRPC in the bytes of a body: each behind a flag and its length, packed or not."""

import functools
import zlib
from urllib.parse import quote

from xirang.errors import XirangError
from xirang.frontends.errors import NO_ROOM, NoRoom, TooLarge
from xirang.frontends.grpc.http2.heads import Field, block_of
from xirang.frontends.grpc.status import Status
from xirang.frontends.wire.compression import GZIP_WINDOW, decompress
from xirang.frontends.wire.connection import Memory

PREFIX_BYTES = 5
CODINGS = b"gzip, deflate, identity"
WINDOWS = {"gzip": GZIP_WINDOW, "deflate": zlib.MAX_WBITS}
LEVELS = {"none": 0, "low": 1, "medium": 6, "high": 9}
"""Of packing, as zlib counts them; 0: answers go as they are."""

PUSHBACK = b"grpc-retry-pushback-ms"
"""Trailing metadata by which gRPC's own retries are told when to come back."""
TEXT_BYTES_MAX = 4096
"""Of what is said of an error: clients take 8 KiB of trailers."""

_BEGIN = b"\x88" + block_of([(b"content-type", b"application/grpc")])
"""Status 200, and what follows; the status is the eighth of the fields that all sides know."""
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class Garbled(XirangError):
    """What came is not how gRPC sends messages."""

    status = 500


class Inbox:
    """The messages of one call, out of the pieces in which its body comes.

    What it holds is counted as memory for requests, but for a body that comes in one piece.

    Attributes:
        held_bytes: What it has counted.
        missing_bytes: What the message that has begun still lacks, as far as that is known.
    """

    __slots__ = (
        "_at",
        "_bytes_max",
        "_coding",
        "_data",
        "_memory",
        "_pieces",
        "_pieces_bytes",
        "held_bytes",
        "missing_bytes",
    )

    def __init__(self, memory: Memory, bytes_max: int, coding: bytes) -> None:
        """Begin.

        Args:
            memory: Of all requests.
            bytes_max: Of a message, as sent and unpacked.
            coding: In which messages that say so are packed.
        """
        self._memory = memory
        self._bytes_max = bytes_max
        self._coding = coding
        self._data = b""
        self._at = 0
        self._pieces: list[bytes] = []
        self._pieces_bytes = 0
        self.held_bytes = 0
        self.missing_bytes = PREFIX_BYTES

    @property
    def is_empty(self) -> bool:
        """Nothing is left in it."""
        return self._left == 0

    @property
    def _left(self) -> int:
        return len(self._data) - self._at + self._pieces_bytes

    def feed(self, data: bytes) -> None:
        """The next piece."""
        if self._at == len(self._data) and not self._pieces:
            self._data, self._at = data, 0
        elif data:
            self._pieces.append(data)
            self._pieces_bytes += len(data)

    def take(self) -> bytes | None:
        """The next message; None if it is not all there.

        Raises:
            XirangError: It is not to be had, and no other behind it.
        """
        if self._left < PREFIX_BYTES:
            self.missing_bytes = PREFIX_BYTES - self._left
            return None
        if len(self._data) - self._at < PREFIX_BYTES:
            self._join()
        start = self._at + PREFIX_BYTES
        flag, size = self._data[self._at], int.from_bytes(self._data[self._at + 1 : start])
        if flag > 1:
            raise Garbled(f"a message begins with {flag}; expected 0 or 1, if it is packed")
        if size > self._bytes_max:
            raise TooLarge(f"Received message larger than max ({size} vs. {self._bytes_max})")
        self.missing_bytes = PREFIX_BYTES + size - self._left
        if self.missing_bytes > 0:
            return None
        if len(self._data) < start + size:
            self._join()
            start = PREFIX_BYTES
        self._at = start + size
        message = self._data[start : self._at]
        self.missing_bytes = PREFIX_BYTES
        return message if not flag else self._unpacked(message)

    def settle(self) -> None:
        """Count what is left in it.

        Raises:
            NoRoom: All requests together take too much.
        """
        memory, left = self._memory, self._left
        memory.held_bytes += left - self.held_bytes
        self.held_bytes = left
        if left and memory.held_bytes + max(0, self.missing_bytes) > memory.bytes_max:
            raise NoRoom(NO_ROOM)

    def clear(self) -> None:
        """Nobody wants what is in it."""
        self._memory.held_bytes -= self.held_bytes
        self.held_bytes = self._at = self._pieces_bytes = 0
        self._data, self._pieces = b"", []

    def _join(self) -> None:
        self._data = b"".join((self._data[self._at :], *self._pieces))
        self._at = self._pieces_bytes = 0
        self._pieces = []

    def _unpacked(self, message: bytes) -> bytes:
        if self._coding in (b"", b"identity"):
            raise Garbled("a message is packed, but the call names no grpc-encoding")
        return decompress(message, self._coding, bytes_max=self._bytes_max)


def lone_message(data: bytes) -> bytes | None:
    """The message in a body that is one, unpacked; None for any other body."""
    if data[:1] == b"\0" and int.from_bytes(data[1:PREFIX_BYTES]) == len(data) - PREFIX_BYTES:
        return data[PREFIX_BYTES:]
    return None


def framed(message: bytes, level: int = 0, coding: str | None = None) -> tuple[bytes, bytes]:
    """A message's prefix, and its bytes: packed where that makes them fewer."""
    if coding is not None:
        packed = zlib.compress(message, level, WINDOWS[coding])
        if len(packed) < len(message):
            return b"\1" + len(packed).to_bytes(4), packed
    return b"\0" + len(message).to_bytes(4), message


@functools.lru_cache(maxsize=256)
def beginning(coding: str | None = None) -> bytes:
    """The head of a response whose messages may be packed in that coding."""
    if coding is None:
        return _BEGIN
    return _BEGIN + block_of([(b"grpc-encoding", coding.encode())])


@functools.lru_cache(maxsize=256)
def ending(status: Status | None = None, *, is_all: bool = False) -> bytes:
    """The fields that end a response.

    Args:
        status: What went wrong; None for nothing.
        is_all: They are all there is of the response.
    """
    if status is None:
        fields: list[Field] = [(b"grpc-status", b"0")]
    else:
        fields = [(b"grpc-status", b"%d" % status.code), (b"grpc-message", percented(status.text))]
        if status.pushback_ms is not None:
            fields.append((PUSHBACK, b"%d" % status.pushback_ms))
        if status.code == status.code.UNIMPLEMENTED:
            fields.append((b"grpc-accept-encoding", CODINGS))
    return (_BEGIN if is_all else b"") + block_of(fields)


def percented(text: str) -> bytes:
    """A text as `grpc-message` has it: what is not printable ASCII as `%xx` of its UTF-8."""
    encoded = quote(text.strip(), safe=_PRINTABLE, errors="replace")
    if len(encoded) > TEXT_BYTES_MAX:
        encoded = encoded[:TEXT_BYTES_MAX]
        if "%" in encoded[-2:]:
            encoded = encoded[: encoded.rindex("%")]
    return encoded.encode()
