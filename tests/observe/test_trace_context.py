"""W3C's Trace Context: what is taken for a parent and what is not."""

from random import Random

import pytest

from xirang.observe.trace_context import below, first, parent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def parent(text, **headers):
    return parent_of({b"traceparent": text.encode()} | headers)


def test_a_parent_is_read():
    found = parent(f"00-{TRACE}-{SPAN}-01")
    assert (found.trace_id.hex(), found.span_id.hex(), found.is_sampled) == (TRACE, SPAN, True)
    assert not parent(f"00-{TRACE}-{SPAN}-00").is_sampled
    assert parent(f"00-{TRACE}-{SPAN}-03").is_sampled, "other flags do not matter"
    assert parent(f" 00-{TRACE}-{SPAN}-01 ").is_sampled
    assert parent(f"cc-{TRACE}-{SPAN}-01-what-comes").is_sampled, "a later version may say more"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
    ],
)
def test_what_is_not_by_the_rules_is_no_parent(text):
    assert parent(text) is None


def test_without_the_header_there_is_none():
    assert parent_of({}) is None


def test_a_span_below_a_parent_is_in_its_trace_and_passes_on_what_vendors_say():
    above = parent(f"00-{TRACE}-{SPAN}-01")
    context = below(above, {b"tracestate": b"vendor=1"}, Random(1))
    assert (context.trace_id.hex(), context.parent_id.hex()) == (TRACE, SPAN)
    assert context.state == "vendor=1"
    assert len(context.span_id) == 8
    assert context.span_id != above.span_id
    assert below(above, {b"tracestate": b"x" * 600}, Random(1)).state == ""


def test_the_first_span_of_a_trace_has_no_parent():
    context = first(Random(1))
    assert (len(context.trace_id), len(context.span_id)) == (16, 8)
    assert not context.parent_id
