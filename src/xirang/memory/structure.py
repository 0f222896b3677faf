"""What of a plan holds at every shape: who stands on whom.

A plan is made for one shape. At another the blocks have other sizes, but those that live together
still do: if each stands on all that lie below it in the plan and live at the same time, no two of
them overlap, whatever their sizes. Offsets follow in microseconds, so no plan is kept per shape.
Only how close to the bound the result is depends on the shape.
"""

import numpy as np

from xirang.core.memory.law import Regime
from xirang.core.memory.planner import Planner
from xirang.core.memory.validate import fault_of
from xirang.memory.native.library import Library, Slots
from xirang.memory.native.search import search_in
from xirang.tensors.tensor import Array

ALIGNMENT = 64
"""Blocks begin at cache lines; the native part rounds sizes in the same way."""

STEPS = 8_000_000
"""Work for one plan at load: a tenth of a second on a quiet core."""


class Structure:
    """A plan without a shape.

    Attributes:
        count: Of the slots.
        slots: What the native part reads.
    """

    __slots__ = ("_kept", "_library", "_offsets", "_sizes", "count", "regime", "slots")

    def __init__(
        self, library: Library, regime: Regime, rows: int, length: int, *, steps_max: int = STEPS
    ) -> None:
        """Plan a regime's blocks at some shape, and keep what holds at all.

        Args:
            library: Works out the offsets.
            regime: The blocks.
            rows: Of the shape.
            length: Of the shape.
            steps_max: Work for the plan.
        """
        lifetimes = regime.lifetimes(rows, length).aligned(ALIGNMENT)
        planner = Planner(lifetimes, search=search_in(library))
        while planner.steps < steps_max and planner.advance():
            pass
        plan = planner.plan
        fault = fault_of(lifetimes, plan.offsets, plan.height_bytes)
        assert fault is None, fault
        self.regime = regime
        self.count = len(lifetimes)
        order, begins, below = _stacked(regime, plan.offsets, lifetimes.sizes_bytes)
        terms = np.array([slot.numerators for slot in regime.slots], np.int64).reshape(-1, 6)
        denominators = np.array([slot.denominator for slot in regime.slots], np.int64)
        self._kept = (terms, denominators, order, begins, below)
        addresses = [array.ctypes.data for array in self._kept]
        largest = 6 * max(1, int(np.abs(terms).max(initial=0)))
        self.slots = Slots(self.count, *addresses, (1 << 61) // largest)
        self._library = library
        self._sizes, self._offsets = np.zeros((2, max(1, self.count)), np.int64)

    def height_bytes(self, rows: int, length: int) -> int:
        """What the slots of a run take."""
        sizes, offsets = self._sizes.ctypes.data, self._offsets.ctypes.data
        return int(self._library.place(self.slots, rows, length, sizes, offsets))

    def offsets(self, rows: int, length: int) -> tuple[Array, Array]:
        """Where each slot lies, and how large it is."""
        self.height_bytes(rows, length)
        return self._offsets.copy(), self._sizes.copy()


def _stacked(
    regime: Regime, offsets: tuple[int, ...], sizes_bytes: tuple[int, ...]
) -> tuple[Array, Array, Array]:
    """The slots from the bottom up, and of each those that it stands on."""
    starts, ends = np.array(regime.starts), np.array(regime.ends)
    sizes = np.array(sizes_bytes)
    # What has no size at this shape may have one at another: it goes on top of all others.
    heights = np.where(sizes > 0, np.array(offsets), np.iinfo(np.int64).max)
    order = np.argsort(heights, kind="stable").astype(np.int64)
    begins = np.zeros(len(order) + 1, np.int64)
    parts: list[Array] = [np.zeros(0, np.int64)] * len(order)
    for place, slot in enumerate(order.tolist()):
        lower = order[:place]
        meets = (starts[lower] < ends[slot]) & (starts[slot] < ends[lower])
        parts[slot] = lower[meets]
    begins[1:] = np.cumsum([len(part) for part in parts])
    below = np.concatenate([*parts, np.zeros(1, np.int64)]).astype(np.int64)
    return order, begins, below
