"""Time that a part of the probe may take."""

from xirang.engine.clock import Clock


class Allowance:
    """A span that begins now; whoever tries one thing after another asks whether it is spent."""

    def __init__(self, clock: Clock, seconds: float, *, within: "Allowance | None" = None) -> None:
        """Begin.

        Args:
            clock: Measures it.
            seconds: Its length.
            within: Another, which it does not outlast.
        """
        self.clock = clock
        self._end_ns = clock.now_ns() + int(seconds * 1e9)
        if within is not None:
            self._end_ns = min(self._end_ns, within._end_ns)

    @property
    def is_spent(self) -> bool:
        """Whether it is over."""
        return self.clock.now_ns() >= self._end_ns
