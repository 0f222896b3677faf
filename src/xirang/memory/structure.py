"""What of a plan holds at every shape: who stands on whom.

A plan is made for one shape. At another the blocks have other sizes, but those that live together
still do: if each stands on all that lie below it in the plan and live at the same time, no two of
them overlap, whatever their sizes. Offsets follow in microseconds, so no plan is kept per shape.
Only how close to the bound the result is depends on the shape.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xirang.core.memory.law import Regime
from xirang.core.memory.planner import Planner
from xirang.core.memory.polynomial import PLAIN, Polynomial, Size
from xirang.core.memory.validate import fault_of
from xirang.memory.native.library import Library, Slots
from xirang.memory.native.search import search_in
from xirang.tensors.tensor import Array

ALIGNMENT = 64
"""Blocks begin at cache lines; the native part rounds sizes in the same way."""

STEPS = 8_000_000
"""Work for one plan at load: a tenth of a second on a quiet core."""


SIZES_MAX = 64
"""Where lengths are several or go in strides, what slots take at so many sizes is kept."""

BYTES_MAX = 1 << 60
"""Nobody has so much: what would be larger is this large, so that 64 bits hold it."""


class Placing(NamedTuple):
    """What the native part reads to place the slots of a run.

    Attributes:
        slots: Their terms, and who stands on whom.
        length: What stands for the length in the terms.
        kept: The memory that `slots` points to.
    """

    slots: Slots
    length: int
    kept: tuple[Array, ...]


class Structure:
    """A plan without a shape.

    Attributes:
        count: Of the slots.
        regime: The blocks.
    """

    __slots__ = ("_at_size", "_library", "_placed", "_plain", "_stack", "_sums", "count", "regime")

    def __init__(
        self, library: Library, regime: Regime, rows: int, length: Size, *, steps_max: int = STEPS
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
        self._library = library
        self._stack = _stacked(regime, plan.offsets, lifetimes.sizes_bytes)
        self._placed = np.zeros((2, max(1, self.count)), np.int64)
        self._sums = _Sums(regime.slots)
        is_plain = self._sums.terms == PLAIN
        self._plain = self._placing(self._sums.coefficients) if is_plain else None
        self._at_size: dict[Size, Placing] = {}

    def at(self, length: Size) -> Placing:
        """What the native part reads for runs of a size."""
        if self._plain is not None and isinstance(length, int):
            return Placing(self._plain.slots, length, self._plain.kept)
        if (known := self._at_size.get(length)) is None:
            if len(self._at_size) >= SIZES_MAX:
                self._at_size.clear()
            known = self._at_size[length] = self._placing(self._sums.at(length))
        return known

    def height_bytes(self, rows: int, length: Size) -> int:
        """What the slots of a run take."""
        slots, stands_for_length, _ = self.at(length)
        sizes, offsets = (row.ctypes.data for row in self._placed)
        return int(self._library.place(slots, rows, stands_for_length, sizes, offsets))

    def offsets(self, rows: int, length: Size) -> tuple[Array, Array]:
        """Where each slot lies, and how large it is."""
        self.height_bytes(rows, length)
        sizes, offsets = self._placed
        return offsets.copy(), sizes.copy()

    def _placing(self, terms: Array) -> Placing:
        denominators = np.array([slot.denominator for slot in self.regime.slots], np.int64)
        kept = (terms, denominators, *self._stack)
        largest = 6 * max(1, int(np.abs(terms).max(initial=0)))
        slots = Slots(self.count, *[array.ctypes.data for array in kept], (1 << 61) // largest)
        return Placing(slots, 1, kept)


class _Sums:
    """What slots take, as sums of terms."""

    def __init__(self, slots: Sequence[Polynomial]) -> None:
        found = {term for slot in slots for term in slot.terms}
        self.terms = PLAIN if found <= set(PLAIN) else tuple(sorted(found))
        columns = {term: column for column, term in enumerate(self.terms)}
        self.coefficients = np.zeros((len(slots), len(columns)), np.int64)
        for row, slot in enumerate(slots):
            self.coefficients[row, [columns[term] for term in slot.terms]] = slot.numerators
        self._largest = int(np.abs(self.coefficients).max(initial=0)) * len(columns)
        self._of_rows = np.array([term.has_rows for term in self.terms])

    def at(self, length: Size) -> Array:
        """The terms of each slot at one size of a row: one that is fixed, one for each row."""
        lengths = (length,) if isinstance(length, int) else length
        values = [term.each_at(lengths) for term in self.terms]
        is_small = max(values) * self._largest <= BYTES_MAX
        each = self.coefficients * np.array(values, np.int64 if is_small else object)
        found = np.zeros((len(each), 6), np.int64)
        for column, has_rows in enumerate((False, True)):
            sums = each[:, self._of_rows == has_rows].sum(axis=1)
            found[:, column] = sums if is_small else np.clip(sums, -BYTES_MAX, BYTES_MAX)
        return found


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
