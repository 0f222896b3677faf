"""A model's footprint: how much memory its runs take, and where in an arena each tensor lies.

Found from a dozen tiny runs at load, and corrected by whatever run goes otherwise than planned: the
next one is recorded, and a plan for it is made in a thread beside. A model whose trace hangs on its
data has several variants; runs go by the one that held last.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import log2
from typing import TypeVar

from xirang.core.memory.law import ROWS_END, Law, Regime, Traced, law_of
from xirang.core.memory.lifetime import Traffic, aligned, of_traffic
from xirang.core.memory.polynomial import Polynomial, Size, area, middle
from xirang.memory.arena import HostArena
from xirang.memory.native.library import Library
from xirang.memory.room import InstanceRoom
from xirang.memory.structure import ALIGNMENT, Structure

ROWS = 8
"""Plans are made for so many rows: more make all blocks larger by nearly the same factor."""

STRUCTURES_MAX = 6
VARIANTS_MAX = 8
LESSONS_MAX = 64
"""A model that never runs twice alike is not studied forever."""

SAMPLES_MAX = 32
CLOSE = 1.001
"""A plan this close to the bound is not improved upon."""

CACHED_MAX = 4096

Key = tuple[tuple[int, ...], tuple[int, ...]]

_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


@dataclass(slots=True, eq=False)
class Variant:
    """Runs that allocate in one order.

    Attributes:
        samples: Runs that were seen.
        structures: Plans of which each is the best for some lengths.
        is_bound: Whether more rows go another way, so that its blocks do not grow with them.
    """

    samples: list[Traced]
    structures: list[Structure] = field(default_factory=list)
    is_bound: bool = False

    @property
    def key(self) -> Key:
        """When its blocks live."""
        lifetimes = self.samples[0].lifetimes
        return lifetimes.starts, lifetimes.ends

    def plan(self, library: Library, lengths: Sequence[Size]) -> None:
        """Make plans that serve these lengths."""
        more = (0, 1, 2) if self.is_bound else (0,)
        samples = [replace(one, rows=one.rows + rows) for one in self.samples for rows in more]
        (regime,) = law_of(samples).regimes
        found: list[Structure] = []
        length = max(lengths, key=area)
        while len(found) < STRUCTURES_MAX:
            found.append(Structure(library, regime, ROWS, length))
            ratios = {n: _ratio(regime, found, n) for n in lengths if n != length}
            length = max(ratios, key=lambda n: ratios[n], default=length)
            if ratios.get(length, 1.0) <= CLOSE:
                break
        self.structures = found

    def distance(self, rows: int, length: Size) -> float:
        """How far a shape is from those that were seen."""
        return min(
            abs(log2(max(1, one.rows) / max(1, rows)))
            + abs(log2(max(1, area(one.length)) / max(1, area(length))))
            for one in self.samples
        )


def _is_bound(variant: Variant, variants: Sequence[Variant]) -> bool:
    """Whether it was seen at one number of rows alone, and others at more."""
    rows, *others = {one.rows for one in variant.samples}
    return not others and any(one.rows > rows for each in variants for one in each.samples)


def _ratio(regime: Regime, structures: Sequence[Structure], length: Size) -> float:
    bound = regime.lifetimes(ROWS, length).aligned(ALIGNMENT).bound_bytes
    return min(one.height_bytes(ROWS, length) for one in structures) / bound if bound else 1.0


class NativeFootprint:
    """What is known of a model's memory; see `Footprint` in backends/executable.py.

    Attributes:
        law: Of its peak, in the regimes that were seen, inputs included.
        peaks: What its runs need of an arena: never less than `peak_bytes` at the shapes that were
            tried, so a little above the law where plans are above the bound.
        lengths: For which plans are made at load, ascending; tuples where they are several.
        lessons: Runs from which it learned after it was made.
    """

    def __init__(
        self,
        library: Library,
        samples: Sequence[Traced],
        inputs: Sequence[Polynomial],
        lengths: Sequence[Size],
    ) -> None:
        """Find the law and the first plans.

        Args:
            library: The native allocator.
            samples: Runs of tiny shapes, at least one.
            inputs: What each input takes.
            lengths: For which plans are made; runs of others use the nearest.
        """
        self.lessons = 0
        self._library = library
        self._inputs = inputs
        self.lengths = tuple(lengths)
        self._is_curious = False
        self._thread: threading.Thread | None = None
        self._settle([Variant(group) for group in _grouped(samples)], self.lengths)

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of an arena, whichever way it goes."""
        key = rows, length
        if (known := self._peaks.get(key)) is None:
            inputs = sum([aligned(one.bytes_at(rows, length), ALIGNMENT) for one in self._inputs])
            best = [self._best(variant, length) for variant in self._variants]
            known = inputs + max([one.height_bytes(rows, length) for one in best])
            _keep(self._peaks, key, known)
        return known

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of a length that stays within so many bytes; 0 if not one row does."""
        key = length, size_bytes
        if (known := self._rows.get(key)) is None:
            known = self._rows_max(length, size_bytes)
            _keep(self._rows, key, known)
        return known

    def room(self, arena: HostArena) -> InstanceRoom:
        """A place for runs of one instance."""
        return InstanceRoom(self._library, self, arena)

    # ------------------------------------------------------------------ for rooms

    def structure(self, rows: int, length: Size) -> Structure:
        """The plan for runs of a shape, as the last of them went."""
        return self._best(self._variant(rows, length), length)

    def is_curious(self) -> bool:
        """Whether the next run should be recorded; asked once for each time that it is said."""
        is_so, self._is_curious = self._is_curious, False
        return is_so

    def told(self, room: InstanceRoom, traffic: Traffic | None) -> None:
        """A run went otherwise than planned, and this is what was recorded of it."""
        if traffic is None or self._thread is not None:
            # Another known way may be the right one; else the next run shows what there is.
            variants, current = self._variants, self._variant(room.rows, room.length)
            index = variants.index(current) if current in variants else 0
            _keep(self._held, (room.rows, room.length), variants[(index + 1) % len(variants)])
            self._is_curious = self.lessons < LESSONS_MAX
            return
        self.lessons += 1
        arguments = (room.rows, room.length, traffic)
        self._thread = threading.Thread(
            target=self._learn, args=arguments, name="planner", daemon=True
        )
        self._thread.start()

    def settle(self) -> None:
        """Wait until what was recorded has been planned."""
        if (thread := self._thread) is not None:
            thread.join()

    # ------------------------------------------------------------------ beside the runs

    def _learn(self, rows: int, length: Size, traffic: Traffic) -> None:
        try:
            traced = Traced(rows, length, of_traffic(traffic))
            key = traced.lifetimes.starts, traced.lifetimes.ends
            old = next((one for one in self._variants if one.key == key), None)
            fresh = Variant([*(old.samples if old else ()), traced][-SAMPLES_MAX:])
            others = [one for one in self._variants if one is not old]
            self._settle([fresh, *others][:VARIANTS_MAX], (*self.lengths, length))
        finally:
            self._thread = None

    def _settle(self, variants: list[Variant], lengths: Sequence[Size]) -> None:
        """Plans, law and tables, when the variants change."""
        for variant in variants:
            is_bound = _is_bound(variant, variants)
            if not variant.structures or is_bound != variant.is_bound:
                variant.is_bound = is_bound
                variant.plan(self._library, lengths)
        self._variants = variants
        self._held: dict[tuple[int, Size], Variant] = {}
        regimes = [variant.structures[0].regime for variant in self._variants]
        self.law = Law([_with(self._inputs, one) for one in regimes], alignment=ALIGNMENT)
        self._bests: dict[tuple[int, Size], Structure] = {}
        self._peaks: dict[tuple[int, Size], int] = {}
        self._rows: dict[tuple[Size, int], int] = {}
        self.peaks = _scaled(self.law.peaks, self._excess())

    def _excess(self) -> Fraction:
        """By how much plans are above the law, at worst of those that were tried."""
        between = [middle(one, other) for one, other in pairwise(self.lengths)]
        tried = [(rows, n) for rows in (1, ROWS, 8 * ROWS) for n in (*self.lengths, *between)]
        ratios = [
            Fraction(self.peak_bytes(*size), max(1, self.law.peak_bytes(*size))) for size in tried
        ]
        return max(Fraction(1), *ratios).limit_denominator(1 << 20) if ratios else Fraction(1)

    def _variant(self, rows: int, length: Size) -> Variant:
        """The way that runs of a shape went last, or else the nearest that were seen."""
        key = rows, length
        if (known := self._held.get(key)) is None:
            known = min(self._variants, key=lambda one: one.distance(rows, length))
            _keep(self._held, key, known)
        return known

    def _best(self, variant: Variant, length: Size) -> Structure:
        if len(variant.structures) == 1:
            return variant.structures[0]
        key = id(variant), length
        if (known := self._bests.get(key)) is None:
            known = min(variant.structures, key=lambda one: one.height_bytes(ROWS, length))
            _keep(self._bests, key, known)
        return known

    def _rows_max(self, length: Size, size_bytes: int) -> int:
        """The law is close; the plans are exact."""
        if self.peak_bytes(ROWS_END, length) <= size_bytes:
            return ROWS_END
        low, high = 0, min(self.law.rows_max(length, size_bytes) + 1, ROWS_END)  # `low` rows fit
        while self.peak_bytes(high, length) <= size_bytes:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self.peak_bytes(middle, length) <= size_bytes:
                low = middle
            else:
                high = middle
        return low


def _with(inputs: Sequence[Polynomial], regime: Regime) -> Regime:
    """The same with inputs, which live all the time."""
    count, end = len(inputs), max(regime.ends, default=0) + 1
    starts = (*(0,) * count, *regime.starts)
    return Regime(starts, (*(end,) * count, *regime.ends), (*inputs, *regime.slots))


def _scaled(peaks: Sequence[Polynomial], by: Fraction) -> tuple[Polynomial, ...]:
    return tuple(peaks) if by == 1 else tuple(peak.times(by) for peak in peaks)


def _grouped(samples: Sequence[Traced]) -> list[list[Traced]]:
    """Runs that went alike; the most frequent first."""
    groups: dict[Key, list[Traced]] = {}
    for sample in samples:
        lifetimes = sample.lifetimes
        groups.setdefault((lifetimes.starts, lifetimes.ends), []).append(sample)
    return sorted(groups.values(), key=len, reverse=True)[:VARIANTS_MAX]


def _keep(table: dict[_Key, _Known], key: _Key, value: _Known) -> None:
    if len(table) >= CACHED_MAX:
        table.clear()
    table[key] = value
