"""An arena: one execution slot's own range of addresses, and the leases of its runs."""

from dataclasses import dataclass

from xirang.core.memory.broker import Share


@dataclass(slots=True, eq=False)
class Lease:
    """Some bytes at the bottom of an arena, for the time of one run.

    Attributes:
        arena: The number of its arena.
        size_bytes: How much may be used; it may grow and shrink, the bottom stays where it is.
    """

    arena: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """There is not enough now: make the batch smaller, or wait.

    Attributes:
        room_bytes: How large a lease of this arena would have been granted.
        evict: A share that could go to make room: the least recently used of those that may.
    """

    room_bytes: int
    evict: str | None = None


@dataclass(frozen=True, slots=True)
class Resize:
    """The arena's pages reach from the bottom up to `after_bytes`; before it was `before_bytes`."""

    arena: int
    before_bytes: int
    after_bytes: int


@dataclass(slots=True, eq=False)
class Arena:
    """One execution slot's range.

    Attributes:
        index: Its number in the pool.
        share: Who pays.
        reserved: Slabs of addresses.
        committed: Slabs that have pages.
        leased: Slabs that a run uses now.
        lease: The run's; None while the arena is idle.
        recent: Slabs that recent runs needed: the decaying highest.
        used_ns: When its last lease ended.
        keep: Slabs that it is left with while it is idle, unless somebody needs them.
    """

    index: int
    share: Share
    reserved: int
    committed: int = 0
    leased: int = 0
    lease: Lease | None = None
    recent: int = 0
    used_ns: int = 0
    keep: int = 0

    @property
    def idle(self) -> int:
        """Slabs that no run uses: the surplus."""
        return self.committed - self.leased

    @property
    def waiting(self) -> int:
        """Slabs of the surplus that recent runs did not need: they wait to be given back."""
        return max(0, self.committed - max(self.recent, self.leased, self.keep))

    def snapshot(self, slab_bytes: int) -> "ArenaSnapshot":
        """What is."""
        return ArenaSnapshot(
            share=self.share.name,
            reserved_bytes=self.reserved * slab_bytes,
            committed_bytes=self.committed * slab_bytes,
            leased_bytes=self.leased * slab_bytes,
            surplus_bytes=self.idle * slab_bytes,
            waiting_bytes=self.waiting * slab_bytes,
        )


@dataclass(frozen=True, slots=True)
class ArenaSnapshot:
    """One arena, in bytes: see `Arena`; `surplus_bytes` is what is idle of it."""

    share: str
    reserved_bytes: int
    committed_bytes: int
    leased_bytes: int
    surplus_bytes: int
    waiting_bytes: int
