"""Memory that follows the load: arenas grow when runs need more, and give back the surplus.

An arena is an execution slot's own range of addresses, reserved once and used from the bottom, so
nothing ever moves and two leases never meet. What is scarce are slabs: pages behind the addresses.
A lease reserves as much as its run is estimated to need; a slab stays when the lease ends, for the
next one. It goes back when the recent peaks of the arena no longer reach it, or at once when
another share needs it: idle tails first, of those that borrow before those within their guarantee,
the least recently used first.

The pool counts and decides. What has to be done with real pages it hands out as a list, to be
carried out in its order: a tail is cut before another arena grows into what that frees.
"""

from collections.abc import Iterator

from xirang.core.memory.arena import Arena, ArenaSnapshot, Lease, Refused, Resize
from xirang.core.memory.broker import Broker, Share

SLAB_BYTES = 2 << 20
"""A huge page: giving one back costs a twentieth of giving its small pages back."""

DECAY = 2
"""A recent peak is divided by this each time the pool is tidied."""


class Pool:
    """All arenas.

    Attributes:
        broker: Who may have how much.
        arenas: By their index.
    """

    __slots__ = ("_high", "_low", "_resizes", "arenas", "broker", "slab_bytes")

    def __init__(
        self,
        capacity_bytes: int,
        *,
        low: float = 0.8,
        high: float = 0.95,
        slab_bytes: int = SLAB_BYTES,
    ) -> None:
        """An empty pool.

        Args:
            capacity_bytes: What all may have together.
            low: A share of the capacity: when too much is committed, idle tails are cut until here.
            high: The share from which on it is too much.
            slab_bytes: The unit of everything.
        """
        assert 0 < low <= high <= 1
        self.slab_bytes = slab_bytes
        self.broker = Broker(capacity_bytes // slab_bytes)
        self.arenas: list[Arena] = []
        self._low, self._high = low, high
        self._resizes: list[Resize] = []

    def add_share(self, name: str, *, guarantee_bytes: int, limit_bytes: int) -> Share:
        """Let one more compete."""
        guarantee = self._slabs(guarantee_bytes)
        return self.broker.add(name, guarantee=guarantee, limit=limit_bytes // self.slab_bytes)

    def add_arena(self, share: Share, reserved_bytes: int, *, now_ns: int = 0) -> int:
        """The index of a new arena, without pages."""
        index = len(self.arenas)
        reserved = reserved_bytes // self.slab_bytes
        self.arenas.append(Arena(index, share, reserved, used_ns=now_ns))
        return index

    def lease(self, arena: int, size_bytes: int) -> Lease | Refused:
        """Memory for one run; a warm arena has it already."""
        place = self.arenas[arena]
        assert place.lease is None, "an execution slot runs one run at a time"
        slabs = -(-size_bytes // self.slab_bytes)
        if slabs > place.committed and not self._grow(place, slabs):
            return self._refused(place)
        place.leased = slabs
        lease = place.lease = Lease(arena, size_bytes)
        return lease

    def extend(self, lease: Lease, size_bytes: int) -> Refused | None:
        """More for a lease, in place; None if it got it. If refused it keeps what it has."""
        place = self._place_of(lease)
        slabs = max(place.leased, self._slabs(size_bytes))
        if slabs > place.committed and not self._grow(place, slabs):
            return self._refused(place)
        place.leased = slabs
        lease.size_bytes = max(lease.size_bytes, size_bytes)
        return None

    def trim(self, lease: Lease, size_bytes: int) -> None:
        """Less for a lease: the rest is surplus at once, for others to be given."""
        place = self._place_of(lease)
        assert size_bytes <= lease.size_bytes
        place.recent = max(place.recent, place.leased)
        place.leased = self._slabs(size_bytes)
        lease.size_bytes = size_bytes

    def release(self, lease: Lease, *, now_ns: int) -> None:
        """The run has ended; its slabs stay for the next one."""
        place = self.arenas[lease.arena]
        assert place.lease is lease, "released twice"
        place.recent = max(place.recent, place.leased)
        place.leased = 0
        place.lease = None
        place.used_ns = now_ns
        broker = self.broker
        if broker.held + broker.owed > broker.capacity:
            self._shrink(broker.held + broker.owed - broker.capacity)

    def tidy(self) -> None:
        """Give back what recent runs did not need; called about once a second.

        After a wave the pool shrinks by halves, and one large run in a quiet time is soon
        forgotten.
        """
        for place in self.arenas:
            self._cut(place, place.committed - place.waiting)
            place.recent //= DECAY

    def resize(self, capacity_bytes: int) -> None:
        """Another capacity: idle tails go at once, what runs hold comes home as they end."""
        self._shrink(self.broker.resize(capacity_bytes // self.slab_bytes))

    def hold(self, share: Share, size_bytes: int) -> Refused | None:
        """Count memory outside of the arenas, such as weights; None if there is enough."""
        slabs = self._slabs(size_bytes)
        if self._take(share, slabs, asking=None):
            return None
        return Refused(self.broker.room(share) * self.slab_bytes, self._least_used(share))

    def let_go(self, share: Share, size_bytes: int) -> None:
        """That memory is free."""
        self.broker.give_back(share, self._slabs(size_bytes))

    def drain(self) -> list[Resize]:
        """What has to be done with pages, in this order."""
        resizes, self._resizes = self._resizes, []
        return resizes

    def snapshot(self) -> Iterator[ArenaSnapshot]:
        """Every arena."""
        return (place.snapshot(self.slab_bytes) for place in self.arenas)

    def _slabs(self, size_bytes: int) -> int:
        assert size_bytes >= 0
        return -(-size_bytes // self.slab_bytes)

    def _place_of(self, lease: Lease) -> Arena:
        place = self.arenas[lease.arena]
        assert place.lease is lease, "released before"
        return place

    def _grow(self, place: Arena, slabs: int) -> bool:
        if slabs > place.reserved:
            return False
        if not self._take(place.share, slabs - place.committed, asking=place):
            return False
        self._resized(place, slabs)
        over = self.broker.held - int(self._low * self.broker.capacity)
        if self.broker.held > self._high * self.broker.capacity:
            self._shrink(over, but=place, is_gentle=True)
        return True

    def _take(self, share: Share, slabs: int, *, asking: Arena | None) -> bool:
        """Slabs for a share; if need be from the idle tails of those that borrow."""
        if share.held + slabs > share.limit:
            return False
        missing = self.broker.missing(share, slabs)
        for place in self._idle(asking) if missing else ():
            # Only what is borrowed helps: the rest would be owed to who gave it.
            cut = min(missing, place.idle, place.share.borrowed)
            self._cut(place, place.committed - cut)
            missing -= cut
        return self.broker.take(share, slabs)

    def _shrink(self, slabs: int, *, but: Arena | None = None, is_gentle: bool = False) -> None:
        """Give idle tails back to the system, if gentle only what recent runs did not need."""
        for place in self._idle(but) if slabs > 0 else ():
            cut = min(slabs, place.waiting if is_gentle else place.idle)
            self._cut(place, place.committed - cut)
            slabs -= cut

    def _idle(self, but: Arena | None) -> list[Arena]:
        """All others with a surplus: those of borrowers first, then the least recently used."""
        idle = [place for place in self.arenas if place.idle and place is not but]
        return sorted(idle, key=lambda place: (not place.share.borrowed, place.used_ns))

    def _cut(self, place: Arena, keep: int) -> None:
        if keep < place.committed:
            self.broker.give_back(place.share, place.committed - keep)
            self._resized(place, keep)

    def _resized(self, place: Arena, slabs: int) -> None:
        slab = self.slab_bytes
        self._resizes.append(Resize(place.index, place.committed * slab, slabs * slab))
        place.committed = slabs

    def _refused(self, place: Arena) -> Refused:
        slabs = min(place.committed + self.broker.room(place.share), place.reserved)
        return Refused(slabs * self.slab_bytes, self._least_used(place.share))

    def _least_used(self, share: Share) -> str | None:
        """The share that has not run for the longest, all of whose arenas are idle."""
        last: dict[str, int] = {}
        busy = {share.name}
        for place in self.arenas:
            last[place.share.name] = max(last.get(place.share.name, 0), place.used_ns)
            if place.lease is not None:
                busy.add(place.share.name)
        idle = [name for name in last if name not in busy and self.broker.shares[name].held]
        return min(idle, key=lambda name: last[name], default=None)

    def check_integrity(self) -> None:
        """What must hold after every call."""
        self.broker.check_integrity()
        arenas: dict[str, int] = {}
        for place in self.arenas:
            assert 0 <= place.leased <= place.committed <= place.reserved
            assert (place.lease is None) <= (place.leased == 0)
            name = place.share.name
            arenas[name] = arenas.get(name, 0) + place.committed
        for name, committed in arenas.items():
            assert committed <= self.broker.shares[name].held
