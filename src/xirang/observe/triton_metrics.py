"""The same counts under Triton's names, labels and number format, for dashboards that exist."""

from collections.abc import Callable

from xirang.core.snapshot import Snapshot
from xirang.observe.exposition import Page, labels_of
from xirang.observe.statistics import ModelStatistics, Statistics

_COUNTERS: dict[str, tuple[str, Callable[[ModelStatistics], int]]] = {
    "nv_inference_request_success": (
        "Number of successful inference requests, all batch sizes",
        lambda m: m.answered,
    ),
    "nv_inference_count": ("Number of inferences performed", lambda m: m.rows),
    "nv_inference_exec_count": ("Number of model executions performed", lambda m: m.runs),
    "nv_inference_request_duration_us": (
        "Cumulative inference request duration in microseconds",
        lambda m: int(m.request_seconds.total) // 1000,
    ),
    "nv_inference_queue_duration_us": (
        "Cumulative inference queuing duration in microseconds",
        lambda m: int(m.stages["queue"].total) // 1000,
    ),
    "nv_inference_compute_input_duration_us": (
        "Cumulative compute input duration in microseconds",
        lambda m: int(m.stages["assemble"].total) // 1000,
    ),
    "nv_inference_compute_infer_duration_us": (
        "Cumulative compute inference duration in microseconds",
        lambda m: int(m.stages["run"].total) // 1000,
    ),
    "nv_inference_compute_output_duration_us": (
        "Cumulative compute output duration in microseconds",
        lambda m: int(m.stages["split"].total) // 1000,
    ),
    "nv_cache_num_hits_per_model": ("Number of cache hits per model", lambda m: m.hits[0]),
    "nv_cache_num_misses_per_model": ("Number of cache misses per model", lambda m: m.misses[0]),
    "nv_cache_hit_duration_per_model": (
        "Total cache hit duration per model, in microseconds",
        lambda m: m.hits[1] // 1000,
    ),
    "nv_cache_miss_duration_per_model": (
        "Total cache miss duration per model, in microseconds",
        lambda m: m.misses[1] // 1000,
    ),
}
_FAILURE = "nv_inference_request_failure"
_PENDING = "nv_inference_pending_request_count"
_LOAD = "nv_model_load_duration_secs"


def write_triton(page: Page, statistics: Statistics, snapshot: Snapshot) -> None:
    """Write all `nv_` series; labels stand in alphabetical order, as Triton's do."""
    models = list(statistics.models.values())
    labels = {m.name: labels_of(model=m.model, version=m.version) for m in models}
    for name, (text, value) in _COUNTERS.items():
        page.family(name, "counter", text)
        page.samples(name, [(labels[m.name], value(m)) for m in models])
    page.family(_FAILURE, "counter", "Number of failed inference requests, all batch sizes")
    for m in models:
        page.samples(
            _FAILURE,
            [
                (labels_of(model=m.model, reason=reason, version=m.version), count)
                for reason, count in _reasons(m).items()
            ],
        )
    page.family(_PENDING, "gauge", "Instantaneous number of pending requests awaiting execution")
    page.samples(_PENDING, [(labels[s.model], s.waiting) for s in snapshot.models])
    page.family(_LOAD, "gauge", "Model load time in seconds")
    page.samples(_LOAD, [(labels[m.name], round(m.load_ns / 1e9, 6)) for m in models])
    for name, (text, figure) in statistics.machine.figures().items():
        page.family(name, "gauge", text)
        page.samples(name, [("", figure)])


def _reasons(model: ModelStatistics) -> dict[str, int]:
    return {
        "BACKEND": model.failed,
        "CANCELED": model.cancelled,
        "OTHER": 0,
        "REJECTED": model.rejected + model.expired,
    }
