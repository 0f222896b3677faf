"""Shares a fixed number of slabs among models that compete for them.

A share has a guarantee, a limit, and may borrow between the two: whatever is free and not owed to
the guarantees of others. So a share within its guarantee is never refused, and none is starved by
a busier one. A guarantee is never less than what was promised at the start; beyond that it is as
large as the share wishes, or as leaves the others all that they wish for if nothing else runs. The
broker counts; it knows neither addresses nor time.
"""

from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class Counts:
    """How often something happened to a share.

    Attributes:
        grow: An arena got more pages.
        shrink: Pages went back because recent runs did not need them.
        extend: A run took more than its lease.
        trim: A run took less.
        reclaim: Pages went because somebody needed them.
        refuse: A lease was not to be had as large as it was asked for.
        evict: It was asked to go.
    """

    grow: int = 0
    shrink: int = 0
    extend: int = 0
    trim: int = 0
    reclaim: int = 0
    refuse: int = 0
    evict: int = 0

    def pairs(self) -> tuple[tuple[str, int], ...]:
        """Each with its name."""
        return tuple([(one.name, getattr(self, one.name)) for one in fields(self)])


@dataclass(slots=True, eq=False)
class Share:
    """What one model, or one group of them, may have.

    Attributes:
        name: Whose.
        least: Slabs that it was promised for as long as it is there.
        wish: Slabs that it would like to be promised.
        guarantee: Slabs that it gets, between the two.
        limit: Slabs that it never passes.
        may_go: Whether it may be asked to go, if others need what it has.
        held: Slabs that it has: weights and arenas.
        fixed: Those of them that are in no arena: they do not come back while it is there.
        counts: What happened to it.
    """

    name: str
    least: int
    limit: int
    may_go: bool = False
    wish: int = 0
    guarantee: int = 0
    held: int = 0
    fixed: int = 0
    counts: Counts = field(default_factory=Counts)

    @property
    def owed(self) -> int:
        """What is left of its guarantee."""
        return max(0, self.guarantee - self.held)

    @property
    def borrowed(self) -> int:
        """What it has beyond its guarantee."""
        return max(0, self.held - self.guarantee)

    @property
    def promised(self) -> int:
        """What it gets now whatever happens, and what does not come back."""
        return max(self.guarantee, self.fixed)

    @property
    def firm(self) -> int:
        """The part of it that is not taken back while it is there."""
        return max(self.least, self.fixed)


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

    def add(
        self, name: str, *, guarantee: int, limit: int, may_go: bool = False, wish: int = 0
    ) -> Share:
        """One more share; all guarantees together must be there to be given.

        What others have borrowed of it may have to come home first.
        """
        assert name not in self.shares
        assert 0 <= guarantee <= limit
        assert guarantee <= self.unpromised(), "guarantees exceed the capacity"
        share = self.shares[name] = Share(name, guarantee, limit, may_go, min(wish, limit))
        self.deal()
        return share

    def deal(self) -> None:
        """Grant wishes, all as far as the same level, as far as they leave others theirs."""
        shares = self.shares.values()
        free = self.unpromised()
        wishes = [max(0, share.wish - share.firm) for share in shares]
        low, high = 0, max(wishes, default=0)
        while low < high:
            level = (low + high + 1) // 2
            granted = [min(wish, level) for wish in wishes]
            most = max(
                [wish - got for wish, got in zip(wishes, granted, strict=True) if wish <= free],
                default=0,
            )
            if sum(granted) + most <= free:
                low = level
            else:
                high = level - 1
        for share, wish in zip(shares, wishes, strict=True):
            granted_slabs = min(wish, low)
            owed = share.owed
            share.guarantee = share.firm + granted_slabs if granted_slabs else share.least
            self.owed += share.owed - owed

    def promised(self, but: Share | None = None) -> int:
        """Slabs that shares get whatever happens, and those that do not come back."""
        shares = self.shares.values()
        return sum([each.promised for each in shares if each is not but])

    def firm(self) -> int:
        """Those of them that are not taken back while the shares are there."""
        return sum([share.firm for share in self.shares.values()])

    def unpromised(self) -> int:
        """Slabs of which a guarantee could be made."""
        return self.capacity - self.firm()

    def lent(self) -> int:
        """Slabs that nobody is promised, for all to borrow."""
        return self.capacity - self.promised()

    def remove(self, name: str) -> None:
        """A share that has given everything back goes."""
        share = self.shares.pop(name)
        assert share.held == 0
        self.owed -= share.guarantee
        self.deal()

    def room(self, share: Share) -> int:
        """How many slabs more it could have now."""
        free = self.capacity - self.held - (self.owed - share.owed)
        return max(0, min(free, share.limit - share.held))

    def most(self, share: Share) -> int:
        """How many slabs its arenas could have if nothing ran."""
        free = self.capacity - self.promised(share)
        return max(0, min(free, share.limit) - share.fixed)

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

    def count(self, share: Share, slabs: int) -> None:
        """It has taken slabs without asking."""
        self._change(share, slabs)

    def excess(self) -> int:
        """Slabs that shares have and others are owed, or that are above the capacity.

        Until they are back nobody borrows, and a guarantee may have to wait for the end of a run.
        """
        return self.held + self.owed - self.capacity

    def resize(self, capacity: int) -> None:
        """Another capacity; what is promised must fit in it."""
        assert self.firm() <= capacity
        self.capacity = capacity
        self.deal()

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
        assert all(0 <= share.fixed <= share.held <= share.limit for share in shares)
        assert all(share.least <= share.guarantee <= share.limit for share in shares)

    def check_promises(self) -> None:
        """What is owed is there; only a capacity that has just shrunk breaks this, for a while."""
        assert self.held + self.owed <= self.capacity
