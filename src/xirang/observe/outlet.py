"""Hands on what the loop leaves, from a thread of its own: nobody waits for those who watch."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

ROOM = 8192
INTERVAL_S = 0.25
CLOSING_S = 5.0
"""Longest that anybody waits for the last of it: who takes it may be gone."""


@dataclass(slots=True, eq=False)
class Tally:
    """What became of what was left there.

    Attributes:
        sent: Handed on.
        dropped: There was no room, as too much came at once.
        failed: Nobody took it.
    """

    sent: int = 0
    dropped: int = 0
    failed: int = 0


class Outlet(Generic[T]):
    """A bounded ring, and the thread that empties it now and then."""

    __slots__ = (
        "_hand_on",
        "_interval_s",
        "_is_closing",
        "_items",
        "_room",
        "_thread",
        "_wake",
        "tally",
    )

    def __init__(
        self,
        hand_on: Callable[[list[T]], None],
        tally: Tally,
        *,
        name: str,
        room: int = ROOM,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Begin.

        Args:
            hand_on: Takes what has gathered, on the thread; with nothing once more at the end.
            tally: Where drops are counted; the rest is counted by `hand_on`.
            name: Of the thread.
            room: Most items that wait.
            interval_s: Longest time that they do.
        """
        self.tally = tally
        self._hand_on = hand_on
        self._room = room
        self._interval_s = interval_s
        self._items: deque[T] = deque()
        self._wake = threading.Event()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        """Leave something there; costs no more than that, whatever becomes of it."""
        if len(self._items) >= self._room:
            self.tally.dropped += 1
        else:
            self._items.append(item)

    def hurry(self) -> None:
        """Do not wait for the interval."""
        self._wake.set()

    def close(self) -> None:
        """Hand on what is left, and end."""
        self._is_closing = True
        self._wake.set()
        self._thread.join(CLOSING_S)

    def _work(self) -> None:
        while not self._is_closing:
            self._wake.wait(self._interval_s)
            self._wake.clear()
            self._empty()
        self._empty()
        self._hand_on([])

    def _empty(self) -> None:
        items = self._items
        if items:
            taken = [items.popleft() for _ in range(len(items))]
            try:
                self._hand_on(taken)
            except Exception:  # whatever was wrong with these is not wrong with the next ones
                self.tally.failed += len(taken)
