"""Rooms for PyTorch: where the runs of a planned program take their memory.

At the bottom of the lease lie the inputs, above them the planned blocks. What the program makes
outside of the plan comes from PyTorch's own allocator; the upper end of the lease, which counts for
that, has no pages meanwhile. On a device, shapes that come often run from a captured graph.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from xirang.backends.torch_cuda import Accelerator
from xirang.backends.torch_graphs import Graphs
from xirang.backends.torch_planned import ALIGNMENT, PlannedProgram
from xirang.backends.torch_shapes import Symbols
from xirang.backends.torch_site import site_of
from xirang.backends.torch_trace import Unplannable
from xirang.core.memory.lifetime import aligned
from xirang.core.memory.polynomial import Size
from xirang.memory.arena import DeviceArena, NoMemory
from xirang.tensors.tensor import Array

BOUND_MAX = 32
"""Shapes whose views are kept in each room: to make them again costs as much as few operations."""

_thread = threading.local()


class Runnable(Protocol):
    """What a room needs of an executable."""

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The outputs that are wanted."""
        ...


class Plans(Protocol):
    """What a room needs of the footprint.

    Attributes:
        program: What runs.
        accelerator: Where; None for the CPU.
    """

    program: PlannedProgram
    accelerator: Accelerator | None

    def offsets(self, symbols: Symbols) -> tuple[Sequence[int], int]:
        """Where each block lies, and how high the plan is."""
        ...

    def outside_bytes(self, rows: int, length: Size) -> int:
        """The most that lies outside of the plan at once."""
        ...


def room_here(program: PlannedProgram | None) -> "TorchRoom | None":
    """The room in which this thread runs a program just now; None if it has none."""
    room: TorchRoom | None = getattr(_thread, "room", None)
    return room if room is not None and room.program is program else None


class TorchRoom:
    """Leased memory for the runs of one instance; see `Room` in backends/executable.py.

    Attributes:
        program: What runs in it.
        graphs: Of the shapes that come often; None on the CPU.
    """

    def __init__(self, plans: Plans, arena: DeviceArena, *, slice_bytes: int | None = None) -> None:
        """A room in an arena, for the runs of one model.

        Args:
            plans: Of the model.
            arena: Where its runs lie.
            slice_bytes: How much is made outside at once where it has to be copied; by default
                what is good for the device.
        """
        self.peak_bytes = 0
        self.is_planned = False
        self.program = plans.program
        self._plans = plans
        self._arena = arena
        self._site = site_of(arena, plans.accelerator)
        self._slice_bytes = slice_bytes or self._site.slice_bytes
        self._bound: OrderedDict[tuple[Symbols, int], tuple[Any, int]] = OrderedDict()
        self.graphs: Graphs | None = None
        if plans.accelerator is not None:
            self.graphs = Graphs(plans.accelerator.capturer())
            if not self.program.is_placed:
                self.graphs.refuse("an output of the program has no place in the plan")
        self._rows = self._floor = self._lease_bytes = 0
        self._length: Size = 1

    def open(self, rows: int, length: Size, lease_bytes: int) -> None:
        """Begin a run that may take so many bytes; see `Room.open`."""
        self._rows, self._length = rows, length
        self._floor, self._lease_bytes = 0, lease_bytes

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
        return self._site.input(begin, kind, shape)

    def send(self, array: Array) -> Any:
        """An input as a tensor on the device; None if there is none, or no place in the lease."""
        there = self._site.sent(array)
        if there is None and self.graphs is not None:
            own = self.take(array.shape, array.dtype)  # what was made anew on the way here
            own[...] = array
            there = self._site.sent(own)
        return there

    def run(
        self, executable: Runnable, inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """Run in the room; the outputs lie outside of it.

        Raises:
            NoMemory: The lease is too small.
        """
        self.peak_bytes, self.is_planned = self._floor, False
        _thread.room = self
        try:
            return executable.run(inputs, wanted)
        finally:
            _thread.room = None

    def call(
        self, tensors: Mapping[str, Any], *, mark: Callable[[int], object] | None = None
    ) -> tuple[Any, ...] | None:
        """Run the program; None if its plan does not hold for such inputs.

        Args:
            tensors: Its inputs by name.
            mark: Is told the number of each step before it is made.

        Raises:
            NoMemory: The lease is too small.
        """
        symbols = self.program.symbols(tensors)
        found = None if symbols is None else self._views(symbols, tensors)
        if symbols is None or found is None:
            self._site.make_way(self._lease_bytes, self._floor)
            return None
        bound, height_bytes = found
        planned = self._floor + height_bytes
        outside = self._plans.outside_bytes(self._rows, self._length)
        self._site.make_way(self._lease_bytes, planned)
        act = partial(self.program.run, bound, symbols, tensors, mark=mark)
        if self.graphs is None or mark is not None:
            outputs = act()
        else:
            self.graphs.forget_above(self._site.lowest_bytes())
            # Whatever lies at these addresses when it is made again, it is made of that.
            key = symbols, self._floor, *(tensor.data_ptr() for tensor in tensors.values())
            outputs = self.graphs.run(key, act, reach_bytes=planned, outside_bytes=outside)
        self.is_planned = True
        self.peak_bytes = planned + outside
        return outputs

    def _views(self, symbols: Symbols, tensors: Mapping[str, Any]) -> tuple[Any, int] | None:
        """The views of a shape, and the height of its plan."""
        key = symbols, self._floor
        known = self._bound.get(key)
        if known is not None:
            self._bound.move_to_end(key)
            self._check(known[1])
            return known
        if not self.program.is_made_for(tensors):
            return None
        offsets, height_bytes = self._plans.offsets(symbols)
        self._check(height_bytes)
        placed = [self._floor + offset for offset in offsets]
        arena = {dtype: self._site.whole(dtype) for dtype in self.program.dtypes}
        try:
            bound = self.program.bind(arena, placed, symbols, slice_bytes=self._slice_bytes)
        except Unplannable:
            return None
        self._bound[key] = bound, height_bytes
        if len(self._bound) > BOUND_MAX:
            self._bound.popitem(last=False)
        return bound, height_bytes

    def _check(self, height_bytes: int) -> None:
        outside = self._plans.outside_bytes(self._rows, self._length)
        needed = self._floor + height_bytes + outside
        if needed > self._lease_bytes:
            raise NoMemory(
                f"{self._rows} rows of length {self._length} take {needed} bytes; "
                f"the lease has {self._lease_bytes}",
                needed_bytes=needed,
            )
