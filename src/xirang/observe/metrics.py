"""The metrics page: own series in base units with the prefix `xirang_`, and Triton's."""

from collections.abc import Callable, Iterator, Sequence

from xirang.core.event import Function
from xirang.core.snapshot import DeviceSnapshot, LaneSnapshot, ModelSnapshot, Snapshot
from xirang.observe.exposition import Page, labels_of
from xirang.observe.histogram import Histogram
from xirang.observe.memory_metrics import write_memory
from xirang.observe.statistics import ModelStatistics, Statistics
from xirang.observe.triton_metrics import write_triton

Samples = Iterator[tuple[str, float]]

_COUNTERS: dict[str, tuple[str, Callable[[ModelStatistics], int]]] = {
    "xirang_on_time_total": ("Requests answered within their budget.", lambda m: m.on_time),
    "xirang_late_total": ("Requests answered after their budget was spent.", lambda m: m.late),
    "xirang_cache_hits_total": (
        "Requests whose answer was kept from one before.",
        lambda m: m.hits[0],
    ),
    "xirang_cache_misses_total": ("Requests for which no answer was kept.", lambda m: m.misses[0]),
    "xirang_failed_total": ("Requests for which the model raised.", lambda m: m.failed),
    "xirang_expired_total": (
        "Requests given up because their budget could not be kept.",
        lambda m: m.expired,
    ),
    "xirang_cancelled_total": (
        "Requests whose client went away while they waited.",
        lambda m: m.cancelled,
    ),
    "xirang_elements_total": ("Elements of all runs, padding included.", lambda m: m.elements),
    "xirang_padding_elements_total": (
        "Elements of all runs that were padding.",
        lambda m: m.padding,
    ),
}
_HISTOGRAMS: dict[str, tuple[str, Callable[[ModelStatistics], Histogram]]] = {
    "xirang_request_duration_seconds": (
        "Arrival to the end of the run.",
        lambda m: m.request_seconds,
    ),
    "xirang_run_seconds": ("Assembly, model and split of a run.", lambda m: m.run_seconds),
    "xirang_run_cost_seconds": ("What a run was expected to take.", lambda m: m.cost_seconds),
    "xirang_run_error_ratio": (
        "How long a run took, divided by what it was expected to take.",
        lambda m: m.error_ratio,
    ),
    "xirang_run_slack_seconds": (
        "What the most pressing request of a run had to spare when it was cut.",
        lambda m: m.slack_seconds,
    ),
    "xirang_run_padding_ratio": ("Padding's share of a run.", lambda m: m.padding_ratio),
    "xirang_batch_rows": ("Rows of a run.", lambda m: m.batch_rows),
}
_GAUGES: dict[str, tuple[str, Callable[[ModelSnapshot], float]]] = {
    "xirang_waiting": ("Requests in the lanes.", lambda s: s.waiting),
    "xirang_fast_waiting": ("Requests in the fast lane.", lambda s: s.fast_waiting),
    "xirang_running": ("Runs on the device.", lambda s: s.running),
    "xirang_waiting_work_seconds": (
        "Device time that what waits is expected to take.",
        lambda s: s.work_ns / 1e9,
    ),
    "xirang_demand": (
        "Arriving work divided by the device's capacity.",
        lambda s: round(s.demand, 6),
    ),
    "xirang_window_seconds": (
        "Longest a request is kept waiting for company now.",
        lambda s: s.window_ns / 1e9,
    ),
    "xirang_threshold_seconds": (
        "Waiting work that lets a batch go at once.",
        lambda s: s.threshold_ns / 1e9,
    ),
}
_LANE_GAUGES: dict[str, tuple[str, Callable[[ModelSnapshot, LaneSnapshot, int], float]]] = {
    "xirang_lane_depth": ("Requests in a lane.", lambda s, lane, now_ns: lane.depth),
    "xirang_lane_oldest_seconds": (
        "How long the oldest request of a lane has waited.",
        lambda s, lane, now_ns: (now_ns - lane.oldest_arrival_ns) / 1e9,
    ),
    "xirang_lane_wait_seconds": (
        "Device time of the lane and of all that are at least as important.",
        lambda s, lane, now_ns: predicted_wait_ns(s, lane) / 1e9,
    ),
}


_DEVICE_GAUGES: dict[str, tuple[str, Callable[[DeviceSnapshot], float]]] = {
    "xirang_pressure": (
        "Predicted queueing time divided by budget, a fading mean.",
        lambda d: round(d.pressure, 6),
    ),
    "xirang_overload_level": ("Level of overload, 0 to 3.", lambda d: d.level),
    "xirang_shed_ratio": ("Share of all work that is turned away.", lambda d: round(d.shed, 6)),
    "xirang_fast_ratio": (
        "Share of its time that the fast lane was given lately.",
        lambda d: round(d.fast_share, 6),
    ),
}


