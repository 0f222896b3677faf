"""How much is turned away at level 2, of whom, and always of the same.

A PI controller finds the share of all work to turn away that keeps the pressure at its target.
The share is taken from the lowest class first, and only what that cannot give from the next one
(water-filling): three times the capacity then costs the high class almost nothing, while an equal
share for everybody would cost it two thirds. Within a class it is the hash of the client that
decides, so that a session is served wholly or not at all, instead of failing here and there
(DAGOR, Zhou et al., SoCC 2018).
"""

from collections.abc import Mapping
from math import exp

PRESSURE_TARGET = 0.7
STEP_NS = 10_000_000
INTEGRAL, PROPORTIONAL = 0.02, 0.15
SHED_MAX = 0.98
FLOOR = 0.01
"""Level 2 asks everybody for a little, the highest class too."""

DEMAND_MEMORY_NS = 1_000_000_000
INSTANT_NS = 10_000_000
"""Arrivals so close together fade alike."""

EPOCH_NS = 600_000_000_000
"""After ten minutes the lot falls anew: nobody is locked out for long."""

_STEPS_MAX = 500


class Shedder:
    """The share of all work to turn away: a discrete PI controller on the pressure."""

    __slots__ = ("_error", "_stepped_ns", "share")

    def __init__(self) -> None:
        self.share = 0.0
        self._error = 0.0
        self._stepped_ns = 0

    def step(self, *, now_ns: int, pressure: float) -> float:
        """Let the controller catch up with the time.

        Returns:
            The share, 0…`SHED_MAX`.
        """
        steps = (now_ns - self._stepped_ns) // STEP_NS
        if steps <= 0:
            return self.share
        self._stepped_ns += steps * STEP_NS
        error = pressure - PRESSURE_TARGET
        change = INTEGRAL * error * min(steps, _STEPS_MAX) + PROPORTIONAL * (error - self._error)
        self.share = min(SHED_MAX, max(0.0, self.share + change))
        self._error = error
        return self.share

    def rest(self, *, now_ns: int, pressure: float) -> None:
        """Nothing is turned away now, so that what the pressure does is no answer to the share."""
        self.share = 0.0
        self._error = pressure - PRESSURE_TARGET
        self._stepped_ns = now_ns


class ClassDemand:
    """Arriving device time by priority, fading."""

    __slots__ = ("_at_ns", "_squares", "_work_ns")

    def __init__(self) -> None:
        self._work_ns: dict[int, float] = {}
        self._squares: dict[int, float] = {}
        self._at_ns = 0

    def on_arrival(self, *, now_ns: int, priority: int, work_ns: float) -> None:
        """A request came, admitted or not."""
        if now_ns - self._at_ns > INSTANT_NS:
            kept = exp((self._at_ns - now_ns) / DEMAND_MEMORY_NS)
            self._work_ns = {key: value * kept for key, value in self._work_ns.items()}
            self._squares = {key: value * kept for key, value in self._squares.items()}
            self._at_ns = now_ns
        self._work_ns[priority] = self._work_ns.get(priority, 0.0) + work_ns
        self._squares[priority] = self._squares.get(priority, 0.0) + work_ns * work_ns

    def by_priority(self) -> Mapping[int, float]:
        """Priority to its recent work; only proportions mean something."""
        return self._work_ns

    def heaviness(self, *, priority: int, work_ns: float) -> float:
        """A request's work by the mean work of its class, each request weighed by its work.

        Turned away in this proportion, the costly go first, and the share of the work that goes
        is still the one that is asked for: of as much device time the fewest answers are lost.
        """
        squares = self._squares.get(priority, 0.0)
        return work_ns * self._work_ns[priority] / squares if squares > 0.0 else 1.0


def share_of(priority: int, *, shed: float, demand: Mapping[int, float]) -> float:
    """The share of one class that has to go so that `shed` of all work goes.

    Args:
        priority: The class; 1 is the highest.
        shed: Share of all work.
        demand: Work of each class.
    """
    needed = shed * sum(demand.values())
    for key in sorted(demand, reverse=True):
        taken = min(needed, demand[key])
        if key == priority:
            return max(FLOOR, taken / demand[key] if demand[key] > 0.0 else 0.0)
        needed -= taken
    return FLOOR


def lot(client: int, *, now_ns: int) -> float:
    """Where a client stands in the lottery, 0…1; the same for ten minutes.

    Args:
        client: A hash of whoever asks.
        now_ns: The time.
    """
    # The mixing steps of MurmurHash3's finaliser: neighbours must not stand side by side.
    value = (client + 0x9E3779B97F4A7C15 * (now_ns // EPOCH_NS + 1)) & _MASK
    value = (value ^ (value >> 33)) * 0xFF51AFD7ED558CCD & _MASK
    value = (value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53 & _MASK
    return (value ^ (value >> 33)) / 2**64


_MASK = 2**64 - 1
