"""How much memory a model takes whose rows stand end to end: by tokens, rows and the longest row.

Such a model may go row by row in the middle of its run, so what it allocates has another order for
each number of rows, and no plan made beforehand would hold. Its peak has a law all the same. How
far up tiny runs reach when they take the lowest gaps is measured, and laws without negative weights
are found that are close to that and never below. Runs then take the lowest gaps of their lease; one
that needs more after all is learned from like any other.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from xirang.core.memory.law import ROWS_END
from xirang.core.memory.lifetime import Traffic, aligned
from xirang.core.memory.polynomial import Factor, Polynomial, Size, Term, made, total
from xirang.memory.arena import HostArena
from xirang.memory.native.library import Library
from xirang.memory.room import Ground, InstanceRoom
from xirang.memory.structure import ALIGNMENT
from xirang.tensors.tensor import Array

_TOKENS, _LONGEST = Factor(0), Factor(1)
TERMS = (
    Term(factors=(_TOKENS,)),
    Term(),
    Term(factors=(_LONGEST,)),
    Term(has_rows=True),
    Term(factors=(_LONGEST, _LONGEST)),
    Term(has_rows=True, factors=(_LONGEST,)),
    Term(has_rows=True, factors=(_LONGEST, _LONGEST)),
    Term(factors=(_TOKENS, _TOKENS)),
)
"""T, 1, M, B, M², BM, BM², T²: states of all tokens, scores of one row or of all, of all by all."""

TERMS_MAX = 3
"""Of one law; more would follow the samples and nothing else."""

SIDE_MIN = 4
"""Samples that one of two laws is found from."""

RUNS_MIN = 8
"""Fewer do not tell the terms of a law apart."""

SLACK = 1.02
"""How high the lowest gaps reach hangs a little on the order of the rows."""

CLOSE = 0.02
"""What has more to it has to be better by this."""

LENGTHS = (
    *((8,), (16,), (40,), (96,), (8, 8), (16, 8), (24, 24), (24, 8, 8), (16, 16, 16)),
    *((12, 20, 28, 36), (8,) * 6, (96, 8, 8), (40,) * 4, (64, 64), (40,) * 12, (8,) * 48),
    *((120, *(8,) * 20), (240,)),
)
"""The rows of tiny runs, by their lengths."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A run of rows end to end.

    Attributes:
        rows: How many.
        tokens: All of them.
        longest: The longest row.
        size_bytes: What it took.
    """

    rows: int
    tokens: int
    longest: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PackedFeed:
    """A tiny run.

    Attributes:
        lengths: Of its rows.
        inputs: What the model is given, offsets too.
    """

    lengths: Sequence[int]
    inputs: Mapping[str, Array]


def law_of_reach(samples: Sequence[Reached]) -> tuple[Polynomial, ...]:
    """Polynomials of which the largest is no less than any sample, and close to most.

    One worst instant is that of all tokens, another that of the longest row: samples are split by
    how much of a run that row is, where two laws are closer than one.
    """
    ordered = sorted(samples, key=lambda one: one.longest**2 / one.tokens)
    best = [_lifted(ordered)]
    least = _error(best, samples)
    for split in range(SIDE_MIN, len(ordered) - SIDE_MIN + 1):
        both = [_lifted(ordered[:split]), _lifted(ordered[split:])]
        error = _error(both, samples)
        if error < least - CLOSE:
            best, least = both, error
    return tuple(best)


def _lifted(samples: Sequence[Reached]) -> Polynomial:
    """The closest law without negative weights, lifted above all samples."""
    values = np.array([[_value(term, one) for term in TERMS] for one in samples], float)
    sizes = np.array([max(1, one.size_bytes) for one in samples], float)
    best, least = np.zeros(len(TERMS)), np.inf
    for count in range(1, min(TERMS_MAX, len(samples) - 1) + 1):
        for chosen in map(list, combinations(range(len(TERMS)), count)):
            relative = values[:, chosen] / sizes[:, None]
            weights, *_ = np.linalg.lstsq(relative, np.ones(len(sizes)), rcond=None)
            error = float(np.abs(relative @ weights - 1).max())
            if weights.min() >= 0 and error < least - CLOSE:
                best, least = np.zeros(len(TERMS)), error
                best[chosen] = weights
    lift = SLACK * float((sizes / (values @ best)).max())
    return made(
        {
            term: Fraction(float(weight * lift)).limit_denominator(1 << 20) + Fraction(1, 1 << 20)
            for term, weight in zip(TERMS, best, strict=True)
            if weight
        }
    )


def _error(laws: Sequence[Polynomial], samples: Sequence[Reached]) -> float:
    """By how much the largest of some laws is above the samples, on the average."""
    return float(
        np.mean(
            [
                max(law.bytes_at(one.rows, (one.tokens, one.longest)) for law in laws)
                / max(1, one.size_bytes)
                for one in samples
            ]
        )
    )


def _value(term: Term, run: Reached) -> int:
    each = term.each_at((run.tokens, run.longest))
    return each * run.rows if term.has_rows else each


class PackedFootprint:
    """What is known of a model's memory; see `Footprint` in backends/executable.py.

    A length that is one number is that of equal rows; else it is the tokens in all and the longest
    row.

    Attributes:
        is_packed: Always; others have no such attribute.
        peaks: The law, of what inputs take too.
    """

    is_packed = True

    def __init__(
        self, library: Library, samples: Sequence[Reached], inputs: Sequence[Polynomial]
    ) -> None:
        """Find the law.

        Args:
            library: The native allocator.
            samples: Tiny runs, inputs not counted.
            inputs: What each input takes, of tokens and rows.
        """
        self._library = library
        beside = [one.plus(ALIGNMENT - 1) for one in inputs]
        self.peaks = tuple(total([law, *beside]) for law in law_of_reach(samples))

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of an arena."""
        size = (rows * length, length) if isinstance(length, int) else length
        return aligned(max(one.bytes_at(rows, size) for one in self.peaks), ALIGNMENT)

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of rows of a length that stays within so many bytes."""
        return bisect_right(
            range(1, ROWS_END), size_bytes, key=lambda rows: self.peak_bytes(rows, length)
        )

    def room(self, arena: HostArena) -> InstanceRoom:
        """A place for runs of one instance."""
        return InstanceRoom(self._library, self, arena)

    # ------------------------------------------------------------------ for rooms

    def structure(self, rows: int, length: Size) -> None:
        """No plan: runs take the lowest gaps."""

    def is_curious(self) -> bool:
        """No run is recorded."""
        return False

    def told(self, room: InstanceRoom, traffic: Traffic | None) -> None:
        """What it took goes back with its outcome, and later leases are larger."""


def reached(
    library: Library, runs: Sequence[tuple[Sequence[int], Callable[[], object]]]
) -> list[Reached]:
    """How far up runs reach that take the lowest gaps.

    Args:
        library: The native allocator.
        runs: The lengths of their rows, and what runs them and drops their answers.

    Raises:
        ValueError: The model takes too few of them.
    """
    ground = Ground(library, HostArena())
    ground.run.lease_bytes = ground.arena.reserved_bytes
    found = []
    for lengths, act in runs:
        try:
            act()  # what it keeps from its first run is not the run's
        except Exception:  # a model may refuse what no client would send
            continue
        ground.begin(None, 0, 0)
        try:
            act()
        finally:
            ground.end()
        size_bytes = ground.run.reach_bytes + ground.run.spilled_bytes
        found.append(Reached(len(lengths), sum(lengths), max(lengths), size_bytes))
    ground.arena.close()
    if len(found) < RUNS_MIN:
        raise ValueError(f"it takes {len(found)} of {len(runs)} tiny runs")
    return found
