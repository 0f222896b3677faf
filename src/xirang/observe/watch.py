"""A live look at the server: frames for a dashboard, made only while somebody looks.

A frame carries counts since the start, as the metrics page does, so that whoever looks can make
rates and percentiles of any interval; and what happened since the last frame.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import Any

from xirang.core.event import Function, RunEnded
from xirang.core.snapshot import DeviceSnapshot, MemorySnapshot, ModelSnapshot, Snapshot
from xirang.observe.explain import explain
from xirang.observe.histogram import SPANS_NS
from xirang.observe.metrics import predicted_wait_ns
from xirang.observe.statistics import BATCH_BOUNDS, ModelStatistics, Statistics

RUNS_KEPT_MAX = 2048
"""Most runs between two frames that slow requests are looked for in."""

RUNS_SHOWN_MAX = 300
SLOWEST = 8
MIB = 1 << 20


class Watch:
    """One look, from its making to `close`.

    Attributes:
        bounds: Upper bounds of the histograms in a frame.
    """

    bounds: Mapping[str, Sequence[float]] = {
        "spans_ms": [bound / 1e6 for bound in SPANS_NS],
        "batch_rows": BATCH_BOUNDS,
    }

    def __init__(self, statistics: Statistics, look: Callable[[], tuple[int, Snapshot]]) -> None:
        """Begin to look.

        Args:
            statistics: What is counted anyway.
            look: Gives the time and what is.
        """
        self._statistics = statistics
        self._look = look
        self._ended: deque[tuple[str, RunEnded]] = deque(maxlen=RUNS_KEPT_MAX)
        statistics.watchers.append(self._on_run)

    def close(self) -> None:
        """Look no more: runs leave no trace here from now on."""
        self._statistics.watchers.remove(self._on_run)

    def frame(self) -> dict[str, Any]:
        """What was counted, what is, and what happened since the last frame; JSON-able."""
        now_ns, snapshot = self._look()
        ended = list(self._ended)
        self._ended.clear()
        counted = self._statistics.models
        return {
            "now_ms": now_ns / 1e6,
            "is_draining": snapshot.is_draining,
            "is_off": any(Function.DASHBOARD in device.off for device in snapshot.devices),
            "devices": [_device(device) for device in snapshot.devices],
            "memory": _memory(snapshot.memory),
            "models": [
                _model(counted[each.model], each, self._device_ns(each.model), now_ns)
                for each in snapshot.models
            ],
            "runs": [_run(*each) for each in ended[-RUNS_SHOWN_MAX:]],
            "runs_left_out": max(0, len(ended) - RUNS_SHOWN_MAX),
            "slowest": _slowest(ended),
        }

    def _on_run(self, event: RunEnded) -> None:
        self._ended.append((self._statistics.name_of(event.run.model), event))

    def _device_ns(self, model: str) -> float:
        return sum(each.device_ns for each in self._statistics.costs.accounts[model].values())


def _model(
    counted: ModelStatistics, present: ModelSnapshot, device_ns: float, now_ns: int
) -> dict[str, Any]:
    return {
        "name": counted.name,
        "waiting": present.waiting,
        "running": present.running,
        "work_ms": present.work_ns / 1e6,
        "demand": present.demand,
        "window_ms": present.window_ns / 1e6,
        "threshold_ms": present.threshold_ns / 1e6,
        "lanes": [
            {
                "priority": lane.priority,
                "cost_class": lane.cost_class,
                "depth": lane.depth,
                "rows": lane.rows,
                "oldest_ms": (now_ns - lane.oldest_arrival_ns) / 1e6,
                "wait_ms": predicted_wait_ns(present, lane) / 1e6,
            }
            for lane in present.lanes
        ],
        "counts": {
            "on_time": counted.on_time,
            "late": counted.late,
            "failed": counted.failed,
            "rejected": counted.rejected,
            "expired": counted.expired,
            "cancelled": counted.cancelled,
            "runs": counted.runs,
            "rows": counted.rows,
            "elements": counted.elements,
            "padding": counted.padding,
            "device_ms": device_ns / 1e6,
        },
        "triggers": counted.triggers.copy(),
        "spans": {"total": counted.request_seconds.counts.copy()}
        | {stage: histogram.counts.copy() for stage, histogram in counted.stages.items()},
        "batch_rows": counted.batch_rows.counts.copy(),
    }


def _device(device: DeviceSnapshot) -> dict[str, Any]:
    return {
        "name": device.device,
        "pressure": device.pressure,
        "level": device.level,
        "shed": device.shed,
        "off": [function.value for function in device.off],
        "fast_share": device.fast_share,
    }


def _memory(memory: MemorySnapshot | None) -> dict[str, Any] | None:
    if memory is None:
        return None
    return {
        "capacity_mib": memory.capacity_bytes / MIB,
        "held_mib": memory.held_bytes / MIB,
        "shares": [
            {
                "name": share.model,
                "fixed_mib": share.fixed_bytes / MIB,
                "leased_mib": share.leased_bytes / MIB,
                "surplus_mib": share.surplus_bytes / MIB,
            }
            for share in memory.shares
        ],
    }


def _run(model: str, event: RunEnded) -> list[Any]:
    run = event.run
    return [
        model,
        run.instance,
        run.start_ns / 1e6,
        event.end_ns / 1e6,
        run.rows,
        run.length,
        run.trigger.value,
    ]


def _slowest(ended: list[tuple[str, RunEnded]]) -> list[dict[str, Any]]:
    """The slowest requests, at most one a run: its mates have waited no longer."""
    times = (
        (event.end_ns - min([request.arrival_ns for request in event.run.requests]), number)
        for number, (_, event) in enumerate(ended)
    )
    found = []
    for _, number in nlargest(SLOWEST, times):
        model, event = ended[number]
        request = min(event.run.requests, key=lambda each: each.arrival_ns)
        found.append(explain(event, request).as_json() | {"model": model})
    return found
