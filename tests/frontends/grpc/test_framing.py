"""Messages in the bytes of a body, in whatever pieces they come; heads and ends of responses."""

import gzip
import zlib
from urllib.parse import unquote

import pytest
from hpack import Decoder
from hypothesis import given, strategies as st

from xirang.frontends.errors import NoRoom, TooLarge, UnsupportedEncoding
from xirang.frontends.grpc.framing import (
    TEXT_BYTES_MAX,
    Garbled,
    Inbox,
    beginning,
    ending,
    framed,
    lone_message,
    percented,
)
from xirang.frontends.grpc.status import Code, Status
from xirang.frontends.wire.connection import Memory


def inbox(bytes_max=1000, coding=b"", memory=None):
    return Inbox(memory or Memory(10_000), bytes_max, coding)


def prefixed(message, flag=0):
    return bytes([flag]) + len(message).to_bytes(4) + message


@given(st.lists(st.binary(max_size=300), max_size=6), st.data())
def test_messages_come_out_as_they_went_in(messages, data):
    box, body, found = inbox(), b"".join(map(prefixed, messages)), []
    while body:
        size = data.draw(st.integers(1, len(body)))
        box.feed(body[:size])
        body = body[size:]
        while (message := box.take()) is not None:
            found.append(message)
        box.settle()
        assert box._memory.held_bytes == box.held_bytes
    assert found == messages
    assert box.is_empty
    assert box.held_bytes == 0


def test_it_knows_what_is_missing():
    box = inbox()
    for piece, missing in ((b"\0\0", 3), (b"\0\0\x0a", 10), (b"abc", 7)):
        box.feed(piece)
        assert box.take() is None
        assert box.missing_bytes == missing


def test_what_it_holds_is_counted_and_given_back():
    memory = Memory(100)
    first, second = inbox(memory=memory), inbox(memory=memory)
    first.feed(prefixed(bytes(90))[:50])
    assert first.take() is None
    first.settle()
    assert memory.held_bytes == 50
    second.feed(prefixed(bytes(60))[:10])
    assert second.take() is None
    with pytest.raises(NoRoom):  # what is announced has to fit, too
        second.settle()
    second.clear()
    first.clear()
    assert memory.held_bytes == 0


@pytest.mark.parametrize(
    ("body", "coding", "kind"),
    [
        (prefixed(b"", 2), b"", Garbled),
        (b"\0\xff\xff\xff\xff", b"", TooLarge),
        (prefixed(b"x", 1), b"", Garbled),
        (prefixed(b"x", 1), b"identity", Garbled),
        (prefixed(b"x", 1), b"snappy", UnsupportedEncoding),
        # The time of its making stays out: the processes of a parallel run must name it alike.
        (prefixed(gzip.compress(bytes(2000), mtime=0), 1), b"gzip", TooLarge),
        (prefixed(zlib.compress(b"x")[:-1], 1), b"deflate", Exception),
    ],
)
def test_what_cannot_be_read_is_refused(body, coding, kind):
    box = inbox(coding=coding)
    box.feed(body)
    with pytest.raises(kind):
        box.take()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_messages_are_packed_where_that_makes_them_fewer_bytes(coding):
    box = inbox(coding=coding.encode())
    for message in (b"a" * 900, b"a"):
        parts = framed(message, 1, coding)
        assert parts[0][0] == (len(message) > 10)
        box.feed(b"".join(parts))
        assert box.take() == message


def test_a_lone_message_is_recognised():
    assert lone_message(prefixed(b"abc")) == b"abc"
    assert lone_message(prefixed(b"")) == b""
    for other in (b"", b"\0", prefixed(b"abc", 1), prefixed(b"abc") + b"d", prefixed(b"abc")[:-1]):
        assert lone_message(other) is None


def fields(block):
    return dict(Decoder().decode(block, raw=True))


def test_a_response_begins_and_ends_as_clients_expect():
    start = {b":status": b"200", b"content-type": b"application/grpc"}
    assert fields(beginning()) == start
    assert fields(beginning("gzip")) == start | {b"grpc-encoding": b"gzip"}
    assert fields(ending()) == {b"grpc-status": b"0"}
    bad = Status(Code.UNAVAILABLE, "busy: 息 100 %", 7)
    told = {
        b"grpc-status": b"14",
        b"grpc-message": b"busy: %E6%81%AF 100 %25",
        b"grpc-retry-pushback-ms": b"7",
    }
    assert fields(ending(bad)) == told
    assert fields(ending(bad, is_all=True)) == start | told
    assert b"gzip" in fields(ending(Status(Code.UNIMPLEMENTED, "")))[b"grpc-accept-encoding"]


@given(st.text(max_size=3000))
def test_texts_are_sent_as_printable_ascii_and_not_for_ever(text):
    encoded = percented(text)
    assert all(0x20 <= byte < 0x7F for byte in encoded)
    assert len(encoded) <= TEXT_BYTES_MAX
    plain = text.strip().encode(errors="replace").decode()
    assert plain.startswith(unquote(encoded.decode(), errors="ignore"))
