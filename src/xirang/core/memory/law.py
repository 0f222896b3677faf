"""The peak law: how much memory a run takes, known before it is run.

Each slot of a trace has a polynomial in rows and lengths, so what lives at any instant has one too,
and the peak is the largest of a few polynomials. A run whose trace hangs on its data has several
regimes; the peak is the largest of all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xirang.core.memory.fitting import Fits, Measured
from xirang.core.memory.lifetime import Lifetimes
from xirang.core.memory.polynomial import Polynomial, Size, total

ROWS_END = 1 << 20
"""The answer where rows take no memory."""


@dataclass(frozen=True, slots=True)
class Traced:
    """What a run of one shape took.

    Attributes:
        rows, length: The shape; `length` is a tuple where there are several.
        lifetimes: Of its blocks.
        unseen: Blocks whose sizes this run did not show.
    """

    rows: int
    length: Size
    lifetimes: Lifetimes
    unseen: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Regime:
    """Runs that allocate in the same order.

    Attributes:
        starts, ends: When each slot lives.
        slots: How large each is.
        inexact: Slots whose sizes follow no polynomial; theirs lies above all that was seen.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    slots: tuple[Polynomial, ...]
    inexact: tuple[int, ...] = ()

    def lifetimes(self, rows: int, length: Size) -> Lifetimes:
        """What a run of some shape will take."""
        sizes = tuple(slot.bytes_at(rows, length) for slot in self.slots)
        return Lifetimes(self.starts, self.ends, sizes)


class Law:
    """How much memory a model's runs take.

    Attributes:
        regimes: Those that were seen, the most frequent first.
        peaks: What lives at the instants that may be the worst.
    """

    __slots__ = ("peaks", "regimes")

    def __init__(self, regimes: Sequence[Regime], *, alignment: int = 1) -> None:
        """Find the instants that matter.

        Args:
            regimes: At least one.
            alignment: Blocks are rounded up to its multiples; what is not known to be one is
                counted with the most that rounding can add.
        """
        self.regimes = tuple(regimes)
        peaks: list[Polynomial] = []
        for regime in regimes:
            slots = [_rounded(slot, alignment) for slot in regime.slots]
            sections = Lifetimes(regime.starts, regime.ends, (0,) * len(slots)).sections()
            # Layers repeat, and so does what lives in them.
            for living in dict.fromkeys(total(slots[k] for k in section) for section in sections):
                if not any(other.covers(living) for other in peaks):
                    peaks = [other for other in peaks if not living.covers(other)]
                    peaks.append(living)
        self.peaks = tuple(peaks)

    @property
    def is_exact(self) -> bool:
        """Whether every slot follows its polynomial."""
        return not any(regime.inexact for regime in self.regimes)

    def peak_bytes(self, rows: int, length: Size) -> int:
        """The most that a run has alive at once."""
        return max((one.bytes_at(rows, length) for one in self.peaks), default=0)

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of a length that stays within so many bytes; 0 if not one row does."""
        found = [one.rows_max(length, size_bytes) for one in self.peaks]
        return min((rows for rows in found if rows is not None), default=ROWS_END)


def law_of(traces: Sequence[Traced], *, alignment: int = 1) -> Law:
    """The law behind some runs, of shapes that differ enough to tell the terms apart."""
    regimes: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Traced]] = {}
    for traced in traces:
        key = (traced.lifetimes.starts, traced.lifetimes.ends)
        regimes.setdefault(key, []).append(traced)
    ordered = sorted(regimes.values(), key=len, reverse=True)
    return Law([_regime(group) for group in ordered], alignment=alignment)


def _regime(traces: Sequence[Traced]) -> Regime:
    first = traces[0].lifetimes
    fits = Fits()
    slots, inexact = [], []
    for slot in range(len(first)):
        measured = tuple(
            Measured(t.rows, t.length, t.lifetimes.sizes_bytes[slot])
            for t in traces
            if slot not in t.unseen
        )
        polynomial, is_exact = fits(measured)
        slots.append(polynomial)
        if not is_exact:
            inexact.append(slot)
    return Regime(first.starts, first.ends, tuple(slots), tuple(inexact))


def _rounded(slot: Polynomial, alignment: int) -> Polynomial:
    return slot if slot.is_multiple_of(alignment) else slot.plus(alignment - 1)
