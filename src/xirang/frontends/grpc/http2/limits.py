"""What a client may have at once, and how much it may ask for that helps nobody."""

from xirang.frontends.grpc.http2.frames import (
    CONCURRENT_STREAMS_MAX,
    FRAME_BYTES,
    FRAME_SIZE_MAX,
    HEADER_LIST_SIZE_MAX,
    INITIAL_WINDOW_SIZE,
)

LIST_BYTES_MAX = 16 << 10
"""Of a request's fields, as HTTP/2 counts them: 32 bytes for each beyond name and value."""
STREAMS_MAX = 1024
"""Requests of one connection that are in at once; the client waits beyond it."""
STREAM_ROOM = 1 << 20
"""What a client may send on a stream before it is told to go on."""
ROOM = 1 << 30
"""The same for the connection. Bodies are counted where they are kept, so this one is wide."""
CONTINUATIONS_MAX = 16
"""Frames that one block may be cut into: more than a longest block needs (CVE-2024-27316)."""

RESETS_MAX, RESETS_A_SECOND = 2 * STREAMS_MAX, 256
"""Streams that end before their time, whoever ends them: a client that gives up on all it asked,
twice, is none that asks only to give up (CVE-2023-44487, and CVE-2025-8671 for our own)."""
IDLE_MAX, IDLE_A_SECOND = 10_000, 1000
"""Frames that move nothing: pings, settings, priorities, wider windows, empty data."""
IDLE_EARNED = 4
"""Of them are welcome for each frame that does move something, either way: clients measure with
pings, and some widen two windows for each frame that they get."""
SETTINGS_COST = 8
"""A change of settings touches all streams."""

OURS = {
    CONCURRENT_STREAMS_MAX: STREAMS_MAX,
    INITIAL_WINDOW_SIZE: STREAM_ROOM,
    FRAME_SIZE_MAX: FRAME_BYTES,
    HEADER_LIST_SIZE_MAX: LIST_BYTES_MAX,
}


class Patience:
    """An amount that is spent and comes back. It knows no time: it is told when a second is over.

    Attributes:
        left: What may still be spent.
    """

    __slots__ = ("_full", "_second", "left")

    def __init__(self, full: int, second: int) -> None:
        """Begin with all of it.

        Args:
            full: The most there ever is.
            second: What comes back in a second.
        """
        self.left = self._full = full
        self._second = second

    def spend(self, amount: int = 1) -> bool:
        """Take some; false if there was not enough."""
        self.left -= amount
        return self.left >= 0

    def earn(self, amount: int) -> None:
        """Give some back."""
        if self.left < self._full:
            self.left += amount

    def renew(self) -> None:
        """A second has passed."""
        self.left = min(self._full, self.left + self._second)
