"""Three levels of overload, entered at once and left slowly.

Level 1 turns low priority away, level 2 a share of everybody, level 3 also switches off what the
core users can do without.
"""

from dataclasses import dataclass

HOLD_NS = 500_000_000
"""Shortest stay at a level: leaving too early would let the queue that caused it come back."""

EXIT_SHARE = 0.8
"""A level is left below this part of the pressure at which it is entered."""

SHED_LITTLE = 0.05
"""Level 2 stays while more than this is shed: it is the shedding that keeps the pressure low."""

SHED_LONG_NS = 2_000_000_000
SHED_MUCH = 0.5
"""Shedding more than this for so long is level 3 too, however well the queue is kept short."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Pressures (predicted queueing time ÷ budget) at which levels 1, 2 and 3 begin.

    Early rejection already keeps the queue within the budget: levels that begin well below one
    would turn away requests that could have been answered.

    Attributes:
        low: Level 1, low priority is turned away.
        all: Level 2, a share of everybody.
        degrade: Level 3, functions are switched off.
        depths: Waiting requests at which the levels begin instead, for those who count so.
    """

    low: float = 0.8
    all: float = 0.95
    degrade: float = 1.1
    depths: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        assert 0 < self.low <= self.all <= self.degrade
        assert self.depths is None or 0 < self.depths[0] < self.depths[1] < self.depths[2]

    def pressure_of(self, depth: int) -> float:
        """The pressure that so many waiting requests stand for, where depths are given."""
        assert self.depths is not None
        below, entry = 0, 0.0
        for level, begin in enumerate(self.depths, 1):
            if depth < begin:
                return entry + (self.entry(level) - entry) * (depth - below) / (begin - below)
            below, entry = begin, self.entry(level)
        return entry * depth / below

    def entered(self, pressure: float) -> int:
        """The level of a pressure that comes from below."""
        return (pressure > self.low) + (pressure > self.all) + (pressure > self.degrade)

    def entry(self, level: int) -> float:
        """The pressure at which a level begins."""
        return (self.low, self.all, self.degrade)[level - 1]


class Levels:
    """The present level, with hysteresis."""

    __slots__ = ("_changed_ns", "_shed_since_ns", "_thresholds", "level")

    def __init__(self, thresholds: Thresholds) -> None:
        self.level = 0
        self._thresholds = thresholds
        self._changed_ns = 0
        self._shed_since_ns: int | None = None

    def step(self, *, now_ns: int, pressure: float, shed: float) -> int:
        """Move to the level that pressure and shed share ask for.

        Args:
            now_ns: The time.
            pressure: Predicted queueing time ÷ budget.
            shed: Share of all work that is turned away.

        Returns:
            The level: 0…3.
        """
        asked = self._thresholds.entered(pressure)
        if self._sheds_long(now_ns, shed):
            asked = 3
        if asked > self.level:
            self._enter(asked, now_ns)
        elif asked < self.level and self._may_leave(now_ns, pressure, shed):
            self._enter(self.level - 1, now_ns)
        return self.level

    def _may_leave(self, now_ns: int, pressure: float, shed: float) -> bool:
        if self.level == 2 and shed > SHED_LITTLE:
            return False
        is_low = pressure < EXIT_SHARE * self._thresholds.entry(self.level)
        return is_low and now_ns - self._changed_ns >= HOLD_NS

    def _sheds_long(self, now_ns: int, shed: float) -> bool:
        if shed <= SHED_MUCH:
            self._shed_since_ns = None
            return False
        if self._shed_since_ns is None:
            self._shed_since_ns = now_ns
        return now_ns - self._shed_since_ns >= SHED_LONG_NS

    def _enter(self, level: int, now_ns: int) -> None:
        self.level = level
        self._changed_ns = now_ns
