"""Blocks of header fields, read and written (RFC 7541); those that come again are read once.

A client's requests differ in their bodies, seldom in their heads: after the first two the blocks
are the same bytes again. What they mean hangs on the table that both sides keep, so what was read
is kept for as long as no block changes that table.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hpack import Decoder, HPACKError, OversizedHeaderListError

from xirang.frontends.grpc.http2.frames import ConnectionFault, ErrorCode
from xirang.frontends.grpc.http2.limits import LIST_BYTES_MAX

KEPT_MAX = 64
KEPT_BYTES_MAX = 4096

Field = tuple[bytes, bytes]

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE = re.compile(rb"(?![ \t])[^\0\r\n]*(?<![ \t])")
_PSEUDO = frozenset([b":method", b":scheme", b":path", b":authority"])
_NEEDED = frozenset([b":method", b":scheme", b":path"])
_OF_A_CONNECTION = frozenset(
    [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"]
)


class Head:
    """The fields of a request.

    Requests with the same fields share it, and what was read in it.

    Attributes:
        method: Such as POST.
        path: Where to.
        fields: The others, in order.
        read: What its reader found in it; None if nobody has read it yet.
    """

    __slots__ = ("fields", "method", "path", "read")

    def __init__(self, method: bytes, path: bytes, fields: Sequence[Field]) -> None:
        self.method = method
        self.path = path
        self.fields = fields
        self.read: Any = None


class HeadReader:
    """Reads the blocks of one connection, all of them and in their order."""

    __slots__ = ("_decoder", "_kept")

    def __init__(self) -> None:
        self._decoder = Decoder(LIST_BYTES_MAX)
        self._kept: dict[bytes, Head | None] = {}

    def read(self, block: bytes) -> Head | None:
        """The head of a request; None if it is malformed (section 8.1.1).

        Raises:
            ConnectionFault: The block cannot be read, and so none behind it.
        """
        try:
            return self._kept[block]
        except KeyError:
            pass
        before = self._table()
        head = head_of(self._fields(block))
        after = self._table()
        if before[0] is not after[0] or before[1:] != after[1:] or len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        elif len(block) <= KEPT_BYTES_MAX:
            self._kept[block] = head
        return head

    def skip(self, block: bytes) -> None:
        """Read a block for what it does to the table.

        Raises:
            ConnectionFault: As for `read`.
        """
        self._kept.clear()
        self._fields(block)

    def _fields(self, block: bytes) -> list[Field]:
        try:
            return [(bytes(n), bytes(v)) for n, v in self._decoder.decode(block, raw=True)]
        except OversizedHeaderListError as error:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many fields") from error
        except HPACKError as error:
            reason = "the fields cannot be read"
            raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, reason) from error

    def _table(self) -> tuple[object, int, int]:
        """What differs after every change: an entry is put first, and is an object of its own."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return (entries[0] if entries else None, len(entries), table.maxsize)


def head_of(fields: Sequence[Field]) -> Head | None:
    """The head in some fields; None if they are no request's (sections 8.2 and 8.3)."""
    pseudo: dict[bytes, bytes] = {}
    count = 0
    for name, value in fields:
        if not name.startswith(b":"):
            break
        if name not in _PSEUDO or name in pseudo or not _VALUE.fullmatch(value):
            return None
        pseudo[name] = value
        count += 1
    rest = fields[count:]
    if not pseudo.keys() >= _NEEDED or not pseudo[b":path"] or not all(map(_is_good, rest)):
        return None
    return Head(pseudo[b":method"], pseudo[b":path"], rest)


def block_of(fields: Iterable[Field]) -> bytes:
    """A block that needs no table: whoever reads it needs to have read no other."""
    return b"".join(
        b"\0%b%b%b%b" % (_length(len(name)), name, _length(len(value)), value)
        for name, value in fields
    )


def _is_good(field: Field) -> bool:
    name, value = field
    if name in _OF_A_CONNECTION or (name == b"te" and value != b"trailers"):
        return False
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def _length(size: int) -> bytes:
    """A length in seven bits, and what is beyond in groups of seven."""
    if size < 127:
        return bytes([size])
    size -= 127
    groups = [127]
    while size >= 128:
        groups.append(size & 127 | 128)
        size >>= 7
    groups.append(size)
    return bytes(groups)
