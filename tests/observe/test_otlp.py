"""What is written by hand is read with OpenTelemetry's own schema."""

from hypothesis import given, strategies as st
from tests.support.collector import read, values_of

from xirang.observe.otlp import ERROR, SERVER, UNSET, Event, Span, export_request
from xirang.observe.trace_context import TraceContext

IDS = st.builds(
    TraceContext,
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=8, max_size=8),
    st.sampled_from([b"", b"\1" * 8]),
    st.text(max_size=20),
)
TIMES = st.integers(0, 2**63)
VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
SPANS = st.builds(
    Span,
    st.text(max_size=300),
    st.sampled_from([1, SERVER]),
    IDS,
    TIMES,
    TIMES,
    st.dictionaries(st.text(max_size=5), VALUES, max_size=4),
    st.lists(st.builds(Event, st.text(max_size=5), TIMES), max_size=3),
    st.lists(IDS, max_size=3),
    st.sampled_from([UNSET, ERROR]),
)


@given(st.lists(SPANS, max_size=3), st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_whatever_is_written_is_read_again(spans, resource):
    found, told = read(export_request(spans, resource=resource, scope=("xirang", "1.2")))
    assert told == resource
    assert len(found) == len(spans)
    for span, seen in zip(spans, found, strict=True):
        assert (seen.name, seen.kind) == (span.name, span.kind)
        assert (seen.trace_id, seen.span_id) == span.context[:2]
        assert (seen.parent_span_id, seen.trace_state) == span.context[2:]
        assert (seen.start_time_unix_nano, seen.end_time_unix_nano) == (span.begin_ns, span.end_ns)
        assert values_of(seen.attributes) == span.attributes
        assert [(e.name, e.time_unix_nano) for e in seen.events] == list(map(tuple, span.events))
        links = [(link.trace_id, link.span_id, link.trace_state) for link in seen.links]
        assert links == [(c.trace_id, c.span_id, c.state) for c in span.links]
        assert seen.status.code == span.status


def test_one_and_true_are_not_taken_for_each_other():
    span = Span("s", SERVER, TraceContext(b"t" * 16, b"s" * 8), 0, 1, {"a": 1})
    for value in (1, True, 1.0):
        changed = span._replace(attributes={"a": value})
        ((seen,), _) = read(export_request([changed], resource={}, scope=("", "")))
        (found,) = values_of(seen.attributes).values()
        assert type(found) is type(value)
