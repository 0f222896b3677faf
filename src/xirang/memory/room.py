"""A room: where one instance's runs take their memory, one run after another.

At the bottom of the lease lie the run's inputs, above them what the runtime allocates, outputs
included, each at its planned place. Outputs are copied before the run ends, since the next one
begins at the same bottom.
"""

import itertools
import threading
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from xirang.core.memory.lifetime import Allocate, Free, Traffic, aligned
from xirang.core.memory.polynomial import Size
from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.native.library import Library, Run
from xirang.memory.structure import ALIGNMENT, Structure
from xirang.tensors.tensor import Array

EVENTS_MAX = 1 << 16
"""A run of more allocations is not recorded: no plan would be found for it in time."""

KEPT_BYTES = 32 << 20
"""A thread without a lease keeps as much beyond what its recent runs needed."""

_thread = threading.local()


class Runnable(Protocol):
    """What a room needs of an executable."""

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The outputs that are wanted."""
        ...


class Plans(Protocol):
    """What a room needs of the model's footprint."""

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of an arena."""
        ...

    def structure(self, rows: int, length: Size) -> Structure | None:
        """The plan for runs of a shape; None: take the lowest gaps."""
        ...

    def is_curious(self) -> bool:
        """Whether the next run should be recorded."""
        ...

    def told(self, room: "InstanceRoom", traffic: Traffic | None) -> None:
        """A run went otherwise than planned, and this is what was recorded of it."""
        ...


class Registered:
    """An arena that the native part knows.

    Attributes:
        number: Its name there.
    """

    def __init__(self, library: Library, arena: HostArena) -> None:
        """Tell the native part of it.

        Raises:
            NoMemory: It knows too many.
        """
        self._library = library
        self.number = library.add_arena(arena.base_address, arena.reserved_bytes)
        if self.number < 0:
            raise NoMemory("there are too many arenas")

    def leave(self) -> bool:
        """See `Guard`."""
        return bool(self._library.remove_arena(self.number))


class Ground:
    """An arena, and the run that goes on in it."""

    def __init__(self, library: Library, arena: HostArena) -> None:
        """Make the arena known to the native part, which need be done but once."""
        self.arena = arena
        self.library = library
        known = arena.guarded_by(library, lambda: Registered(library, arena))
        assert isinstance(known, Registered)
        self.run = Run(refuse_at=-1, arena=known.number)
        self._events: Array | None = None
        self._places = np.zeros((2, 64), np.int64)

    def begin(self, structure: Structure | None, rows: int, length: Size) -> bool:
        """See `xirang_begin`."""
        run = self.run
        if structure is None:
            return bool(self.library.begin(run, None, 0, 0))
        if structure.count > self._places.shape[1] or not run.sizes:
            self._places = np.zeros((2, max(64, structure.count)), np.int64)
            run.sizes, run.offsets = (row.ctypes.data for row in self._places)
        slots, stands_for_length, _ = structure.at(length)
        return bool(self.library.begin(run, slots, rows, stands_for_length))

    def end(self) -> None:
        """See `xirang_end`; what still lives keeps its pages."""
        self.library.end()
        self.arena.pinned_bytes = self.run.leftover_bytes

    def listen(self) -> None:
        """Record the next run."""
        if self._events is None:
            self._events = np.zeros(EVENTS_MAX, np.int64)
        self.run.events = self._events.ctypes.data
        self.run.events_max = EVENTS_MAX

    def heard(self) -> Traffic | None:
        """What was recorded; None if nothing was, or not all of it.

        What outlives the run is the model's, as a cache is: it is told as a block of no bytes.
        """
        run, events = self.run, self._events
        count, is_whole = run.events_count, run.events_count <= run.events_max
        run.events_max, self._events = 0, None
        if events is None or not is_whole:
            return None
        told = events[:count].tolist()
        freed = {-event - 1 for event in told if event < 0}
        numbers = itertools.count()
        return [
            Free(-event - 1) if event < 0 else Allocate(event if next(numbers) in freed else 0)
            for event in told
        ]


class InstanceRoom:
    """Leased memory for the runs of one instance; see `Room` in backends/executable.py."""

    def __init__(self, library: Library, plans: Plans, arena: HostArena) -> None:
        """A room in an arena, for the runs of one model."""
        self.peak_bytes = 0
        self.is_planned = False
        self.rows = 0
        self.length: Size = 0
        self._ground = Ground(library, arena)
        self._plans = plans
        self._taken = self._lease_bytes = 0

    def open(self, rows: int, length: Size, lease_bytes: int) -> None:
        """Begin a run that may take so many bytes from the bottom of the arena.

        Args:
            rows: Of the run, filler included.
            length: What its rows are padded to, each where there are several; 1 if nothing.
            lease_bytes: What the pool granted.
        """
        self.rows, self.length = rows, length
        self.extend(lease_bytes)
        # What outlived an earlier run stays where it is: this one goes above, if it fits there.
        pinned = self._ground.arena.pinned_bytes
        is_above = pinned and pinned + self._plans.peak_bytes(rows, length) <= lease_bytes
        self._taken = pinned if is_above else 0

    def extend(self, lease_bytes: int) -> None:
        """The run may take so many bytes instead; its inputs stay where they are."""
        self._lease_bytes = min(lease_bytes, self._ground.arena.reserved_bytes)

    def take(self, shape: Sequence[int], dtype: Any) -> Array:
        """An input of the run, not filled yet; like `numpy.empty` where it finds no room."""
        kind = np.dtype(dtype)
        size_bytes = prod(shape) * kind.itemsize
        begin, arena = self._taken, self._ground.arena
        if kind.hasobject or begin + size_bytes > self._lease_bytes:
            return np.empty(shape, kind)
        self._taken = begin + aligned(size_bytes, ALIGNMENT)
        if begin < arena.pinned_bytes:  # something outlived an earlier run there
            return np.empty(shape, kind)
        return arena.view(begin, kind, shape)

    def run(
        self, executable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """Run, and copy the outputs out.

        Raises:
            NoMemory: The lease is too small.
        """
        ground, plans = self._ground, self._plans
        told = ground.run
        told.floor_bytes, told.lease_bytes = self._taken, self._lease_bytes
        structure = plans.structure(self.rows, self.length)
        is_recorded = plans.is_curious()
        if is_recorded:
            ground.listen()
        if not ground.begin(structure, self.rows, self.length):
            told.events_max = 0
            raise NoMemory(
                f"{self.rows} rows of length {self.length} take {told.height_bytes} bytes; "
                f"the lease has {self._lease_bytes}",
                needed_bytes=told.height_bytes,
            )
        try:
            outputs = _run_apart(executable, inputs, wanted)
        finally:
            ground.end()
            traffic = ground.heard() if is_recorded else None
            self.peak_bytes = told.reach_bytes + told.spilled_bytes
            self.is_planned = structure is not None and told.hits == told.requests
        if not self.is_planned:  # one that raised has shown but a part of its way
            plans.told(self, traffic)
        return outputs


def run_alone(
    library: Library, runnable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    """Run without a lease: in the thread's room, or else in an arena that the thread has itself."""
    if getattr(_thread, "is_inside", False):
        return runnable.run(inputs, wanted)
    own: OwnGround | None = getattr(_thread, "own", None)
    if own is None:
        try:
            own = _thread.own = OwnGround(library)
        except NoMemory:  # where not even addresses are free, the allocator asks the system
            return runnable.run(inputs, wanted)
    return own.run(runnable, inputs, wanted)


