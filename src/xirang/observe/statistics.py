"""Counts and times of every model, folded from the core's events: once a run, never a request."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from xirang.core.event import Event, RequestCancelled, RequestExpired, RequestRejected, RunEnded
from xirang.core.run import Done

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SECONDS_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(slots=True, eq=False)
class Histogram:
    """Counts by upper bound, as Prometheus has them."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_spans(self, spans_ns: Iterable[int]) -> None:
        """Count times, given in nanoseconds, by bounds in seconds."""
        bounds, counts = self.bounds, self.counts
        for span_ns in spans_ns:
            seconds = span_ns / 1e9
            counts[bisect_left(bounds, seconds)] += 1
            self.total += seconds

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self.counts)


@dataclass(slots=True)
class _Timed:
    """A count and the nanoseconds of all it counts."""

    count: int = 0
    ns: int = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns

    def as_v2(self) -> dict[str, int]:
        return {"count": self.count, "ns": self.ns}


@dataclass(slots=True, eq=False)
class ModelStatistics:
    """One model's."""

    name: str
    version: str
    last_inference_ms: int = 0
    rows: int = 0
    runs: int = 0
    elements: int = 0
    padding: int = 0
    run_ns: int = 0
    rejected: int = 0
    expired: int = 0
    cancelled: int = 0
    success: _Timed = field(default_factory=_Timed)
    fail: _Timed = field(default_factory=_Timed)
    queue: _Timed = field(default_factory=_Timed)
    compute_input: _Timed = field(default_factory=_Timed)
    compute_infer: _Timed = field(default_factory=_Timed)
    compute_output: _Timed = field(default_factory=_Timed)
    batches: dict[int, tuple[_Timed, _Timed, _Timed]] = field(default_factory=dict)
    triggers: dict[str, int] = field(default_factory=dict)
    batch_rows: Histogram = field(default_factory=lambda: Histogram(BATCH_BOUNDS))
    request_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    queue_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))
    run_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS_BOUNDS))

    def on_run(self, event: RunEnded, *, now_ms: int) -> None:
        """Fold one run."""
        run, outcome = event.run, event.outcome
        span_ns = event.end_ns - run.start_ns
        done = outcome if isinstance(outcome, Done) else Done(ran_ns=span_ns)
        guilty = () if isinstance(outcome, Done) else outcome.guilty
        count = len(run.requests) - len(guilty)
        self.last_inference_ms = now_ms
        self.runs += 1
        self.elements += run.elements
        self.padding += run.padding
        self.run_ns += done.ran_ns
        self.batch_rows.add(run.rows)
        self.run_seconds.add(done.ran_ns / 1e9)
        trigger = run.trigger.value
        self.triggers[trigger] = self.triggers.get(trigger, 0) + 1
        self._add_requests(event, frozenset(guilty))
        infer_ns = done.ran_ns - done.assemble_ns - done.split_ns
        spans_ns = (done.assemble_ns, infer_ns, done.split_ns)
        batch = self.batches.setdefault(run.rows, (_Timed(), _Timed(), _Timed()))
        kinds = (self.compute_input, self.compute_infer, self.compute_output)
        for kind, shared, ns in zip(kinds, batch, spans_ns, strict=True):
            kind.add(count, ns * count)  # a shared batch is charged in full to each request
            shared.add(1, ns)

    def _add_requests(self, event: RunEnded, guilty: frozenset[int]) -> None:
        start_ns, end_ns = event.run.start_ns, event.end_ns
        served = event.run.requests
        if guilty:
            for request in served:
                if request.id in guilty:
                    self.fail.add(1, end_ns - request.arrival_ns)
            served = tuple([request for request in served if request.id not in guilty])
        took_ns = [end_ns - request.arrival_ns for request in served]
        queued_ns = [start_ns - request.arrival_ns for request in served]
        self.rows += sum([request.rows for request in served])
        self.request_seconds.add_spans(took_ns)
        self.queue_seconds.add_spans(queued_ns)
        self.success.add(len(served), sum(took_ns))
        self.queue.add(len(served), sum(queued_ns))

    def as_v2(self) -> dict[str, Any]:
        """As an entry of `model_stats`."""
        kinds = ("compute_input", "compute_infer", "compute_output")
        return {
            "name": self.name,
            "version": self.version,
            "last_inference": self.last_inference_ms,
            "inference_count": self.rows,
            "execution_count": self.runs,
            "inference_stats": {
                "success": self.success.as_v2(),
                "fail": self.fail.as_v2(),
                "queue": self.queue.as_v2(),
                "compute_input": self.compute_input.as_v2(),
                "compute_infer": self.compute_infer.as_v2(),
                "compute_output": self.compute_output.as_v2(),
                "cache_hit": _Timed().as_v2(),
                "cache_miss": _Timed().as_v2(),
            },
            "response_stats": {},
            "batch_stats": [
                {"batch_size": size}
                | {kind: timed.as_v2() for kind, timed in zip(kinds, batch, strict=True)}
                for size, batch in sorted(self.batches.items())
            ],
            "memory_usage": [],
        }


class Statistics:
    """All models'."""

    def __init__(self, *, unix_ms: Callable[[], int]) -> None:
        self._unix_ms = unix_ms
        self.models: dict[str, ModelStatistics] = {}

    def add_model(self, name: str, version: str) -> None:
        """All series of a model are there from its load, at zero."""
        self.models[name] = ModelStatistics(name, version)

    def on_event(self, event: Event) -> None:
        """Fold one event of the core."""
        match event:
            case RunEnded():
                self.models[event.run.model].on_run(event, now_ms=self._unix_ms())
            case RequestRejected(request):
                model = self.models[request.model]
                model.rejected += 1
                model.fail.add(1, 0)
            case RequestExpired(request, at_ns):
                model = self.models[request.model]
                model.expired += 1
                model.fail.add(1, at_ns - request.arrival_ns)
            case RequestCancelled(request, at_ns):
                model = self.models[request.model]
                model.cancelled += 1
                model.fail.add(1, at_ns - request.arrival_ns)

    def as_v2(self, name: str | None = None) -> dict[str, Any]:
        """The statistics extension's answer, for one model or all."""
        models = self.models.values() if name is None else (self.models[name],)
        return {"model_stats": [model.as_v2() for model in models]}
