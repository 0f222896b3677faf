"""By how much runs exceed their prediction: quantiles of the latest ratios, for two uses.

One margin would be wrong for one of them. Who sizes a batch or gives up a request must be right in
most cases: a cautious guess would make batches too small and drop what could be served. Who waits
of his own will must be right nearly always: nothing forces him to.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable

RATIOS = 512
FEW = 20
"""Fewer ratios than this say nothing about a tail."""

FIT_DEFAULT, FIT_MAX = 0.1, 1.0
WAIT_DEFAULT, WAIT_MIN, WAIT_MAX = 0.5, 0.005, 5.0
WAIT_MISSED = 0.005
"""Share of runs that may exceed the margin of those who wait."""


class Margins:
    """The latest ratios of actual to predicted time, kept in order of arrival and of size."""

    __slots__ = ("_latest", "_ordered")

    def __init__(self, ratios: Iterable[float] = ()) -> None:
        self._latest = deque(ratios, maxlen=RATIOS)
        self._ordered = sorted(self._latest)

    @property
    def ratios(self) -> tuple[float, ...]:
        """What was added, the oldest first."""
        return tuple(self._latest)

    def add(self, ratio: float) -> None:
        """One more run ended."""
        ordered, latest = self._ordered, self._latest
        if len(latest) == RATIOS:
            del ordered[bisect_left(ordered, latest[0])]
        latest.append(ratio)
        insort(ordered, ratio)

    def fit(self) -> float:
        """Three of four runs take no longer than predicted by more than this share."""
        count = len(self._ordered)
        if count < FEW:
            return FIT_DEFAULT
        return min(FIT_MAX, max(0.0, self._ordered[(3 * count - 1) // 4] - 1.0))

    def wait(self) -> float:
        """All but one in two hundred runs to come take no longer by more than this share."""
        count = len(self._ordered)
        if count < FEW:
            return WAIT_DEFAULT
        # The conformal rank ⌈(n+1)(1−ε)⌉: what holds for the runs seen holds for the next one.
        rank = min(count, -int(-(count + 1) * (1.0 - WAIT_MISSED) // 1))
        return min(WAIT_MAX, max(WAIT_MIN, self._ordered[rank - 1] - 1.0))
