"""From what was seen of requests to spans, in OpenTelemetry's words where it has any.

A followed request is a span of the door's; a run is a span of its own, in a trace of its own, as it
belongs to all who shared it. Either links to the other.
"""

import re
from collections.abc import Sequence

from xirang.core.event import RunEnded
from xirang.core.run import Done
from xirang.observe.costs import device_ns
from xirang.observe.otlp import ERROR, INTERNAL, SERVER, UNSET, Event, Span, Value
from xirang.observe.trace_context import TraceContext
from xirang.observe.witness import Sighting

_MODEL = re.compile(r"(?<=/models/)[^/:]+")
_VERSION = re.compile(r"(?<=/versions/)[0-9]+")
_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
"""gRPC's statuses by their number."""

_FAULTS = frozenset(
    {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""Those that are the server's fault."""


def span_of_request(sighting: Sighting, *, epoch_ns: int) -> Span:
    """The span of a request.

    Args:
        sighting: What was seen of it; it is traced.
        epoch_ns: What to add to the engine's clock for nanoseconds since 1970.
    """
    assert sighting.context is not None
    is_http = sighting.door == "http"
    name, attributes = _http(sighting) if is_http else _grpc(sighting)
    if sighting.model:
        attributes["xirang.model"] = sighting.model
    if sighting.runs:
        event, request_id = sighting.runs[-1]
        attributes |= {"xirang.request": request_id, "xirang.run": event.run.id}
    status = str(sighting.status) if is_http else _CODES[sighting.status]
    is_fault = sighting.status >= 500 if is_http else status in _FAULTS
    if is_fault:
        attributes["error.type"] = status
    return Span(
        name,
        SERVER,
        sighting.context,
        sighting.begun_ns + epoch_ns,
        sighting.end_ns + epoch_ns,
        attributes,
        _stages(sighting, epoch_ns),
        sighting.links,
        ERROR if is_fault else UNSET,
    )


def span_of_run(
    event: RunEnded, context: TraceContext, links: Sequence[TraceContext], *, epoch_ns: int
) -> Span:
    """The span of a run.

    Args:
        event: The run, and how it ended.
        context: Its place.
        links: Those of its requests that are traced.
        epoch_ns: What to add to the engine's clock for nanoseconds since 1970.
    """
    run, is_done = event.run, isinstance(event.outcome, Done)
    attributes: dict[str, Value] = {
        "xirang.model": run.model,
        "xirang.run": run.id,
        "xirang.instance": run.instance,
        "xirang.trigger": run.trigger.value,
        "xirang.requests": len(run.requests),
        "xirang.rows": run.rows,
        "xirang.target_length": run.length,
        "xirang.padding_ratio": round(run.padding / max(1, run.elements), 4),
        "xirang.window_ms": round(run.window_ns / 1e6, 4),
        "xirang.threshold_ms": round(run.threshold_ns / 1e6, 4),
        "xirang.predicted_ms": round(run.predicted_ns / 1e6, 4),
        "xirang.ran_ms": round(device_ns(event.outcome, run, event.end_ns) / 1e6, 4),
        "xirang.overload_level": run.level,
    }
    if not is_done:
        attributes["error.type"] = "model_failed"
    return Span(
        f"run {run.model}",
        INTERNAL,
        context,
        run.start_ns + epoch_ns,
        event.end_ns + epoch_ns,
        attributes,
        _parts(event, epoch_ns),
        links,
        UNSET if is_done else ERROR,
    )


def route_of(path: str) -> str:
    """The path with what varies named instead."""
    return _VERSION.sub("{version}", _MODEL.sub("{model}", path))


def _http(sighting: Sighting) -> tuple[str, dict[str, Value]]:
    path = sighting.place
    route = route_of(path)
    attributes: dict[str, Value] = {
        "http.request.method": "POST",
        "http.route": route,
        "url.path": path,
        "url.scheme": "http",
        "http.response.status_code": sighting.status,
        "http.request.body.size": sighting.received_bytes,
        "http.response.body.size": sighting.sent_bytes,
    }
    agent = sighting.headers.get(b"user-agent")
    if agent is not None:
        attributes["user_agent.original"] = agent.decode("latin-1")
    return f"POST {route}", attributes


def _grpc(sighting: Sighting) -> tuple[str, dict[str, Value]]:
    method = sighting.place.lstrip("/")
    attributes: dict[str, Value] = {
        "rpc.system.name": "grpc",
        "rpc.method": method,
        "rpc.response.status_code": _CODES[sighting.status],
    }
    return method, attributes


def _stages(sighting: Sighting, epoch_ns: int) -> list[Event]:
    """When each stage of a request was over; the last is sending, which ends with the span."""
    if not sighting.submitted_ns:
        return []
    events = [Event("xirang.received", sighting.submitted_ns + epoch_ns)]
    if sighting.runs:
        event, _ = sighting.runs[-1]
        events.append(Event("xirang.queued", event.run.start_ns + epoch_ns))
        events += _parts(event, epoch_ns)
        events.append(Event("xirang.split", event.end_ns + epoch_ns))
    return events


def _parts(event: RunEnded, epoch_ns: int) -> list[Event]:
    """When a run was assembled, and when the model had run."""
    if not isinstance(event.outcome, Done):
        return []
    begin_ns, end_ns = event.run.start_ns + epoch_ns, event.end_ns + epoch_ns
    return [
        Event("xirang.assembled", begin_ns + event.outcome.assemble_ns),
        Event("xirang.ran", end_ns - event.outcome.split_ns),
    ]
