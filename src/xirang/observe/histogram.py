"""Counts by upper bound, as Prometheus has them, and what they say of percentiles."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

MS = 1_000_000
SECOND_NS = 1_000 * MS

SPANS_NS = (
    *(10_000, 100_000, 200_000, 500_000),
    *(n * scale * 100_000 for scale in (1, 10, 100, 1_000) for n in (10, 15, 20, 30, 50, 70)),
    10 * SECOND_NS,
)
"""10 µs to 10 s; above 1 ms each is at most two thirds more than the one before, so that a
percentile read between two of them is off by a quarter at worst."""


class Exemplar(NamedTuple):
    """One value of many, its trace, and when it was counted."""

    value: float
    trace: str
    unix_ms: int


class Histogram:
    """How often values fell between bounds.

    Attributes:
        bounds: Ascending; a value counts at the first bound that is not below it.
        unit: What one is in the values: 1e9 where they are nanoseconds and people read seconds.
        counts: One more than bounds; the last is of what lies beyond them all.
        total: Sum of the values.
        exemplars: By the number of their bound, the last of those values that have a trace.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total", "unit")

    def __init__(self, bounds: Sequence[float], *, unit: float = 1.0) -> None:
        self.bounds = tuple(bounds)
        self.unit = unit
        self.counts = [0] * (len(self.bounds) + 1)
        self.total: float = 0
        self.exemplars: dict[int, Exemplar] = {}

    def add(self, value: float, times: int = 1) -> None:
        """Count one value, or the same several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add_even(self, last: float, times: int) -> None:
        """Count so many values that follow each other at even distances, from 0 to the last."""
        first = bisect_left(self.bounds, last / times)
        below = 0
        for number in range(first, bisect_left(self.bounds, last)):
            upto = int(self.bounds[number] * times / last)
            self.counts[number] += upto - below
            below = upto
        self.counts[bisect_left(self.bounds, last)] += times - below
        self.total += last * (times + 1) / 2

    def exemplify(self, value: float, trace: str, unix_ms: int) -> None:
        """A value that was counted has a trace that tells more of it."""
        self.exemplars[bisect_left(self.bounds, value)] = Exemplar(value, trace, unix_ms)

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)


def spans() -> Histogram:
    """One of times in nanoseconds."""
    return Histogram(SPANS_NS, unit=SECOND_NS)


def quantile(share: float, bounds: Sequence[float], counts: Sequence[float]) -> float | None:
    """The value that this share of the counted stay below; None if nothing was counted.

    Between two bounds the values are taken to be spread evenly, and those beyond the last bound
    to lie at it: as `histogram_quantile` of Prometheus does.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    below, lower = 0.0, 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and below + count >= wanted:
            return lower + (bound - lower) * (wanted - below) / count
        below += count
        lower = bound
    return bounds[-1]
