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

    __slots__ = (
        "_arrivals",
        "_exposed_ns",
        "_in_flight",
        "_last_ns",
        "_rows_ns",
        "_share_ns",
        "_weight_ns",
    )

    def __init__(self) -> None:
        self._last_ns = 0
        self._in_flight = 0
        self._rows_ns = 0.0
        self._share_ns = 0.0
        self._weight_ns = 0.0
        self._arrivals = 0.0
        self._exposed_ns = 0.0

    def on_arrival(self, *, now_ns: int, rows_ns: float, share_ns: float) -> None:
        """A request came.

        Args:
            now_ns: The time.
            rows_ns: What its rows cost.
            share_ns: The same with its part of the call, in good company.
        """
        if not self._in_flight:
            self._advance(now_ns)
        else:
            if now_ns - self._last_ns > INSTANT_NS:
                self._advance(now_ns)
            self._arrivals += 1
        self._rows_ns += rows_ns
        self._share_ns += share_ns
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
        return self._share_ns / (self._weighed_ns() * parallelism)

    def rows_load(self, *, parallelism: int) -> float:
        """The part of it that does not depend on company."""
        return self._rows_ns / (self._weighed_ns() * parallelism)

    def _weighed_ns(self) -> float:
        # Before a memory has passed, the average is over the time there was (no start-up bias).
        return max(self._weight_ns, MEMORY_NS / 8)

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
        self._rows_ns *= kept
        self._share_ns *= kept
        self._weight_ns = self._weight_ns * kept + gained_ns
        if self._in_flight:
            self._arrivals *= kept
            self._exposed_ns = self._exposed_ns * kept + gained_ns


def share_ns(*, row_ns: float, call_ns: float, gathered_ns: float) -> float:
    """Device time of a row in good company: its own, and its part of the call.

    Args:
        row_ns: What the row costs.
        call_ns: What a run costs before its first row.
        gathered_ns: Rows' time of the largest run that can be kept up.
    """
    return row_ns * (1.0 + call_ns / max(row_ns, gathered_ns)) if row_ns else call_ns
