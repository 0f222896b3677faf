"""Who is starved: what each lane brought and what it was given, over the last ten seconds or so.

Value for device time passes over the long and the unimportant as long as there are others. The
floor: a lane that was given less than a twentieth of what it would get if all were treated alike
may have one run.
"""

from collections.abc import Collection
from math import exp

Key = tuple[int, int]
"""Priority and cost class."""

MEMORY_NS = 10_000_000_000
FLOOR = 0.05


class Share:
    """One lane's."""

    __slots__ = ("brought_ns", "given_ns")

    def __init__(self) -> None:
        self.brought_ns = 0.0
        self.given_ns = 0.0


class Shares:
    """All lanes' of one model, also of those that are empty now."""

    __slots__ = ("_faded_ns", "_shares")

    def __init__(self) -> None:
        self._shares: dict[Key, Share] = {}
        self._faded_ns = 0

    def of(self, key: Key) -> Share:
        """A lane's share, to count in."""
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = Share()
        return share

    def starved(self, waiting: Collection[Key], *, now_ns: int) -> Key | None:
        """Which of the waiting lanes is owed a run; of several the one that was given least."""
        self._fade(now_ns)
        brought_ns = sum([share.brought_ns for share in self._shares.values()])
        given_ns = sum([share.given_ns for share in self._shares.values()])
        least, starved = FLOOR * given_ns, None
        for key in sorted(waiting):
            share = self._shares[key]
            alike = share.given_ns * brought_ns / max(1.0, share.brought_ns)
            if alike < least:
                least, starved = alike, key
        return starved

    def _fade(self, now_ns: int) -> None:
        kept = exp((self._faded_ns - now_ns) / MEMORY_NS)
        self._faded_ns = now_ns
        for share in self._shares.values():
            share.brought_ns *= kept
            share.given_ns *= kept
