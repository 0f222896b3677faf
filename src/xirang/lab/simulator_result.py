"""What a simulation comes to: a watcher that folds events into the figures one compares."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xirang.core.request import Request
from xirang.core.run import Admitted, Run, Verdict
from xirang.lab.simulator import Silent


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one simulation; latencies count from arrival to answer.

    Attributes:
        requests: That came to the door.
        on_time: Share of them answered within their budgets (goodput ÷ offered load).
        on_time_by_priority: The same for each priority.
        late: Answered too late.
        expired: Given up before they ran.
        rejected: Turned away at the door.
        latency_p50_ms: Of the answered ones, as are the next three.
        latency_p99_ms: One in a hundred takes longer.
        latency_mean_ms: Average.
        latency_max_ms: The worst.
        runs: Device calls.
        batch_mean: Rows a run.
        device_ms_per_request: Device time ÷ answered requests.
        device_ms_per_on_time: Device time ÷ requests answered within their budgets.
        padding_waste: Padded elements ÷ all elements.
        busy: Share of the instances' time in use.
        seconds: From the first arrival to the last event.
    """

    requests: int
    on_time: float
    on_time_by_priority: dict[int, float]
    late: int
    expired: int
    rejected: int
    latency_p50_ms: float
    latency_p99_ms: float
    latency_mean_ms: float
    latency_max_ms: float
    runs: int
    batch_mean: float
    device_ms_per_request: float
    device_ms_per_on_time: float
    padding_waste: float
    busy: float
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Plain values, rounded so that they read well."""
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in asdict(self).items()
            if name != "on_time_by_priority"
        } | {
            "on_time_by_priority": {
                str(priority): round(share, 4)
                for priority, share in sorted(self.on_time_by_priority.items())
            }
        }


class Tally(Silent):
    """Counts while the simulation runs.

    Attributes:
        latencies_ns: Of each answered request, in order of the answers.
        batch_sizes: Rows of a run to how many runs had so many.
        triggers: Why batches were cut, by name.
    """

    def __init__(self, *, parallelism: int = 1) -> None:
        self.latencies_ns = array("q")
        self.batch_sizes: Counter[int] = Counter()
        self.triggers: Counter[str] = Counter()
        self._parallelism = parallelism
        self._first_ns: int | None = None
        self._last_ns = 0
        self._arrived: Counter[int] = Counter()
        self._on_time: Counter[int] = Counter()
        self._rejected = self._expired = 0
        self._busy_ns = self._elements = self._padding = 0

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """Count who came and who was turned away."""
        if self._first_ns is None:
            self._first_ns = request.arrival_ns
        self._arrived[request.priority] += 1
        if not isinstance(verdict, Admitted):
            self._rejected += 1

    def on_end(self, run: Run, now_ns: int) -> None:
        """Count the run and the answers of its requests."""
        self.batch_sizes[run.rows] += 1
        self.triggers[run.trigger.value] += 1
        self._busy_ns += now_ns - run.start_ns
        self._elements += run.elements
        self._padding += run.padding
        self._last_ns = now_ns
        record, on_time = self.latencies_ns.append, self._on_time
        for request in run.requests:
            record(now_ns - request.arrival_ns)
            if now_ns <= request.deadline_ns:
                on_time[request.priority] += 1

    def on_expire(self, request: Request, now_ns: int) -> None:
        """Count who was given up."""
        self._expired += 1
        self._last_ns = now_ns

    def result(self) -> Result:
        """The figures of what was seen so far."""
        latencies = sorted(self.latencies_ns)
        arrived, on_time = self._arrived.total(), self._on_time.total()
        runs = self.batch_sizes.total()
        rows = sum(size * times for size, times in self.batch_sizes.items())
        span_ns = self._last_ns - (self._first_ns or 0)
        return Result(
            requests=arrived,
            on_time=on_time / max(1, arrived),
            on_time_by_priority={p: self._on_time[p] / n for p, n in self._arrived.items()},
            late=len(latencies) - on_time,
            expired=self._expired,
            rejected=self._rejected,
            latency_p50_ms=quantile(latencies, 0.50) / 1e6,
            latency_p99_ms=quantile(latencies, 0.99) / 1e6,
            latency_mean_ms=sum(latencies) / max(1, len(latencies)) / 1e6,
            latency_max_ms=quantile(latencies, 1.0) / 1e6,
            runs=runs,
            batch_mean=rows / max(1, runs),
            device_ms_per_request=self._busy_ns / max(1, len(latencies)) / 1e6,
            device_ms_per_on_time=self._busy_ns / max(1, on_time) / 1e6,
            padding_waste=self._padding / max(1, self._elements),
            busy=self._busy_ns / max(1, span_ns) / self._parallelism,
            seconds=span_ns / 1e9,
        )


def quantile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least this share do not exceed; 0 of nothing."""
    if not ordered:
        return 0
    rank = -int(-share * len(ordered) // 1)  # rounded up
    return ordered[min(len(ordered), max(1, rank)) - 1]
