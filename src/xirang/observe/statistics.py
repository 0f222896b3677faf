"""Counts and times of every model, folded from the core's events: once a run, never a request."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xirang.core.event import Event, RequestCancelled, RequestExpired, RequestRejected, RunEnded
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Cause, Done, Failed, Trigger
from xirang.observe.costs import Costs
from xirang.observe.histogram import SPANS_NS, Histogram, spans
from xirang.observe.machine import Machine
from xirang.observe.outlet import Tally

STAGES = ("receive", "queue", "assemble", "run", "split", "send")

BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATIO_BOUNDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ERROR_BOUNDS = (0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)


def _stages() -> dict[str, Histogram]:
    return {stage: spans() for stage in STAGES}


@dataclass(slots=True, eq=False)
class ModelStatistics:
    """One model's.

    Attributes:
        load_ns: How long it took to load.
        on_time: Answered before their deadline.
        late: Answered after it.
        failed: For which the model raised.
        stalled: Instances that hang now.
        restarts: Worker processes that took the place of another.
        hits: Requests whose answer was kept from one before, and the time to find it.
        misses: Requests for which none was kept, and the time to find that out.
        fail_ns: Arrival to end of all that were not answered with outputs, whatever the reason.
        batches: Of each size in rows: runs, and nanoseconds of assembly, model and split.
        stages: How long each answered request was in each stage; the time of a shared run counts
            in full for each request in it, as with Triton.
        run_seconds: Assembly, model and split of a run.
        cost_seconds: What the cost model expected of it.
        error_ratio: How long it took ÷ how long that was expected to be.
        slack_seconds: What the most pressing request of a run had to spare when it was cut.
    """

    name: str
    version: str
    load_ns: int = 0
    last_inference_ms: int = 0
    rows: int = 0
    runs: int = 0
    elements: int = 0
    padding: int = 0
    rejections: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(Cause, 0))
    expired: int = 0
    cancelled: int = 0
    failed: int = 0
    on_time: int = 0
    late: int = 0
    hits: list[int] = field(default_factory=lambda: [0, 0])
    misses: list[int] = field(default_factory=lambda: [0, 0])
    fail_ns: int = 0
    stalled: int = 0
    restarts: int = 0
    batches: dict[int, list[int]] = field(default_factory=dict)
    triggers: dict[str, int] = field(default_factory=lambda: {t.value: 0 for t in Trigger})
    stages: dict[str, Histogram] = field(default_factory=_stages)
    request_seconds: Histogram = field(default_factory=spans)
    run_seconds: Histogram = field(default_factory=spans)
    cost_seconds: Histogram = field(default_factory=spans)
    slack_seconds: Histogram = field(default_factory=spans)
    batch_rows: Histogram = field(default_factory=lambda: Histogram(BATCH_BOUNDS))
    padding_ratio: Histogram = field(default_factory=lambda: Histogram(RATIO_BOUNDS))
    error_ratio: Histogram = field(default_factory=lambda: Histogram(ERROR_BOUNDS))

    def on_run(self, event: RunEnded, *, padding: int, now_ms: int) -> None:
        """Fold one run with so many elements of padding."""
        run, outcome = event.run, event.outcome
        served: Sequence[Request] = run.requests
        if isinstance(outcome, Done):
            done = outcome
            self.error_ratio.add(done.ran_ns / (run.predicted_ns or 1))
        else:
            done = Done(ran_ns=event.end_ns - run.start_ns)
            served = self._without_guilty(event, outcome)
        elements = run.elements
        self.last_inference_ms = now_ms
        self.runs += 1
        self.elements += elements
        self.padding += padding
        self.triggers[run.trigger.value] += 1
        self.batch_rows.add(run.rows)
        self.padding_ratio.add(padding / elements)
        self.run_seconds.add(done.ran_ns)
        self.cost_seconds.add(run.predicted_ns)
        deadline_ns = min([request.deadline_ns for request in run.requests])
        if deadline_ns < NEVER_NS:
            self.slack_seconds.add(max(0, deadline_ns - run.start_ns - run.predicted_ns))
        self._add_requests(served, run.start_ns, event.end_ns)
        self._add_stages(run.rows, len(served), done)

    def on_lost(self, request: Request, at_ns: int) -> None:
        """A request was not answered with outputs."""
        self.fail_ns += at_ns - request.arrival_ns

    def on_hit(self, took_ns: int, total_ns: int) -> None:
        """A kept answer was found, and given so long after the request had come."""
        self.hits[0] += 1
        self.hits[1] += took_ns
        self.on_time += 1
        self.request_seconds.add(total_ns)

    def _without_guilty(self, event: RunEnded, outcome: Failed) -> Sequence[Request]:
        guilty, expired = frozenset(outcome.guilty), frozenset(outcome.expired)
        self.expired += len(expired)
        self.failed += len(guilty - expired)
        for request in event.run.requests:
            if request.id in guilty:
                self.on_lost(request, event.end_ns)
        return [request for request in event.run.requests if request.id not in guilty]

    def _add_requests(self, served: Sequence[Request], start_ns: int, end_ns: int) -> None:
        # The one loop that a request costs anything in: no calls but three of bisect.
        took, came, queued = self.request_seconds, self.stages["receive"], self.stages["queue"]
        took_counts, came_counts, queued_counts = took.counts, came.counts, queued.counts
        arrivals_ns = entries_ns = rows = late = 0
        for request in served:
            arrival_ns = request.arrival_ns
            entered_ns = request.entered_ns or arrival_ns
            took_counts[bisect_left(SPANS_NS, end_ns - arrival_ns)] += 1
            came_counts[bisect_left(SPANS_NS, entered_ns - arrival_ns)] += 1
            queued_counts[bisect_left(SPANS_NS, start_ns - entered_ns)] += 1
            arrivals_ns += arrival_ns
            entries_ns += entered_ns
            rows += request.rows
            if request.deadline_ns < end_ns:
                late += 1
        count = len(served)
        took.total += count * end_ns - arrivals_ns
        came.total += entries_ns - arrivals_ns
        queued.total += count * start_ns - entries_ns
        self.rows += rows
        self.late += late
        self.on_time += count - late

    def _add_stages(self, rows: int, count: int, done: Done) -> None:
        infer_ns = done.ran_ns - done.assemble_ns - done.split_ns
        stages = self.stages
        stages["assemble"].add(done.assemble_ns, count)
        stages["run"].add(infer_ns, count)
        stages["split"].add(done.split_ns, count)
        batch = self.batches.get(rows)
        if batch is None:
            batch = self.batches[rows] = [0, 0, 0, 0]
        batch[0] += 1
        batch[1] += done.assemble_ns
        batch[2] += infer_ns
        batch[3] += done.split_ns

    @property
    def rejected(self) -> int:
        """Requests that were turned away, whatever the cause."""
        return sum(self.rejections.values())

    @property
    def answered(self) -> int:
        """Requests that got their outputs."""
        return self.on_time + self.late

    @property
    def model(self) -> str:
        """The model's name: of a version beside others the version stands in `name` as well."""
        return self.name.removesuffix(f"/{self.version}")

    def as_v2(self) -> dict[str, Any]:
        """As an entry of `model_stats`."""
        answered = self.answered
        ran = answered - self.hits[0]
        lost = self.failed + self.rejected + self.expired + self.cancelled
        stages = self.stages
        return {
            "name": self.model,
            "version": self.version,
            "last_inference": self.last_inference_ms,
            "inference_count": self.rows,
            "execution_count": self.runs,
            "inference_stats": {
                "success": _timed(answered, self.request_seconds.total),
                "fail": _timed(lost, self.fail_ns),
                "queue": _timed(ran, stages["queue"].total),
                "compute_input": _timed(ran, stages["assemble"].total),
                "compute_infer": _timed(ran, stages["run"].total),
                "compute_output": _timed(ran, stages["split"].total),
                "cache_hit": _timed(*self.hits),
                "cache_miss": _timed(*self.misses),
            },
            "response_stats": {},
            "batch_stats": [
                {
                    "batch_size": size,
                    "compute_input": _timed(runs, assemble_ns),
                    "compute_infer": _timed(runs, infer_ns),
                    "compute_output": _timed(runs, split_ns),
                }
                for size, (runs, assemble_ns, infer_ns, split_ns) in sorted(self.batches.items())
            ],
            "memory_usage": [],
        }


