"""The fast lane: who takes it, how long it may have to wait, and how much of the device it gets.

A fast request never waits for company and goes before all others. It can still be held up by runs
that are on the device already, which nothing can stop. So while fast requests are to be expected,
the runs of the others are cut shorter: a fast one waits for at most one such sub-run. Nor may the
lane starve the rest: beyond its share of the device, fast requests stand in line like others.
"""

from math import exp

MEMORY_NS = 1_000_000_000
EXPECTED_NS = 10_000_000_000
"""After the last fast request, runs stay short for so long."""

WAIT_CALLS = 10.0
"""A run of ten calls' time spends a tenth on its call: shorter ones would cost too much."""


class FastShare:
    """What the fast lane of one device was given, as a share of its time."""

    __slots__ = ("_at_ns", "_given_ns", "last_ns")

    def __init__(self) -> None:
        self.last_ns: int | None = None
        self._at_ns = 0
        self._given_ns = 0.0

    def on_arrival(self, now_ns: int) -> None:
        """A fast request came."""
        self.last_ns = now_ns

    def on_given(self, run_ns: float, now_ns: int) -> None:
        """A fast run starts."""
        self._given_ns = self._given_ns * self._kept(now_ns) + run_ns
        self._at_ns = max(now_ns, self._at_ns)

    def at(self, now_ns: int, *, parallelism: int) -> float:
        """The share, 0…1."""
        return self._given_ns * self._kept(now_ns) / (MEMORY_NS * parallelism)

    def is_expected(self, now_ns: int) -> bool:
        """Whether fast requests come these days."""
        return self.last_ns is not None and now_ns - self.last_ns < EXPECTED_NS

    def _kept(self, now_ns: int) -> float:
        return exp(min(0, self._at_ns - now_ns) / MEMORY_NS)


def sub_run_elements(*, call_ns: float, element_ns: float, wait_ns: int) -> int:
    """Most padded elements of a run that a fast request may have to wait for.

    Args:
        call_ns: What a run costs before its first row.
        element_ns: What an element costs.
        wait_ns: The longest wait that is set; 0 for as short as is cheap.
    """
    room_ns = (wait_ns or WAIT_CALLS * call_ns) - call_ns
    elements = max(1.0, room_ns / element_ns) if element_ns > 0.0 else 1 << 62
    # Powers of two: a bound that moves with every run would have every plan made anew.
    return 1 << (int(elements).bit_length() - 1)
