"""What the head of a call says."""

import pytest
from hpack import Decoder

from xirang.frontends.grpc.call_head import read_call
from xirang.frontends.grpc.http2.heads import Head
from xirang.frontends.headers import Headers


def head(*fields, method=b"POST", kind=b"application/grpc"):
    return Head(method, b"/s/p", [(b"te", b"trailers"), (b"content-type", kind), *fields])


def test_metadata_are_what_is_not_grpcs_own():
    own = [(b"grpc-timeout", b"1S"), (b"grpc-encoding", b"gzip")]
    call = read_call(head(*own, (b"authorization", b"x"), (b"a", b"1"), (b"a", b"2")), 7)
    assert call.envelope.headers == {b"authorization": b"x", b"a": b"2"}
    assert isinstance(call.envelope.headers, Headers)
    assert (call.path, call.envelope.connection, call.coding) == ("/s/p", 7, b"gzip")


@pytest.mark.parametrize("value", [b"//8", b"//8=", b""])
def test_bytes_ride_in_base64(value):
    call = read_call(head((b"a-bin", value)), 0)
    assert call.envelope.headers[b"a-bin"] == (b"\xff\xff" if value else b"")


@pytest.mark.parametrize(
    ("timeout", "nanoseconds"),
    [(b"2H", 7200 * 10**9), (b"3M", 180 * 10**9), (b"1S", 10**9), (b"15m", 15 * 10**6),
     (b"99999999u", 99999999000), (b"7n", 7)],
)  # fmt: skip
def test_a_timeout_is_what_is_left_until_the_deadline(timeout, nanoseconds):
    call = read_call(head((b"grpc-timeout", timeout)), 0)
    assert call.timeout_ns == nanoseconds
    assert call.envelope_at(5, 5).time_left_ns == nanoseconds
    assert call.envelope_at(5, 8).time_left_ns == nanoseconds - 3
    assert call.envelope_at(0, 2 * nanoseconds).time_left_ns == 0
    assert read_call(head(), 0).envelope_at(0, 9).time_left_ns is None


def told(block):
    return dict(Decoder().decode(block, raw=True))


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ((b"grpc-timeout", b"1"), b"grpc-timeout is '1'; expected"),
        ((b"grpc-timeout", b"123456789S"), b"grpc-timeout is"),
        ((b"grpc-timeout", b"-1S"), b"grpc-timeout is"),
        ((b"a-bin", b"%"), b"metadata a-bin is not base64"),
    ],
)
def test_what_it_cannot_mean_is_refused(field, part):
    found = told(read_call(head(field), 0))
    assert found[b"grpc-status"] == b"3"
    assert part.replace(b"%", b"%25") in found[b"grpc-message"]


def test_what_is_no_call_is_told_so_in_http():
    assert told(read_call(head(method=b"GET"), 0)) == {b":status": b"405", b"allow": b"POST"}
    for kind in (b"text/html", b"application/grpc-web", b""):
        assert told(read_call(head(kind=kind), 0)) == {b":status": b"415"}
    for kind in (b"application/grpc", b"application/grpc+proto", b"application/grpc;x=y"):
        assert read_call(head(kind=kind), 0).path == "/s/p"


def test_the_coding_that_a_client_reads():
    for accepted, coding in (
        (b"identity, deflate, gzip", "deflate"),
        (b"gzip", "gzip"),
        (b"x", None),
    ):
        assert read_call(head((b"grpc-accept-encoding", accepted)), 0).accepted == coding