def _timed(count: int, ns: float) -> dict[str, int]:
    return {"count": count, "ns": int(ns)}


class Statistics:
    """All models'.

    Attributes:
        models: By name.
        costs: What each model and tenant used.
        machine: Of the machine that they all run on.
        cache_bytes: What kept answers take now.
        watchers: Called with each run that ended, as long as somebody looks.
        spans: What became of the spans of traced requests.
        lines: And of the lines of the log.
    """

    def __init__(self, *, unix_ms: Callable[[], int]) -> None:
        self._unix_ms = unix_ms
        self.models: dict[str, ModelStatistics] = {}
        self._of_lanes: dict[str, ModelStatistics] = {}
        self.costs = Costs()
        self.machine = Machine()
        self.cache_bytes = 0
        self.watchers: list[Callable[[RunEnded], None]] = []
        self.spans = Tally()
        self.lines = Tally()

    def add_model(
        self, name: str, version: str, *, lanes: str | None = None, load_ns: int = 0
    ) -> None:
        """All series of a model are there from its load, at zero.

        Args:
            name: What is known of it goes on, if there is anything.
            version: The served one.
            lanes: As what events name it, if not by its name.
            load_ns: How long it took to load.
        """
        found = self.models.get(name)
        if found is None:
            found = self.models[name] = ModelStatistics(name, version)
        found.version, found.load_ns = version, load_ns
        self._of_lanes[lanes or name] = found
        self.costs.add_model(name, lanes=lanes)

    def drop_lanes(self, lanes: str) -> None:
        """No event will come from these any more; what was counted stays."""
        del self._of_lanes[lanes]
        self.costs.drop_lanes(lanes)

    def note_sent(self, lanes: str, count: int, span_ns: int) -> None:
        """So many results of a run were handed to their connections, one by one, in this time."""
        if count:
            self._of_lanes[lanes].stages["send"].add_even(max(1, span_ns), count)

    def note_faults(self, lanes: str, *, stalled: int, restarted: int) -> None:
        """So many instances hang, and so many processes more took the place of another."""
        found = self._of_lanes[lanes]
        found.stalled = stalled
        found.restarts += restarted

    def note_hit(self, lanes: str, took_ns: int, total_ns: int) -> None:
        """A kept answer was found, and given so long after the request had come."""
        self._of_lanes[lanes].on_hit(took_ns, total_ns)

    def note_miss(self, lanes: str, took_ns: int) -> None:
        """No answer was kept for a request."""
        misses = self._of_lanes[lanes].misses
        misses[0] += 1
        misses[1] += took_ns

    def note_trace(self, event: RunEnded, request_id: int, trace: str) -> None:
        """A request of a run was traced: it may stand for those that took as long."""
        found = self._of_lanes.get(event.run.model)
        for request in event.run.requests:
            if found is not None and request.id == request_id:
                took_ns = event.end_ns - request.arrival_ns
                found.request_seconds.exemplify(took_ns, trace, self._unix_ms())

    def name_of(self, lanes: str) -> str:
        """Under which name lanes are counted."""
        return self._of_lanes[lanes].name

    def on_event(self, event: Event) -> None:
        """Fold one event of the core."""
        match event:
            case RunEnded(run):
                padding, now_ms = run.padding, self._unix_ms()
                self._of_lanes[run.model].on_run(event, padding=padding, now_ms=now_ms)
                self.costs.on_run(event, padding=padding)
                for watcher in self.watchers:
                    watcher(event)
            case RequestRejected(request, cause=cause):
                self._of_lanes[request.model].rejections[cause] += 1
            case RequestExpired(request, at_ns):
                model = self._of_lanes[request.model]
                model.expired += 1
                model.on_lost(request, at_ns)
            case RequestCancelled(request, at_ns):
                model = self._of_lanes[request.model]
                model.cancelled += 1
                model.on_lost(request, at_ns)

    def on_pipeline(self, event: RunEnded) -> None:
        """Fold a request that was made of others, whose runs have been counted on their own."""
        model = self._of_lanes[event.run.model]
        if isinstance(event.outcome, Done):
            model.on_run(event, padding=0, now_ms=self._unix_ms())
            return
        for request in event.run.requests:
            model.failed += 1
            model.on_lost(request, event.end_ns)

    def as_v2(self, name: str | None = None) -> dict[str, Any]:
        """The statistics extension's answer, for one model or all."""
        models = [each for each in self.models.values() if name in {None, each.model}]
        return {"model_stats": [model.as_v2() for model in models]}
