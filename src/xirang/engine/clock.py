"""The one place that reads the time."""

import time
from typing import Protocol


class Clock(Protocol):
    """Nanoseconds from some fixed start, never going back."""

    def now_ns(self) -> int:
        """The time now."""
        ...


class MonotonicClock:
    """The machine's own clock."""

    now_ns = staticmethod(time.monotonic_ns)


def epoch_ns() -> int:
    """What to add to the machine's clock for nanoseconds since 1970, for what people read."""
    return time.time_ns() - time.monotonic_ns()


def unix_ms() -> int:
    """Milliseconds since 1970, for what people read; never for a decision."""
    return time.time_ns() // 1_000_000