def render(
    statistics: Statistics, snapshot: Snapshot, *, now_ns: int = 0, is_open: bool = False
) -> str:
    """All series as text.

    Args:
        statistics: What was counted.
        snapshot: What is.
        now_ns: When the snapshot was taken.
        is_open: In OpenMetrics' format instead of Prometheus' own.
    """
    page = Page(is_open=is_open)
    models = list(statistics.models.values())
    _write_counted(page, models)
    _write_costs(page, statistics)
    _write_told(page, statistics)
    _write_present(page, snapshot, now_ns)
    write_memory(page, snapshot.memory)
    page.family("xirang_cache_bytes", "gauge", "What all kept answers take.")
    page.samples("xirang_cache_bytes", [("", statistics.cache_bytes)])
    write_triton(page, statistics, snapshot)
    return page.text()


def _write_counted(page: Page, models: Sequence[ModelStatistics]) -> None:
    labels = [labels_of(model=m.name) for m in models]
    for name, (text, counted) in _COUNTERS.items():
        page.family(name, "counter", text)
        page.samples(name, zip(labels, map(counted, models), strict=True))
    name = "xirang_rejected_total"
    page.family(name, "counter", "Requests turned away at the door, by the reason.")
    for m in models:
        page.samples(
            name,
            [
                (labels_of(model=m.name, reason=cause.name.lower()), count)
                for cause, count in m.rejections.items()
            ],
        )
    page.family("xirang_runs_total", "counter", "Runs by what made them go.")
    for m in models:
        page.samples(
            "xirang_runs_total",
            [(labels_of(model=m.name, trigger=why), count) for why, count in m.triggers.items()],
        )
    for name, (text, counted_in) in _HISTOGRAMS.items():
        page.family(name, "histogram", text)
        for label, m in zip(labels, models, strict=True):
            page.histogram(name, label, counted_in(m))
    name = "xirang_stage_seconds"
    page.family(name, "histogram", "How long an answered request was in each stage.")
    for m in models:
        for stage, histogram in m.stages.items():
            page.histogram(name, labels_of(model=m.name, stage=stage), histogram)


def _write_costs(page: Page, statistics: Statistics) -> None:
    name = "xirang_device_seconds_total"
    page.family(name, "counter", "Device time by who is charged for it.")
    for model, accounts in statistics.costs.accounts.items():
        page.samples(
            name,
            [
                (labels_of(model=model, tenant=tenant), round(account.device_ns / 1e9, 9))
                for tenant, account in accounts.items()
            ],
        )


def _write_told(page: Page, statistics: Statistics) -> None:
    for name, text, tally in (
        (
            "xirang_spans_total",
            "Spans of traced requests, by what became of them.",
            statistics.spans,
        ),
        ("xirang_log_lines_total", "Lines of the log, by what became of them.", statistics.lines),
    ):
        page.family(name, "counter", text)
        results = (("sent", tally.sent), ("dropped", tally.dropped), ("failed", tally.failed))
        page.samples(name, [(labels_of(result=result), count) for result, count in results])


def _write_present(page: Page, snapshot: Snapshot, now_ns: int) -> None:
    for name, (text, value) in _GAUGES.items():
        page.family(name, "gauge", text)
        page.samples(name, [(labels_of(model=s.model), value(s)) for s in snapshot.models])
    for name, (text, value_of) in _LANE_GAUGES.items():
        page.family(name, "gauge", text)
        for s in snapshot.models:
            page.samples(name, [(_lane(s, lane), value_of(s, lane, now_ns)) for lane in s.lanes])

    for name, (text, figure) in _DEVICE_GAUGES.items():
        page.family(name, "gauge", text)
        page.samples(name, [(labels_of(device=d.device), figure(d)) for d in snapshot.devices])
    name = "xirang_function_off"
    page.family(name, "gauge", "1 while overload has a function switched off.")
    for d in snapshot.devices:
        page.samples(
            name,
            [
                (labels_of(device=d.device, function=each.value), float(each in d.off))
                for each in Function
            ],
        )


def _lane(model: ModelSnapshot, lane: LaneSnapshot) -> str:
    return labels_of(
        model=model.model, priority=str(lane.priority), cost_class=str(lane.cost_class)
    )


def predicted_wait_ns(model: ModelSnapshot, lane: LaneSnapshot) -> int:
    """Device time until what waits in a lane has run, if its betters go first.

    A lane's part of the model's waiting work is its requests, each as heavy as its cost class.
    """
    weights = [(each.priority, each.depth << each.cost_class) for each in model.lanes]
    before = sum(weight for priority, weight in weights if priority <= lane.priority)
    return model.work_ns * before // sum(weight for _, weight in weights)
