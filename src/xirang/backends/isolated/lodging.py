"""The worker's side of leases: arenas that the server lends to this process, and runs in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xirang.backends.executable import Executable, Footprint, Room
from xirang.backends.isolated.leases import Fed
from xirang.backends.isolated.messages import Ask, Lease, Lend, Study, Told
from xirang.backends.isolated.segment import Named, Outbox, Placed
from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import of_traffic
from xirang.core.memory.polynomial import Polynomial
from xirang.memory.arena import HostArena
from xirang.tensors.tensor import Array


class Lodging:
    """Where this process is a guest."""

    def __init__(self) -> None:
        """Nothing is known of the model, and no arena was lent."""
        self._footprint: Footprint | None = None
        self._guests: dict[int, _Guest] = {}

    @property
    def peaks(self) -> Sequence[Polynomial]:
        """What a run takes: the largest of these; none if nothing is known."""
        return () if self._footprint is None else self._footprint.peaks

    @property
    def mapped_bytes(self) -> int:
        """Pages of others that this process has mapped."""
        return sum(guest.reach_bytes for guest in self._guests.values())

    def study(self, executable: Any, feeds: Sequence[Fed], study: Study) -> None:
        """Find out how much memory the model's runs take, from tiny ones."""
        found: Footprint | None = None
        if getattr(executable, "library", None) is not None:
            found = _traced(executable, feeds, study)
        elif getattr(executable, "is_governed", False) and _is_host(executable):
            found = executable.study(feeds, study.inputs, study.lengths)
        is_small = found is not None and (
            found.peak_bytes(study.rows, study.lengths[-1]) < study.worth_bytes
        )
        executable.is_bare = is_small
        self._footprint = None if is_small else found

    def enter(self, lend: Lend, descriptor: int) -> None:
        """Map an arena.

        Raises:
            NoMemory: There are not as many addresses.
        """
        self._guests[lend.number] = _Guest(HostArena(lend.size_bytes, descriptor))

    def inputs(self, lease: Lease, placed: Sequence[Placed]) -> dict[str, Array]:
        """Those that lie in the arena."""
        arena = self._guests[lease.arena].arena
        return {
            where.name: arena.view(where.offset, np.dtype(where.kind), where.shape)
            for where in placed
            if where.in_arena
        }

    def run(
        self, executable: Executable, inputs: Mapping[str, Array], ask: Ask, outbox: Outbox
    ) -> tuple[Told, int | None]:
        """Run the model within its lease.

        Raises:
            NoMemory: The lease is too small.
        """
        assert ask.lease is not None
        guest, lease = self._guests[ask.lease.arena], ask.lease
        shipping = _Shipping(executable, guest.arena, outbox)
        room = guest.room
        if room is None and self._footprint is not None:
            room = guest.room = self._footprint.room(guest.arena)
        if room is None:  # a successor that could not learn what the first one had learned
            shipping.run(inputs, ask.wanted)
            return shipping.told(), shipping.descriptor
        guest.reach(lease)
        room.open(lease.rows, lease.length, lease.size_bytes)
        room.take((lease.floor_bytes,), np.uint8)
        room.run(shipping, inputs, ask.wanted)
        return shipping.told(room), shipping.descriptor


@dataclass(slots=True, eq=False)
class _Guest:
    """One arena that was lent.

    Attributes:
        arena: The addresses.
        room: Of the model's runs there.
        reach_bytes: Up to here its pages are mapped.
        cuts: How often pages had been taken from it then.
    """

    arena: HostArena
    room: Room | None = None
    reach_bytes: int = 0
    cuts: int = 0

    def reach(self, lease: Lease) -> None:
        """Map the pages of a lease, all at once: one by one they cost much more."""
        if lease.cuts == self.cuts and lease.size_bytes <= self.reach_bytes:
            return
        self.arena.populate(lease.size_bytes)
        self.reach_bytes, self.cuts = lease.size_bytes, lease.cuts


class _Shipping:
    """Runs a model and says where its outputs lie, so that none of them outlives the run here."""

    platform = "shipping"
    is_reentrant = keeps_inputs = False

    def __init__(self, executable: Executable, arena: HostArena, outbox: Outbox) -> None:
        self.inputs, self.outputs = executable.inputs, executable.outputs
        self.descriptor: int | None = None
        self._executable = executable
        self._arena = arena
        self._outbox = outbox
        self._placed: list[Placed] = []
        self._size_bytes = 0

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run it; what lies in the arena is left there, the rest goes into the segment."""
        others: list[Named] = []
        placed = self._placed = []
        for name, array in self._executable.run(inputs, wanted).items():
            offset = array.ctypes.data - self._arena.base_address
            inside = 0 <= offset < self._arena.reserved_bytes
            if inside and array.flags.c_contiguous and not array.dtype.hasobject:
                placed.append(Placed(name, array.dtype.str, array.shape, offset, in_arena=True))
            else:
                others.append((name, array))
        put, self._size_bytes, self.descriptor = self._outbox.put(others)
        placed += put
        return {}

    def told(self, room: Room | None = None) -> Told:
        """What became of the run."""
        if room is None:
            return Told(self._placed, self._size_bytes, 0)
        return Told(
            self._placed,
            self._size_bytes,
            0,
            room.peak_bytes,
            self._arena.pinned_bytes,
            room.is_planned,
        )


def _traced(executable: Any, feeds: Sequence[Fed], study: Study) -> Footprint | None:
    """What the runs of an ONNX model ask of our allocator."""
    from xirang.memory.footprint import NativeFootprint
    from xirang.memory.room import recorded_alone

    samples = []
    for feed in feeds:
        traffic = recorded_alone(executable.library, executable, feed.inputs, study.wanted)
        if traffic:
            samples.append(Traced(feed.rows, feed.length, of_traffic(traffic)))
    executable.trim()
    if not samples:
        return None
    return NativeFootprint(executable.library, samples, study.inputs, study.lengths)


def _is_host(executable: Any) -> bool:
    """Whether it can be planned, and in memory that its process may be lent."""
    return hasattr(executable, "study") and getattr(executable, "device", "cpu") == "cpu"
