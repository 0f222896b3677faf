"""What is switched off at level 3, in which order, and back on when the level falls.

The core users of a pressed server lose conveniences before they lose answers. One function goes
at a time, so that no more is lost than is needed; they come back in the opposite order.
"""

from xirang.core.event import Function

STEP_NS = 250_000_000

ORDER = tuple(Function)


class Switches:
    """How far the switching off has gone."""

    __slots__ = ("_stepped_ns", "count")

    def __init__(self) -> None:
        self.count = 0
        self._stepped_ns = -STEP_NS

    def step(self, *, now_ns: int, level: int) -> bool:
        """One function further off at level 3, one back on below.

        Returns:
            Whether something changed.
        """
        target = len(ORDER) if level >= 3 else 0
        if self.count == target or now_ns - self._stepped_ns < STEP_NS:
            return False
        self.count += 1 if target > self.count else -1
        self._stepped_ns = now_ns
        return True

    @property
    def off(self) -> tuple[Function, ...]:
        """The functions that are off now."""
        return ORDER[: self.count]