def recorded_alone(
    library: Library, runnable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> Traffic | None:
    """What a run asks of its allocator; None if that is too much to say."""
    own = OwnGround(library)
    own.ground.listen()
    own.run(runnable, inputs, wanted)
    own.ground.arena.close()
    return own.ground.heard()


def trim_own() -> None:
    """Give back what runs of this thread have left in the arena that it has itself."""
    own: OwnGround | None = getattr(_thread, "own", None)
    if own is not None:
        own.trim(0)


class OwnGround:
    """An arena that a thread has itself, for runs without a lease, as in a probe."""

    def __init__(self, library: Library) -> None:
        """Reserve it."""
        self.ground = Ground(library, HostArena())
        self.ground.run.lease_bytes = self.ground.arena.reserved_bytes
        self._touched = self._recent = 0

    def run(
        self, runnable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """Run in the lowest gaps, and keep about as much as recent runs have needed."""
        ground = self.ground
        ground.begin(None, 0, 0)
        try:
            outputs = _run_apart(runnable, inputs, wanted)
        finally:
            ground.end()
        reach = ground.run.reach_bytes
        self._touched = max(self._touched, reach)
        self._recent = max(reach, self._recent - self._recent // 8)
        if self._touched > self._recent + KEPT_BYTES:
            self.trim(self._recent)
        return outputs

    def trim(self, keep_bytes: int) -> None:
        """Give back what lies above."""
        self.ground.arena.resize(self._touched, keep_bytes)
        self._touched = keep_bytes


def _run_apart(
    runnable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    """The outputs, in memory of their own: the runtime's goes with the run."""
    _thread.is_inside = True
    try:
        outputs = runnable.run(inputs, wanted)
        return {
            name: array if array.flags.owndata else array.copy() for name, array in outputs.items()
        }
    finally:
        _thread.is_inside = False
