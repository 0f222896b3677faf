"""Who waits for memory, and how much of what is lent others may have meanwhile.

A run that was cut because there was too little makes its arena short. While one is short, every
other share may borrow a fair part of what is lent and no more, and so may every other arena of its
own share of what that has: all are as large as there are shares, or arenas, that take part. Leases
last for one run, so after one run of each all have what is theirs. Who gets what it asks for is
short no more, and where nobody is short nobody is held back.
"""

from collections.abc import Collection, Iterable

from xirang.core.memory.arena import Arena
from xirang.core.memory.broker import Broker, Share


class Fairness:
    """Who waits, and in which way.

    Attributes:
        line: Shares for which not even the smallest run fits, in order: nobody else borrows until
            the first has had its turn.
        short: Numbers of arenas whose last run was cut.
        active: Numbers of arenas that have a lease, or had one since the pool was last tidied.
    """

    __slots__ = ("_refused", "active", "line", "short")

    def __init__(self) -> None:
        """Nobody waits."""
        self.line: list[Share] = []
        self.short: set[int] = set()
        self.active: set[int] = set()
        self._refused: set[int] = set()

    def refused(self, place: Arena) -> None:
        """It does not get as much as it asked for."""
        self._refused.add(place.index)
        self.short.add(place.index)

    def granted(self, place: Arena) -> bool:
        """It got a lease; whether somebody who was held back is so no more."""
        index = place.index
        if index in self._refused:  # less than it had asked for
            self._refused.remove(index)
            return False
        if index not in self.short:
            return False
        self.short.remove(index)
        return True

    def forget(self, places: Iterable[Arena]) -> bool:
        """They want nothing at present; whether that changes anything for others."""
        before = len(self.short)
        for place in places:
            for numbers in (self.short, self.active, self._refused):
                numbers.discard(place.index)
        return len(self.short) < before

    def part(self, place: Arena, places: Collection[Arena], broker: Broker) -> int | None:
        """The slabs that an arena may use while others are short; None: as many as there are."""
        if not self.short or (self.line and self.line[0] is place.share):
            return None
        share = place.share
        taking = [each for each in places if each is place or self._takes(each)]
        short = [each for each in taking if each is not place and each.index in self.short]
        if not short:
            return None
        has = broker.most(share)
        if any(each.share is not share for each in short):
            shares = {each.share.name for each in taking}
            lent = broker.lent() // len(shares)
            has = min(has, max(0, share.guarantee - share.fixed) + max(0, lent))
        own = [each for each in taking if each.share is share]
        if any(each.share is share for each in short):
            return has // len(own)
        return has - sum([each.leased for each in own if each is not place])

    def _takes(self, place: Arena) -> bool:
        return place.index in self.active or place.index in self.short
