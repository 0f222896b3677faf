"""Who belongs to which trace: W3C's Trace Context, as it comes with a request."""

import re
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

PARENT, STATE = b"traceparent", b"tracestate"
STATE_LENGTH_MAX = 512
"""W3C asks for at least so much to be passed on; what is longer is left out."""

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(NamedTuple):
    """A span's place in a trace.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_id: Of the span above it; empty for the first of a trace.
        state: What vendors say of the trace.
    """

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    state: str = ""


class Parent(NamedTuple):
    """The span above, in whatever called us.

    Attributes:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        is_sampled: Whether it is recorded there.
    """

    trace_id: bytes
    span_id: bytes
    is_sampled: bool


def parent_of(headers: Mapping[bytes, bytes]) -> Parent | None:
    """The parent that a request names; None if it names none, or not by the rules."""
    value = headers.get(PARENT)
    found = None if value is None else _PARENT.fullmatch(value.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    trace_id, span_id = bytes.fromhex(trace.decode()), bytes.fromhex(span.decode())
    if not any(trace_id) or not any(span_id):
        return None
    return Parent(trace_id, span_id, bool(int(flags, 16) & 1))


def below(parent: Parent, headers: Mapping[bytes, bytes], random: Random) -> TraceContext:
    """A new span below a parent."""
    state = headers.get(STATE, b"")
    told = state.decode("latin-1") if len(state) <= STATE_LENGTH_MAX else ""
    return TraceContext(parent.trace_id, random.randbytes(8), parent.span_id, told)


def first(random: Random) -> TraceContext:
    """A new span in a new trace."""
    return TraceContext(random.randbytes(16), random.randbytes(8))
