"""How pressed a device is: the wait that a new request would have, by what its budget allows."""

from math import exp

MEMORY_NS = 100_000_000
"""Samples of this long ago count for 1/e: a burst inside a budget is no overload."""


class Pressure:
    """The decaying mean of predicted queueing time ÷ budget.

    A count of requests would not do: a queue of 256 is nothing for one model and hopeless for
    another. Nor would the busy share of the device, which a batching server drives to one at a
    third of its capacity.
    """

    __slots__ = ("_at_ns", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._at_ns = 0

    def sample(self, ratio: float, *, now_ns: int) -> None:
        """A request came that would wait such a part of its budget."""
        passed_ns = now_ns - self._at_ns
        if passed_ns <= 0:
            return
        # Most come so close together that the exponential is a straight line.
        is_short = passed_ns < MEMORY_NS / 100
        weight = passed_ns / MEMORY_NS if is_short else 1.0 - self._kept(now_ns)
        self._value += (ratio - self._value) * weight
        self._at_ns = now_ns

    def at(self, now_ns: int) -> float:
        """Pressure now; without arrivals it fades."""
        return self._value * self._kept(now_ns)

    def _kept(self, now_ns: int) -> float:
        return exp(-max(0, now_ns - self._at_ns) / MEMORY_NS)
