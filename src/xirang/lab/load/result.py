"""What a point of a load run found: the samples of its requests and their summary."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xirang.lab.load.client import Fault
from xirang.lab.load.plan import SECOND_NS, ArrivalPlan, Trace
from xirang.lab.load.scrape import ServerFigures

CURVE_POINTS = 200
SCATTER_POINTS = 5_000


@dataclass(slots=True, eq=False)
class Samples:
    """One entry a finished request, in columns: a list of objects would cost the client more.

    Attributes:
        due_ns: Intended send time, from the start of the point.
        sent_ns: Actual send time.
        done_ns: When the answer was whole or the fault known.
        outcome: HTTP status, or a negative `Fault`.
    """

    due_ns: "array[int]" = field(default_factory=lambda: array("q"))
    sent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    done_ns: "array[int]" = field(default_factory=lambda: array("q"))
    outcome: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, *, due_ns: int, sent_ns: int, done_ns: int, outcome: int) -> None:
        """Note one finished request."""
        self.due_ns.append(due_ns)
        self.sent_ns.append(sent_ns)
        self.done_ns.append(done_ns)
        self.outcome.append(outcome)

    def __len__(self) -> int:
        return len(self.outcome)


@dataclass(frozen=True, slots=True)
class Spent:
    """What the client itself used, and how the point ended.

    Attributes:
        wall_ns: From the first send to the last outcome.
        cpu_ns: Processor time of the client's process meanwhile.
        unfinished: Requests that were due and had no outcome when the point ended.
        backlog_max: Most requests that waited for a free connection.
        note: Why the point ended early; empty where it did not.
    """

    wall_ns: int
    cpu_ns: int
    unfinished: int = 0
    backlog_max: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class PointResult:
    """One point of a load run; times in milliseconds, rates a second.

    Attributes:
        label: The arrivals in words.
        rate_asked: Intended rate; None for a closed loop.
        sent: Measured requests that have an outcome.
        ok: Answers with a status of 2xx among them.
        statuses: Answers by HTTP status.
        faults: Requests without an answer, by reason.
        throughput: Answers 2xx that came inside the window, a second.
        goodput: The same, within the latency budget; None without a budget.
        p50_ms: Median latency of the answers 2xx, from the intended send time.
        p90_ms: Latency that nine in ten stayed within.
        p99_ms: Latency that 99 in 100 stayed within.
        latency_max_ms: The slowest answer.
        lateness_p99_ms: How late requests left, behind their intended time.
        client_cpu: Processor time of this client over wall time: near 1 it measures itself.
        unfinished: Requests without an outcome when the point ended.
        backlog_max: Most requests that waited for a free connection.
        note: Why the point ended early, or empty.
        server: The server's own figures of the interval, where it gives them.
        latency_curve: Latency at evenly spaced quantiles 0 … 1.
        latency_over_time: A sample of (seconds into the window, latency in ms).
    """

    label: str
    rate_asked: float | None
    sent: int
    ok: int
    statuses: dict[int, int]
    faults: dict[str, int]
    throughput: float
    goodput: float | None
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    latency_max_ms: float | None
    lateness_p99_ms: float | None
    client_cpu: float
    unfinished: int = 0
    backlog_max: int = 0
    note: str = ""
    server: ServerFigures | None = None
    latency_curve: tuple[float, ...] = ()
    latency_over_time: tuple[tuple[float, float], ...] = ()

    @property
    def errors(self) -> int:
        """Measured requests without an answer 2xx."""
        return self.sent - self.ok + self.unfinished


@dataclass(frozen=True, slots=True)
class _Columns:
    """The measured part of the samples as numpy arrays."""

    due_ns: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    outcome: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> "_Columns":
        return _Columns(
            self.due_ns[mask], self.sent_ns[mask], self.done_ns[mask], self.outcome[mask]
        )


def summarize(
    plan: ArrivalPlan, samples: Samples, spent: Spent, server: ServerFigures | None = None
) -> PointResult:
    """Fold the samples of a point.

    A request counts as measured when it was due inside the window. Throughput counts
    the answers that came inside the window, so a backlog at its end does not inflate it.
    """
    columns = _Columns(
        *(np.asarray(c, np.int64) for c in (samples.due_ns, samples.sent_ns)),
        *(np.asarray(c, np.int64) for c in (samples.done_ns, samples.outcome)),
    )
    measured = columns.where(columns.due_ns >= plan.warmup_ns)
    good = (measured.outcome >= 200) & (measured.outcome < 300)
    answered = measured.where(good)
    latency_ms = (answered.done_ns - answered.due_ns) / 1e6
    marks = _quantiles(latency_ms, (0.5, 0.9, 0.99, 1.0))
    throughput, goodput = _rates(plan, columns, spent)
    statuses, faults = _outcomes(measured.outcome)
    return PointResult(
        label=plan.arrivals.label,
        rate_asked=plan.rate_asked,
        sent=len(measured.outcome),
        ok=int(good.sum()),
        statuses=statuses,
        faults=faults,
        throughput=throughput,
        goodput=goodput,
        p50_ms=marks[0],
        p90_ms=marks[1],
        p99_ms=marks[2],
        latency_max_ms=marks[3],
        lateness_p99_ms=_quantiles((measured.sent_ns - measured.due_ns) / 1e6, (0.99,))[0],
        client_cpu=spent.cpu_ns / max(spent.wall_ns, 1),
        unfinished=spent.unfinished,
        backlog_max=spent.backlog_max,
        note=spent.note,
        server=server,
        latency_curve=_curve(latency_ms),
        latency_over_time=_scatter((answered.due_ns - plan.warmup_ns) / SECOND_NS, latency_ms),
    )


def as_dict(result: PointResult) -> dict[str, Any]:
    """The result for a JSON file: everything but the drawn curves."""
    names = [name for name in PointResult.__slots__ if not name.startswith("latency_")]
    values = {name: getattr(result, name) for name in names}
    values["latency_max_ms"] = result.latency_max_ms
    values["statuses"] = {str(status): count for status, count in result.statuses.items()}
    values["errors"] = result.errors
    return values


def _rates(plan: ArrivalPlan, columns: _Columns, spent: Spent) -> tuple[float, float | None]:
    """(throughput, goodput) of the window; it ends earlier when the point did."""
    ran_short = spent.note or plan.request_count is not None or isinstance(plan.arrivals, Trace)
    end_ns = min(plan.end_ns, spent.wall_ns) if ran_short else plan.end_ns
    span_s = max(end_ns - plan.warmup_ns, 1) / SECOND_NS
    inside = columns.where((columns.done_ns >= plan.warmup_ns) & (columns.done_ns <= end_ns))
    good = (inside.outcome >= 200) & (inside.outcome < 300)
    throughput = int(good.sum()) / span_s
    if plan.budget_ms is None:
        return throughput, None
    in_budget = inside.done_ns - inside.due_ns <= plan.budget_ms * 1e6
    return throughput, int((good & in_budget).sum()) / span_s


def _outcomes(outcome: NDArray[np.int64]) -> tuple[dict[int, int], dict[str, int]]:
    counts = Counter(int(each) for each in outcome)
    statuses = {each: count for each, count in sorted(counts.items()) if each > 0}
    faults = {Fault(e).name.lower(): count for e, count in sorted(counts.items()) if e < 0}
    return statuses, faults


def _quantiles(values: NDArray[np.float64], marks: tuple[float, ...]) -> list[float | None]:
    if not len(values):
        return [None] * len(marks)
    return [float(value) for value in np.quantile(values, marks)]


def _curve(latency_ms: NDArray[np.float64]) -> tuple[float, ...]:
    if not len(latency_ms):
        return ()
    marks = np.quantile(latency_ms, np.linspace(0, 1, CURVE_POINTS + 1))
    return tuple(np.round(marks, 4).tolist())


def _scatter(
    instants_s: NDArray[np.float64], latency_ms: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    # Every k-th request in the order of their answers: fair over time, no randomness needed.
    step = max(1, -(-len(latency_ms) // SCATTER_POINTS))
    pairs = zip(np.round(instants_s[::step], 4), np.round(latency_ms[::step], 4), strict=True)
    return tuple((float(instant), float(latency)) for instant, latency in pairs)
