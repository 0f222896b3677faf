"""Memory that follows the load: arenas grow when runs need more, and give back the surplus.

An arena is an execution slot's own range of addresses, reserved once and used from the bottom, so
nothing ever moves and two leases never meet. What is scarce are slabs: pages behind the addresses.
A lease reserves as much as its run is estimated to need; a slab stays when the lease ends, for the
next one. It goes back when the recent peaks of the arena no longer reach it, or at once when
another share needs it: idle tails first, of those that borrow before those within their guarantee,
the least recently used first.

Whoever is refused makes its run smaller, and until it gets what it asks for nobody else borrows
more than a fair part. If not even the smallest fits, it stands in line, and until its turn has come
nobody else borrows at all: as leases last for one run, what was lent is home by the end of the
longest that runs now.

The pool counts and decides. What has to be done with real pages it hands out as a list, to be
carried out in its order: a tail is cut before another arena grows into what that frees.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from xirang.core.memory.arena import Arena, ArenaSnapshot, Lease, Refused, Resize
from xirang.core.memory.broker import Broker, Share
from xirang.core.memory.fairness import Fairness

SLAB_BYTES = 2 << 20
"""A huge page: giving one back costs a twentieth of giving its small pages back."""

DECAY = 3
"""A recent peak is divided by this each time the pool is tidied: after five times 1 % is left."""

TIDY_NS = 1_000_000_000
"""The time between two looks for what recent runs did not need."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What a pool is made with.

    Attributes:
        capacity_bytes: What all may have together.
        low: A share of the capacity: when too much is committed, idle tails are cut until here.
        high: The share from which on it is too much.
        slab_bytes: The unit of everything.
        devices: Name to capacity of each device with memory of its own: a pool of its own.
    """

    capacity_bytes: int
    low: float = 0.8
    high: float = 0.95
    slab_bytes: int = SLAB_BYTES
    devices: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        assert self.capacity_bytes >= 0
        assert self.slab_bytes >= 1
        assert 0 < self.low <= self.high <= 1


class Pool:
    """All arenas.

    Attributes:
        broker: Who may have how much.
        arenas: By their number; numbers are never used again.
        freed: Goes up whenever a lease that was refused might be granted now.
        changes: Goes up whenever the most that a share could ever have may have changed.
        tidy_ns: When it is to be tidied next; None while time alone would change nothing.
    """

    __slots__ = (
        "_fairness",
        "_numbers",
        "_resizes",
        "arenas",
        "broker",
        "changes",
        "freed",
        "settings",
        "slab_bytes",
        "tidy_ns",
    )

    def __init__(self, settings: PoolSettings, numbers: Iterator[int] | None = None) -> None:
        """An empty pool.

        Args:
            settings: How large it is.
            numbers: Those of its arenas, if other pools shall have none of them.
        """
        self.settings = settings
        self.slab_bytes = settings.slab_bytes
        self.broker = Broker(settings.capacity_bytes // settings.slab_bytes)
        self.arenas: dict[int, Arena] = {}
        self.freed = self.changes = 0
        self.tidy_ns: int | None = None
        self._numbers = count() if numbers is None else numbers
        self._fairness = Fairness()
        self._resizes: list[Resize] = []

    def slabs(self, size_bytes: int) -> int:
        """How many hold so many bytes."""
        assert size_bytes >= 0
        return -(-size_bytes // self.slab_bytes)

    # ------------------------------------------------------------------ who competes

    def add_share(
        self,
        name: str,
        *,
        guarantee_bytes: int = 0,
        wish_bytes: int = 0,
        limit_bytes: int,
        may_go: bool = False,
    ) -> Share:
        """Let one more compete.

        Args:
            name: Whose share it is.
            guarantee_bytes: What it always gets; there must be as much that is not promised yet.
            wish_bytes: What it would like to get always.
            limit_bytes: What it never passes.
            may_go: Whether it may be asked to go, if others need what it has.
        """
        self.changes += 1
        limit = min(limit_bytes // self.slab_bytes, self.broker.capacity)
        guarantee = min(self.slabs(guarantee_bytes), limit)
        wish = self.slabs(wish_bytes)
        share = self.broker.add(name, guarantee=guarantee, limit=limit, may_go=may_go, wish=wish)
        self._restore_promises()
        return share

    def remove_share(self, share: Share) -> None:
        """It goes with all that it has; none of its arenas is leased any more."""
        places = [place for place in self.arenas.values() if place.share is share]
        self._fairness.forget(places)
        for place in places:
            assert place.lease is None
            self._cut(place, 0)
            del self.arenas[place.index]
        self.let_go(share, share.fixed * self.slab_bytes)
        self.leave_line(share)
        self.broker.remove(share.name)
        self._note_change()

    def add_arena(self, share: Share, reserved_bytes: int, *, keep_bytes: int = 0) -> int:
        """The number of a new arena.

        Args:
            share: Who pays for it.
            reserved_bytes: How far its addresses reach.
            keep_bytes: Pages that it has from the start, and is left with while it is idle, unless
                somebody needs them.
        """
        index = next(self._numbers)
        reserved = reserved_bytes // self.slab_bytes
        keep = min(self.slabs(keep_bytes), reserved)
        place = self.arenas[index] = Arena(index, share, reserved, keep=keep)
        if keep and self._take(share, keep, asking=place):
            self._resized(place, keep)
        return index

    def hold(self, share: Share, size_bytes: int) -> None:
        """Count memory that is taken already, outside of the arenas, such as weights.

        Idle tails make room for it; what runs hold comes home as they end.
        """
        slabs = self.slabs(size_bytes)
        share.fixed += slabs
        self.broker.count(share, slabs)
        self.broker.deal()
        self._restore_promises()
        self.changes += 1

    def let_go(self, share: Share, size_bytes: int) -> None:
        """That memory is free."""
        slabs = self.slabs(size_bytes)
        share.fixed -= slabs
        self.broker.give_back(share, slabs)
        self.broker.deal()
        self._note_change()

    def most_bytes(self, share: Share) -> int:
        """The largest lease that it could get if nothing ran."""
        reserved = max([p.reserved for p in self.arenas.values() if p.share is share], default=0)
        return min(self.broker.most(share), reserved) * self.slab_bytes

    def resize(self, capacity_bytes: int) -> None:
        """Another capacity: idle tails go at once, what runs hold comes home as they end.

        It is never less than what shares were promised and what they hold outside of arenas.
        """
        least = self.broker.firm()
        self.broker.resize(max(least, capacity_bytes // self.slab_bytes))
        self._restore_promises()
        self._note_change()

    def relieve(self) -> None:
        """The system is short of memory: whatever no run uses goes back to it at once."""
        for place in self.arenas.values():
            self._cut(place, place.leased)
            place.recent = 0

    # ------------------------------------------------------------------ runs

    def lease(self, arena: int, size_bytes: int) -> Lease | Refused:
        """Memory for one run; a warm arena has it already."""
        place = self.arenas[arena]
        assert place.lease is None, "an execution slot runs one run at a time"
        slabs = -(-size_bytes // self.slab_bytes)
        fairness = self._fairness
        is_held_back = (fairness.line or fairness.short) and slabs > self._part(place)
        if is_held_back or (slabs > place.committed and not self._grow(place, slabs)):
            most = min(slabs, self._part(place), place.reserved, self.broker.most(place.share))
            self._make_room(place.share, most - place.committed, place)
            refused = self._refused(place)
            fairness.refused(place)
            return refused
        place.leased = slabs
        lease = place.lease = Lease(arena, size_bytes)
        fairness.active.add(arena)
        if fairness.short:
            self.freed += fairness.granted(place)
        if fairness.line:
            self.leave_line(place.share)
        return lease

    def extend(self, lease: Lease, size_bytes: int) -> Refused | None:
        """More for a lease, in place; None if it got it. If refused it keeps what it has."""
        place = self._place_of(lease)
        slabs = max(place.leased, self.slabs(size_bytes))
        if slabs > place.committed and not self._grow(place, slabs):
            return self._refused(place)
        place.share.counts.extend += slabs > place.leased
        place.leased = slabs
        lease.size_bytes = max(lease.size_bytes, size_bytes)
        return None

    def trim(self, lease: Lease, size_bytes: int) -> None:
        """Less for a lease: the rest is surplus at once, for others to be given."""
        place = self._place_of(lease)
        assert size_bytes <= lease.size_bytes
        place.recent = max(place.recent, place.leased)
        slabs = self.slabs(size_bytes)
        place.share.counts.trim += slabs < place.leased
        place.leased = slabs
        lease.size_bytes = size_bytes
        self.freed += 1

    def release(self, lease: Lease, *, now_ns: int) -> None:
        """The run has ended; its slabs stay for the next one."""
        place = self.arenas[lease.arena]
        assert place.lease is lease, "released twice"
        place.recent = max(place.recent, place.leased)
        place.leased = 0
        place.lease = None
        place.used_ns = now_ns
        self.freed += 1
        if self.tidy_ns is None:
            self.tidy_ns = now_ns + TIDY_NS
        if self.broker.excess() > 0:
            self._restore_promises()

    def stand_in_line(self, share: Share) -> None:
        """Not even its smallest run fits: nobody else borrows until it has had its turn."""
        fairness = self._fairness
        if share not in fairness.line:
            fairness.line.append(share)
            self.freed += bool(fairness.short)  # a fair part holds it back no more

    def leave_line(self, share: Share) -> None:
        """It has had its turn, or nobody waits for it any more."""
        if share in self._fairness.line:
            self._fairness.line.remove(share)
            self.freed += 1

    def tidy(self, *, now_ns: int) -> None:
        """Give back what recent runs did not need; called about once a second.

        After a wave the pool shrinks by two thirds each time, and one large run in a quiet time is
        soon forgotten. Who has no lease now holds nobody back any more.
        """
        idle = [place for place in self.arenas.values() if place.lease is None]
        self.freed += self._fairness.forget(idle)
        is_settled = True
        for place in self.arenas.values():
            self._cut(place, place.committed - place.waiting, is_needed=False)
            place.recent //= DECAY
            is_settled = is_settled and not place.recent and not place.waiting
        self.tidy_ns = None if is_settled else now_ns + TIDY_NS

    def drain(self) -> list[Resize]:
        """What has to be done with pages, in this order."""
        resizes, self._resizes = self._resizes, []
        return resizes

    def idle_shares(self) -> list[str]:
        """Those that may go, hold something and do not run, the least recently used first."""
        last: dict[str, int] = {}
        busy = set()
        for place in self.arenas.values():
            last[place.share.name] = max(last.get(place.share.name, 0), place.used_ns)
            if place.lease is not None:
                busy.add(place.share.name)
        shares = self.broker.shares
        idle = [n for n in last if n not in busy and shares[n].may_go and shares[n].held]
        return sorted(idle, key=lambda name: last[name])

    def snapshot(self) -> Iterator[ArenaSnapshot]:
        """Every arena."""
        return (place.snapshot(self.slab_bytes) for place in self.arenas.values())

    # ------------------------------------------------------------------ the way there

    def _note_change(self) -> None:
        self.changes += 1
        self.freed += 1

    def _place_of(self, lease: Lease) -> Arena:
        place = self.arenas[lease.arena]
        assert place.lease is lease, "released before"
        return place

    def _part(self, place: Arena) -> int:
        """Slabs that an idle arena may use without touching what others wait for."""
        fairness = self._fairness
        if fairness.line and fairness.line[0] is not place.share:
            return self._promised(place)
        part = fairness.part(place, self.arenas.values(), self.broker)
        return place.reserved if part is None else max(part, self._promised(place))

    def _promised(self, place: Arena) -> int:
        """Slabs that an idle arena may use within its share's guarantee."""
        share = place.share
        used = share.fixed + sum([p.leased for p in self.arenas.values() if p.share is share])
        return min(max(0, share.guarantee - used), place.reserved)

    def _grow(self, place: Arena, slabs: int) -> bool:
        if slabs > place.reserved:
            return False
        if not self._take(place.share, slabs - place.committed, asking=place):
            return False
        place.share.counts.grow += 1
        self._resized(place, slabs)
        broker, settings = self.broker, self.settings
        if broker.held > settings.high * broker.capacity:
            over = broker.held - int(settings.low * broker.capacity)
            self._shrink(self._idle(place), over, is_gentle=True)
        return True

    def _take(self, share: Share, slabs: int, *, asking: Arena | None) -> bool:
        """Slabs for a share, if need be from idle tails."""
        if share.fixed + slabs > share.limit:
            return False
        self._make_room(share, slabs, asking)
        return self.broker.take(share, slabs)

    def _make_room(self, share: Share, slabs: int, asking: Arena | None) -> None:
        """Cut idle tails for a share: its own first, then of those that borrow.

        Of what others have only what is borrowed helps: the rest would be owed to who gave it.
        """
        broker = self.broker
        idle = self._idle(asking) if slabs > broker.room(share) else []
        self._shrink([p for p in idle if p.share is share], share.held + slabs - share.limit)
        for place in idle:
            missing = broker.missing(share, slabs)
            if missing <= 0:
                break
            surplus = place.idle if place.share is share else min(place.idle, place.share.borrowed)
            self._cut(place, place.committed - min(missing, surplus))

    def _restore_promises(self) -> None:
        """Give back what is held of what is owed to others, as far as no run uses it."""
        broker = self.broker
        self._shrink(self._idle(None), broker.held - broker.capacity)
        excess = broker.excess()
        for place in self._idle(None) if excess > 0 else ():
            # To cut into what a share is promised would only be owed to it.
            cut = max(0, min(excess, place.idle, place.share.borrowed))
            self._cut(place, place.committed - cut)
            excess -= cut

    def _shrink(self, places: Iterable[Arena], slabs: int, *, is_gentle: bool = False) -> None:
        """Give idle tails back to the system, if gentle only what recent runs did not need."""
        for place in places if slabs > 0 else ():
            cut = min(slabs, place.waiting if is_gentle else place.idle)
            self._cut(place, place.committed - cut, is_needed=not is_gentle)
            slabs -= cut

    def _idle(self, but: Arena | None) -> list[Arena]:
        """All others with a surplus: those of borrowers first, then the least recently used."""
        idle = [place for place in self.arenas.values() if place.idle and place is not but]
        return sorted(idle, key=lambda place: (not place.share.borrowed, place.used_ns))

    def _cut(self, place: Arena, keep: int, *, is_needed: bool = True) -> None:
        if keep < place.committed:
            if is_needed:
                place.share.counts.reclaim += 1
            else:
                place.share.counts.shrink += 1
            self.broker.give_back(place.share, place.committed - keep)
            self._resized(place, keep)

    def _resized(self, place: Arena, slabs: int) -> None:
        slab = self.slab_bytes
        self._resizes.append(Resize(place.index, place.committed * slab, slabs * slab))
        place.committed = slabs

    def _refused(self, place: Arena) -> Refused:
        place.share.counts.refuse += 1
        slabs = min(place.committed + self.broker.room(place.share), place.reserved)
        slabs = min(slabs, self._part(place))
        idle = [name for name in self.idle_shares() if name != place.share.name]
        return Refused(slabs * self.slab_bytes, next(iter(idle), None))

    def check_integrity(self) -> None:
        """What must hold after every call."""
        self.broker.check_integrity()
        arenas: dict[str, int] = {}
        for place in self.arenas.values():
            assert 0 <= place.leased <= place.committed <= place.reserved
            assert (place.lease is None) <= (place.leased == 0)
            name = place.share.name
            arenas[name] = arenas.get(name, 0) + place.committed
        for name, share in self.broker.shares.items():
            assert arenas.get(name, 0) + share.fixed == share.held
