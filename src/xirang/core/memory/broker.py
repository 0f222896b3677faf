"""Shares a fixed number of slabs among models that compete for them.

A share has a guarantee, a limit, and may borrow between the two: whatever is free and not owed to
the guarantees of others. So a share within its guarantee is never refused, and none is starved by
a busier one. The broker counts; it knows neither addresses nor time.
"""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Share:
    """What one model, or one group of them, may have.

    Attributes:
        name: Whose.
        guarantee: Slabs that it always gets.
        limit: Slabs that it never passes.
        held: Slabs that it has: weights and arenas.
    """

    name: str
    guarantee: int
    limit: int
    held: int = 0

    @property
    def owed(self) -> int:
        """What is left of its guarantee."""
        return max(0, self.guarantee - self.held)

    @property
    def borrowed(self) -> int:
        """What it has beyond its guarantee."""
        return max(0, self.held - self.guarantee)


class Broker:
    """Who may have how much.

    Attributes:
        capacity: Slabs that there are.
        held: Slabs that shares have.
        owed: Slabs that are left of guarantees.
        shares: By name.
    """

    __slots__ = ("capacity", "held", "owed", "shares")

    def __init__(self, capacity: int) -> None:
        """Nobody has anything."""
        self.capacity = capacity
        self.held = self.owed = 0
        self.shares: dict[str, Share] = {}

    def add(self, name: str, *, guarantee: int, limit: int) -> Share:
        """One more share; all guarantees together must be there to be given."""
        assert name not in self.shares
        assert 0 <= guarantee <= limit
        assert self.held + self.owed + guarantee <= self.capacity, "guarantees exceed the capacity"
        share = self.shares[name] = Share(name, guarantee, limit)
        self.owed += guarantee
        return share

    def can_add(self, guarantee: int) -> bool:
        """Whether a share with such a guarantee could come."""
        return self.held + self.owed + guarantee <= self.capacity

    def remove(self, name: str) -> None:
        """A share that has given everything back goes."""
        share = self.shares.pop(name)
        assert share.held == 0
        self.owed -= share.guarantee

    def room(self, share: Share) -> int:
        """How many slabs more it could have now."""
        free = self.capacity - self.held - (self.owed - share.owed)
        return max(0, min(free, share.limit - share.held))

    def missing(self, share: Share, slabs: int) -> int:
        """How many slabs others would have to give back first."""
        return max(0, slabs - (self.capacity - self.held - (self.owed - share.owed)))

    def take(self, share: Share, slabs: int) -> bool:
        """Give it slabs, all or none."""
        if slabs > self.room(share):
            return False
        self._change(share, slabs)
        return True

    def give_back(self, share: Share, slabs: int) -> None:
        """It has them no longer."""
        assert 0 <= slabs <= share.held
        self._change(share, -slabs)

    def resize(self, capacity: int) -> int:
        """Another capacity; the slabs that shares have above it, which must be taken from them.

        Until they are back nobody borrows, and a guarantee may have to wait for the end of a run.
        Guarantees must fit in it.
        """
        assert sum(share.guarantee for share in self.shares.values()) <= capacity
        self.capacity = capacity
        return max(0, self.held + self.owed - capacity)

    def _change(self, share: Share, slabs: int) -> None:
        owed = share.owed
        share.held += slabs
        self.held += slabs
        self.owed += share.owed - owed

    def check_integrity(self) -> None:
        """Sums are right, and no limit is passed."""
        shares = self.shares.values()
        assert self.held == sum(share.held for share in shares)
        assert self.owed == sum(share.owed for share in shares)
        assert all(0 <= share.held <= share.limit for share in shares)

    def check_promises(self) -> None:
        """What is owed is there; only a capacity that has just shrunk breaks this, for a while."""
        assert self.held + self.owed <= self.capacity
