"""Writes spans in OpenTelemetry's protocol, OTLP: protobuf's bytes, a field at a time.

By hand, because its Python library takes ten times as long for a span, on the interpreter that all
requests share; the tests read what is written with the library's own schema.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from xirang.observe.trace_context import TraceContext

Value = bool | int | float | str

INTERNAL, SERVER = 1, 2
"""Kinds of spans."""

UNSET, ERROR = 0, 2
"""States of spans: what is no error of ours is left for others to judge."""

KEPT_MAX = 4096

_TIME, _DOUBLE = Struct("<Q"), Struct("<d")


class Event(NamedTuple):
    """Something that happened within a span."""

    name: str
    at_ns: int


class Span(NamedTuple):
    """One operation.

    Attributes:
        name: For all of its kind the same.
        kind: `SERVER` or `INTERNAL`.
        context: Its place.
        begin_ns: Since 1970, as all times here.
        end_ns: When it was over.
        attributes: Name to value.
        events: In the order in which they happened.
        links: To spans of other traces.
        status: `UNSET` or `ERROR`.
    """

    name: str
    kind: int
    context: TraceContext
    begin_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: Sequence[Event] = ()
    links: Sequence[TraceContext] = ()
    status: int = UNSET


def export_request(
    spans: Iterable[Span], *, resource: Mapping[str, Value], scope: tuple[str, str]
) -> bytes:
    """An `ExportTraceServiceRequest`.

    Args:
        spans: What is told.
        resource: Who tells.
        scope: With what, and of which version.
    """
    name, version = scope
    written = b"".join([_field(2, _span(span)) for span in spans])
    scope_spans = _field(1, _text(1, name) + _text(2, version)) + written
    teller = _field(1, b"".join([_attribute(1, *each) for each in resource.items()]))
    return _field(1, teller + _field(2, scope_spans))


def _span(span: Span) -> bytes:
    context = span.context
    parts = [_place(context)]
    if context.parent_id:
        parts.append(_field(4, context.parent_id))
    parts.append(_text(5, span.name))
    parts.append(b"\x30%c" % span.kind)
    parts.append(b"\x39" + _TIME.pack(span.begin_ns) + b"\x41" + _TIME.pack(span.end_ns))
    parts += [_attribute(9, name, value) for name, value in span.attributes.items()]
    for name, at_ns in span.events:
        before, after = _around_time(name)
        parts += (before, _TIME.pack(at_ns), after)
    parts += [_field(13, _place(link)) for link in span.links]
    if span.status:
        parts.append(b"\x7a\x02\x18%c" % span.status)
    return b"".join(parts)


def _place(context: TraceContext) -> bytes:
    """The first fields of a span and of a link, which have the same numbers."""
    place = b"\x0a\x10" + context.trace_id + b"\x12\x08" + context.span_id
    return place + _text(3, context.state) if context.state else place


@lru_cache(KEPT_MAX)
def _around_time(name: str) -> tuple[bytes, bytes]:
    """What stands before and after the time of an event of that name."""
    after = _text(2, name)
    return _field(11, b"\x09" + bytes(_TIME.size) + after)[: -_TIME.size - len(after)], after


@lru_cache(KEPT_MAX, typed=True)
def _attribute(number: int, name: str, value: Value) -> bytes:
    """A `KeyValue` as field of that number; most come again and again."""
    if isinstance(value, bool):
        told = b"\x10%c" % value
    elif isinstance(value, int):
        told = b"\x18" + _varint(value & (1 << 64) - 1)
    elif isinstance(value, float):
        told = b"\x21" + _DOUBLE.pack(value)
    else:
        told = _text(1, value)
    return _field(number, _text(1, name) + _field(2, told))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode(errors="replace"))


def _field(number: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 128:
        return b"%c%c%b" % (number << 3 | 2, size, payload)
    return b"%c%b%b" % (number << 3 | 2, _varint(size), payload)


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
