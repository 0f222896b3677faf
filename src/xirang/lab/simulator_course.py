"""The course of the server's own scheduler through a simulation: a watcher that samples it."""

from collections.abc import Callable
from dataclasses import dataclass

from xirang.core.request import Request
from xirang.core.run import Verdict
from xirang.core.snapshot import Snapshot
from xirang.lab.simulator import Silent

SAMPLES = 240


@dataclass(frozen=True, slots=True)
class Moment:
    """The controller at an instant.

    Attributes:
        at_s: Since the beginning.
        window_ms: Of the first model.
        threshold_ms: Of the first model.
        demand: Of all models.
        waiting: Requests of all models.
    """

    at_s: float
    window_ms: float
    threshold_ms: float
    demand: float
    waiting: int


class Course(Silent):
    """Samples a few hundred times.

    Attributes:
        moments: What it saw.
    """

    def __init__(self, snapshot: Callable[..., Snapshot], *, requests: int) -> None:
        """Watch a scheduler.

        Args:
            snapshot: The scheduler's.
            requests: How many will come, which spaces the samples.
        """
        self.moments: list[Moment] = []
        self._snapshot = snapshot
        self._step = max(1, requests // SAMPLES)
        self._came = 0

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """Count it."""
        self._came += 1

    def on_poll(self, now_ns: int) -> None:
        """Sample, if enough have come."""
        if self._came < self._step * (len(self.moments) + 1):
            return
        models = self._snapshot(now_ns=now_ns).models
        self.moments.append(
            Moment(
                at_s=now_ns / 1e9,
                window_ms=models[0].window_ns / 1e6,
                threshold_ms=models[0].threshold_ns / 1e6,
                demand=sum(model.demand for model in models),
                waiting=sum(model.waiting for model in models),
            )
        )
