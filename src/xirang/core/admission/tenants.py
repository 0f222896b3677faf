"""How much one tenant may ask for: a rate of requests, and a share of the device.

A rate is a bucket of tokens that fills with time (a second's worth at most, so that a burst of a
second passes). A share bounds the work that a tenant has in at once to its part of what the
device does within one latency budget: whoever stays below it is served as if alone.
"""

from dataclasses import dataclass

from xirang.core.run import Cause, Rejected

BURST_NS = 1_000_000_000
"""A bucket holds what this long fills, and at least one request."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a tenant may ask for.

    Attributes:
        rate: Requests a second; None for any.
        share: Of the device, 0…1.
    """

    rate: float | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        assert self.rate is None or self.rate > 0
        assert 0 < self.share <= 1


class Tenant:
    """One tenant's tokens and work that is in."""

    __slots__ = ("_filled_ns", "_tokens", "allowance", "name", "work_ns")

    def __init__(self, name: str, allowance: Allowance) -> None:
        self.name = name
        self.allowance = allowance
        self.work_ns = 0.0
        self._filled_ns = 0
        self._tokens = self._depth()

    def refusal(self, *, now_ns: int, work_ns: float, capacity_ns: float) -> Rejected | None:
        """Why a request may not come in now; None if it may, which takes a token.

        Args:
            now_ns: The time.
            work_ns: Device time that the request will take.
            capacity_ns: What the device does within one latency budget.
        """
        if self.work_ns and self.work_ns + work_ns > self.allowance.share * capacity_ns:
            reason = f"'{self.name}' may hold {self.allowance.share:.0%} of the device at once"
            return Rejected(reason, int(work_ns), Cause.ALLOWANCE)
        rate = self.allowance.rate
        if rate is None:
            return None
        self._fill(now_ns, rate)
        if self._tokens < 1.0:
            wait_ns = int((1.0 - self._tokens) / rate * 1e9) + 1
            reason = f"'{self.name}' may ask {rate:g} times a second"
            return Rejected(reason, wait_ns, Cause.ALLOWANCE)
        self._tokens -= 1.0
        return None

    def on_admitted(self, work_ns: float) -> None:
        """Its request is in."""
        self.work_ns += work_ns

    def on_left(self, work_ns: float) -> None:
        """Its request was answered, or left without an answer."""
        self.work_ns = max(0.0, self.work_ns - work_ns)

    def _depth(self) -> float:
        rate = self.allowance.rate
        return 0.0 if rate is None else max(1.0, rate * BURST_NS / 1e9)

    def _fill(self, now_ns: int, rate: float) -> None:
        if now_ns > self._filled_ns:
            gained = (now_ns - self._filled_ns) * rate / 1e9
            self._tokens = min(self._depth(), self._tokens + gained)
            self._filled_ns = now_ns
