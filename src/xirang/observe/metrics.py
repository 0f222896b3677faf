"""Prometheus text, written by hand: Triton's names must not get the `_total` a library would add.

Own series are in base units with the prefix `xirang_`; those with `nv_` have the names, labels and
number format that dashboards for Triton expect.
"""

from collections.abc import Iterator

from xirang.core.snapshot import ModelSnapshot, Snapshot
from xirang.observe.statistics import Histogram, ModelStatistics, Statistics

_COUNTERS = {
    "xirang_elements_total": "Elements of all runs, padding included.",
    "xirang_padding_elements_total": "Elements of all runs that were padding.",
    "xirang_rejected_total": "Requests turned away at the door.",
    "xirang_expired_total": "Requests given up because their budget could not be kept.",
    "xirang_cancelled_total": "Requests whose client went away while they waited.",
}
_HISTOGRAMS = {
    "xirang_request_duration_seconds": "Arrival to the end of the run.",
    "xirang_queue_seconds": "Arrival to the start of the run.",
    "xirang_run_seconds": "Assembly, model and split of a run.",
    "xirang_batch_rows": "Rows of a run.",
}
_GAUGES = {
    "xirang_waiting": "Requests in the lanes.",
    "xirang_running": "Runs on the device.",
    "xirang_demand": "Arriving work divided by the device's capacity.",
    "xirang_window_seconds": "Longest a request is kept waiting for company now.",
    "xirang_threshold_seconds": "Waiting work that lets a batch go at once.",
}
_TRITON = {
    "nv_inference_request_success": "Number of successful inference requests, all batch sizes",
    "nv_inference_request_failure": "Number of failed inference requests, all batch sizes",
    "nv_inference_count": "Number of inferences performed",
    "nv_inference_exec_count": "Number of model executions performed",
    "nv_inference_request_duration_us": "Cumulative inference request duration in microseconds",
    "nv_inference_queue_duration_us": "Cumulative inference queuing duration in microseconds",
    "nv_inference_compute_input_duration_us": "Cumulative compute input duration in microseconds",
    "nv_inference_compute_infer_duration_us": "Cumulative compute infer duration in microseconds",
    "nv_inference_compute_output_duration_us": "Cumulative inference output duration, microseconds",
}


def render(statistics: Statistics, snapshot: Snapshot) -> str:
    """All series as text in the exposition format 0.0.4."""
    return "\n".join(_lines(statistics, snapshot)) + "\n"


def _lines(statistics: Statistics, snapshot: Snapshot) -> Iterator[str]:
    models = list(statistics.models.values())
    for name, text in _COUNTERS.items():
        yield from _head(name, text, "counter")
        yield from (f"{name}{_labels(m)} {_counter(m, name)}" for m in models)
    yield from _head("xirang_runs_total", "Runs by what made them go.", "counter")
    for m in models:
        for trigger, count in sorted(m.triggers.items()):
            yield f'xirang_runs_total{{model="{_escape(m.name)}",trigger="{trigger}"}} {count}'
    for name, text in _HISTOGRAMS.items():
        yield from _head(name, text, "histogram")
        for m in models:
            yield from _histogram(name, m.name, _histogram_of(m, name))
    for name, text in _GAUGES.items():
        yield from _head(name, text, "gauge")
        yield from (
            f'{name}{{model="{_escape(s.model)}"}} {_gauge(s, name)}' for s in snapshot.models
        )
    for name, text in _TRITON.items():
        yield from _head(name, text, "counter")
        for m in models:
            yield from _triton(name, m)
    yield from _head(
        "nv_inference_pending_request_count", "Instantaneous number of pending requests", "gauge"
    )
    for s in snapshot.models:
        version = statistics.models[s.model].version
        labels = f'{{model="{_escape(s.model)}",version="{version}"}}'
        yield f"nv_inference_pending_request_count{labels} {s.waiting}"


def _head(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _labels(model: ModelStatistics) -> str:
    return f'{{model="{_escape(model.name)}"}}'


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _counter(model: ModelStatistics, name: str) -> int:
    return {
        "xirang_elements_total": model.elements,
        "xirang_padding_elements_total": model.padding,
        "xirang_rejected_total": model.rejected,
        "xirang_expired_total": model.expired,
        "xirang_cancelled_total": model.cancelled,
    }[name]


def _histogram_of(model: ModelStatistics, name: str) -> Histogram:
    return {
        "xirang_request_duration_seconds": model.request_seconds,
        "xirang_queue_seconds": model.queue_seconds,
        "xirang_run_seconds": model.run_seconds,
        "xirang_batch_rows": model.batch_rows,
    }[name]


def _histogram(name: str, model: str, histogram: Histogram) -> Iterator[str]:
    total = 0
    label = f'model="{_escape(model)}"'
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        total += count
        yield f'{name}_bucket{{{label},le="{bound}"}} {total}'
    yield f"{name}_sum{{{label}}} {histogram.total:.9g}"
    yield f"{name}_count{{{label}}} {total}"


def _gauge(model: ModelSnapshot, name: str) -> float:
    return {
        "xirang_waiting": model.waiting,
        "xirang_running": model.running,
        "xirang_demand": round(model.demand, 6),
        "xirang_window_seconds": model.window_ns / 1e9,
        "xirang_threshold_seconds": model.threshold_ns / 1e9,
    }[name]


def _triton(name: str, model: ModelStatistics) -> Iterator[str]:
    tail = f'version="{model.version}"}}'
    labels = f'{{model="{_escape(model.name)}"'
    if name == "nv_inference_request_failure":
        backend = model.fail.count - model.rejected - model.expired - model.cancelled
        reasons = {
            "BACKEND": backend,
            "CANCELED": model.cancelled,
            "OTHER": 0,
            "REJECTED": model.rejected + model.expired,
        }
        for reason, count in reasons.items():
            yield f'{name}{labels},reason="{reason}",{tail} {count}'
        return
    value = {
        "nv_inference_request_success": model.success.count,
        "nv_inference_count": model.rows,
        "nv_inference_exec_count": model.runs,
        "nv_inference_request_duration_us": model.success.ns // 1000,
        "nv_inference_queue_duration_us": model.queue.ns // 1000,
        "nv_inference_compute_input_duration_us": model.compute_input.ns // 1000,
        "nv_inference_compute_infer_duration_us": model.compute_infer.ns // 1000,
        "nv_inference_compute_output_duration_us": model.compute_output.ns // 1000,
    }[name]
    yield f"{name}{labels},{tail} {value}"
