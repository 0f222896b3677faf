"""The headers of a request: those that a client sends with each of its requests are read once."""

from collections.abc import Iterable
from typing import Any

Line = tuple[bytes, bytes]

_OF_AN_UPGRADE = frozenset([b"upgrade", b"connection"])


class Headers(dict[bytes, bytes]):
    """Names in lower case; of a repeated one the last. The body's length is not among them.

    Most requests of a connection bring the same ones, and then share this object: what a route
    has found in them need not be looked for again.

    Attributes:
        lines: All of them, in order.
        reader: The route that read them last.
        read: What it found.
    """

    __slots__ = ("lines", "read", "reader")

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        self.lines = list(lines)
        super().__init__(self.lines)
        self.reader: object = None
        self.read: Any = None


def without_upgrade(start: bytes, lines: Iterable[Line], *, closes: bool) -> bytes:
    """A head as it would be if it offered no other protocol.

    Args:
        start: The request line.
        lines: Of its headers.
        closes: Whether it wants the connection closed.
    """
    kept = [b"%b: %b" % line for line in lines if line[0] not in _OF_AN_UPGRADE]
    if closes:
        kept.append(b"connection: close")
    return b"\r\n".join((start, *kept, b"", b""))
