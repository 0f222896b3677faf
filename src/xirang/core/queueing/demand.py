"""How much work arrives and whether company is to be expected: two decaying averages."""

from math import exp

MEMORY_NS = 2_000_000_000
"""Load of this long ago counts for 1/e of the load now."""

INSTANT_NS = 100_000
"""Arrivals so close together fade alike: they are added before the average moves on."""


class Demand:
    """Folds arrivals into a demand and a rate of company.

    Demand is arriving device time ÷ elapsed time. Busy fraction would not do: a batching server
    is busy all the time at a third of its capacity, only with small batches.

    The rate of company is counted only while a request is already in flight. For an open stream
    that is the arrival rate (arrivals see time averages); for one client that waits for each
    answer it is zero, so that nobody waits for a request that its own client holds back.
    """

    __slots__ = ("_arrivals", "_exposed_ns", "_in_flight", "_last_ns", "_weight_ns", "_work_ns")

    def __init__(self) -> None:
        self._last_ns = 0
        self._in_flight = 0
        self._work_ns = 0.0
        self._weight_ns = 0.0
        self._arrivals = 0.0
        self._exposed_ns = 0.0

    def on_arrival(self, *, now_ns: int, work_ns: float) -> None:
        """A request came that will cost this much device time in good company."""
        if not self._in_flight:
            self._advance(now_ns)
        else:
            if now_ns - self._last_ns > INSTANT_NS:
                self._advance(now_ns)
            self._arrivals += 1
        self._work_ns += work_ns
        self._in_flight += 1

    def on_departure(self, *, now_ns: int, count: int = 1) -> None:
        """Requests were answered, or left without an answer."""
        self._advance(now_ns)
        self._in_flight -= count
        assert self._in_flight >= 0

    @property
    def in_flight(self) -> int:
        """Admitted and not yet answered."""
        return self._in_flight

    def load(self, *, now_ns: int, parallelism: int) -> float:
        """ρ̂: arriving work ÷ what so many instances can do."""
        self._advance(now_ns)
        # Before a memory has passed, the average is over the time there was (no start-up bias).
        weight = max(self._weight_ns, MEMORY_NS / 8)
        return self._work_ns / (weight * parallelism)

    def company(self) -> float:
        """Requests expected to join in a nanosecond, given that somebody is in flight."""
        return self._arrivals / self._exposed_ns if self._exposed_ns > 0.0 else 0.0

    def _advance(self, now_ns: int) -> None:
        passed_ns = now_ns - self._last_ns
        if passed_ns <= 0:
            return
        self._last_ns = now_ns
        kept = exp(-passed_ns / MEMORY_NS)
        gained_ns = MEMORY_NS * (1.0 - kept)
        self._work_ns *= kept
        self._weight_ns = self._weight_ns * kept + gained_ns
        if self._in_flight:
            self._arrivals *= kept
            self._exposed_ns = self._exposed_ns * kept + gained_ns
