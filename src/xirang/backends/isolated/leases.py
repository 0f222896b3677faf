"""Leases of runs in worker processes: arenas whose pages both sides map, and rooms in them.

The pages are the server's: it makes them and takes them back, in the pool's order, and a process
that ends can neither keep any nor take some along. Inputs are assembled where the model reads them,
and outputs are read where it has left them.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any

import numpy as np

from xirang.backends.executable import Executable
from xirang.backends.isolated.messages import Lease, Lend
from xirang.backends.isolated.segment import Named, Placed
from xirang.core.memory.law import ROWS_END
from xirang.core.memory.lifetime import aligned
from xirang.core.memory.polynomial import Polynomial, Size
from xirang.memory.arena import HostArena
from xirang.tensors.tensor import Array

ALIGNMENT = 64
"""Inputs begin at its multiples, as all blocks of a plan do."""

_numbers = count(1)
_thread = threading.local()


@dataclass(frozen=True, slots=True)
class Fed:
    """A tiny run: its rows, the length of each, and what the model was given."""

    rows: int
    length: Size
    inputs: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What processes learn a model's memory from.

    Attributes:
        feeds: Tiny runs.
        wanted: Names of outputs.
        inputs: What the inputs of a run take, as those who fill them have them.
        lengths: For which plans are made, the largest last.
        rows: Of the largest run.
        worth_bytes: Below this a run is left alone.
    """

    feeds: Sequence[Fed]
    wanted: Sequence[str]
    inputs: Sequence[Polynomial]
    lengths: Sequence[Size]
    rows: int
    worth_bytes: int


class WorkerFootprint:
    """How much memory the runs of a model in processes take; see `Footprint`."""

    def __init__(self, peaks: Sequence[Polynomial]) -> None:
        """Know it from a process that has studied the model."""
        self.peaks = tuple(peaks)

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of an arena."""
        return max([peak.bytes_at(rows, length) for peak in self.peaks], default=0)

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of a length that stays within so many bytes; 0 if not one row does."""
        found = [peak.rows_max(length, size_bytes) for peak in self.peaks]
        return min([rows for rows in found if rows is not None], default=ROWS_END)

    def arena(self, reserved_bytes: int) -> HostArena:
        """Addresses that processes may map too."""
        return HostArena.shared(reserved_bytes)

    def room(self, arena: HostArena) -> "WorkerRoom":
        """A place for runs of one instance."""
        return WorkerRoom(arena)


def room_here() -> "WorkerRoom | None":
    """The room in which this thread runs something just now; None if it has none."""
    room: WorkerRoom | None = getattr(_thread, "room", None)
    return room


class WorkerRoom:
    """Leased memory for the runs of one instance, whichever process makes them; see `Room`.

    Attributes:
        arena: Where they lie.
        number: Of the arena, for processes; none has that of another.
    """

    def __init__(self, arena: HostArena) -> None:
        """A room in an arena that is shared."""
        self.arena = arena
        self.number = next(_numbers)
        self.peak_bytes = 0
        self.is_planned = False
        self._rows = self._floor = self._lease_bytes = 0
        self._length: Size = 1

    def open(self, rows: int, length: Size, lease_bytes: int) -> None:
        """Begin a run that may take so many bytes; see `Room.open`."""
        self._rows, self._length = rows, length
        self._lease_bytes = lease_bytes
        # What outlived its run in one process would be in the way of another's.
        self._floor = aligned(self.arena.pinned_bytes, ALIGNMENT)

    def extend(self, lease_bytes: int) -> None:
        """The run may take so many bytes instead; its inputs stay where they are."""
        self._lease_bytes = lease_bytes

    def take(self, shape: Sequence[int], dtype: Any) -> Array:
        """An input of the run, not filled yet; like `numpy.empty` where it finds no room."""
        kind = np.dtype(dtype)
        begin, end = self._floor, self._floor + prod(shape) * kind.itemsize
        if kind.hasobject or end > self._lease_bytes:
            return np.empty(shape, kind)
        self._floor = aligned(end, ALIGNMENT)
        return self.arena.view(begin, kind, shape)

    def run(
        self, executable: Executable, inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """Run in a process, and copy the outputs out.

        Raises:
            NoMemory: The lease is too small.
        """
        self.peak_bytes, self.is_planned = 0, False
        _thread.room = self
        try:
            outputs = executable.run(inputs, wanted)
            return {
                name: array if array.flags.owndata else array.copy()
                for name, array in outputs.items()
            }
        finally:
            _thread.room = None

    # ------------------------------------------------------------------ for the one that asks

    def lend(self) -> tuple[Lend, int]:
        """What tells a process of the arena, and a descriptor to be sent along."""
        return Lend(self.number, self.arena.reserved_bytes), os.dup(self.arena.descriptor)

    def lease(self) -> Lease:
        """What the run may use."""
        shape = self._rows, self._length
        return Lease(self.number, *shape, self._floor, self._lease_bytes, self.arena.cuts)

    def placed(self, named: Named) -> Placed | None:
        """Where an input lies, if it lies in the arena."""
        name, array = named
        offset = array.ctypes.data - self.arena.base_address
        if not 0 <= offset < self._floor or not array.flags.c_contiguous or array.dtype.hasobject:
            return None
        return Placed(name, array.dtype.str, array.shape, offset, in_arena=True)

    def view(self, where: Placed) -> Array:
        """An output that lies in the arena, until the next run begins there.

        Raises:
            TypeError, ValueError: It does not.
        """
        kind = np.dtype(where.kind)
        end = where.offset + prod(where.shape) * kind.itemsize
        if kind.hasobject or min(where.offset, *where.shape, 0) < 0 or end > self._lease_bytes:
            raise ValueError(f"{where.kind} {where.shape} at {where.offset} is not in the lease")
        return self.arena.view(where.offset, kind, where.shape)
