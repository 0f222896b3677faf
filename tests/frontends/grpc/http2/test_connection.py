"""The rules of a connection, each with its section of RFC 9113, and what breaking one costs."""

import pytest
from tests.frontends.grpc.http2.wire import (
    BLOCK,
    FIELDS,
    HELLO,
    body_in,
    data,
    farewell_in,
    frames_of,
    greeted,
    headers,
    resets_in,
    whole,
)

from xirang.frontends.grpc.http2 import connection as connection_module, frames, limits
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.events import Ended, Failed, Opened, Received
from xirang.frontends.grpc.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    NUMBER,
    PADDED,
    PRIORITISED,
    WINDOW,
    WINDOW_MAX,
    ErrorCode,
    frame,
)
from xirang.frontends.grpc.http2.heads import block_of
from xirang.frontends.grpc.http2.limits import STREAM_ROOM, STREAMS_MAX

PROTOCOL, FLOW = ErrorCode.PROTOCOL_ERROR, ErrorCode.FLOW_CONTROL_ERROR
SIZE, CALM = ErrorCode.FRAME_SIZE_ERROR, ErrorCode.ENHANCE_YOUR_CALM
CLOSED, COMPRESSION = ErrorCode.STREAM_CLOSED, ErrorCode.COMPRESSION_ERROR


def but(**changes):
    """A request's block with some fields changed, or left out where they are None."""
    names = {f":{name}".encode() for name in ("method", "scheme", "path")}
    given = {f":{k}".encode(): v for k, v in changes.items()}
    fields = [(n, given.get(n, v)) for n, v in FIELDS if n not in names or given.get(n, v)]
    return block_of(fields)


def setting(number, value):
    return frames.settings({number: value})


FATAL = {
    "6.1 data on no stream": (data(0), PROTOCOL),
    "5.1 data on an idle stream": (data(1), PROTOCOL),
    "5.1 a window for an idle stream": (frames.window_update(1, 1), PROTOCOL),
    "5.1 a reset of an idle stream": (frames.reset(1, ErrorCode.CANCEL), PROTOCOL),
    "5.1.1 an even stream": (headers(2), PROTOCOL),
    "5.1.1 no stream": (headers(0), PROTOCOL),
    "5.1.1 a lower stream": (whole(5) + whole(3), PROTOCOL),
    "4.2 a frame that is too long": (data(1, bytes(16_385)), SIZE),
    "4.3 a block that cannot be read": (headers(1, b"\xff\xff\xff\xff\xff\xff"), COMPRESSION),
    "4.3 an entry that there is not": (headers(1, b"\xfe"), COMPRESSION),
    "4.3 a table that is too large": (headers(1, b"\x3f\xff\xff\x03" + BLOCK), COMPRESSION),
    "6.1 more padding than frame": (headers(1) + data(1, b"\x09abc", PADDED), PROTOCOL),
    "6.1 padding of unknown size": (headers(1) + data(1, b"", PADDED), SIZE),
    "6.2 more padding than block": (headers(1, b"\xff" + BLOCK, END_HEADERS | PADDED), PROTOCOL),
    "6.2 a block without its priority": (headers(1, b"abc", END_HEADERS | PRIORITISED), SIZE),
    "6.3 a priority of no stream": (frame(frames.PRIORITY, 0, 0, bytes(5)), PROTOCOL),
    "6.3 a short priority": (frame(frames.PRIORITY, 0, 1, bytes(4)), SIZE),
    "6.4 a short reset": (headers(1) + frame(frames.RST_STREAM, 0, 1, bytes(3)), SIZE),
    "6.4 a reset of no stream": (frames.reset(0, ErrorCode.CANCEL), PROTOCOL),
    "6.5 settings of a stream": (frame(frames.SETTINGS, 0, 1), PROTOCOL),
    "6.5 half a setting": (frame(frames.SETTINGS, 0, 0, bytes(7)), SIZE),
    "6.5 an answer that says something": (frame(frames.SETTINGS, ACK, 0, bytes(6)), SIZE),
    "6.5.2 push 2": (setting(frames.ENABLE_PUSH, 2), PROTOCOL),
    "6.5.2 a window of 2^31": (setting(frames.INITIAL_WINDOW_SIZE, 2**31), FLOW),
    "6.5.2 small frames": (setting(frames.FRAME_SIZE_MAX, 16_383), PROTOCOL),
    "6.5.2 large frames": (setting(frames.FRAME_SIZE_MAX, 2**24), PROTOCOL),
    "6.6 a promise": (frame(frames.PUSH_PROMISE, END_HEADERS, 1, NUMBER.pack(2)), PROTOCOL),
    "6.7 a ping of a stream": (frame(frames.PING, 0, 1, bytes(8)), PROTOCOL),
    "6.7 a short ping": (frame(frames.PING, 0, 0, bytes(7)), SIZE),
    "6.8 a farewell of a stream": (frame(frames.GOAWAY, 0, 1, bytes(8)), PROTOCOL),
    "6.9 a window that stays": (frames.window_update(0, 0), PROTOCOL),
    "6.9 a short window": (frame(frames.WINDOW_UPDATE, 0, 0, bytes(3)), SIZE),
    "6.9.1 too wide a window": (frames.window_update(0, WINDOW_MAX), FLOW),
    "6.10 a continuation of nothing": (frame(frames.CONTINUATION, 4, 1, BLOCK), PROTOCOL),
    "6.10 something else meanwhile": (headers(1, BLOCK, 0) + data(1), PROTOCOL),
    "6.10 a stranger meanwhile": (headers(1, BLOCK, 0) + frame(0x20, 0, 1), PROTOCOL),
    "6.10 of another stream": (
        headers(1, BLOCK[:9], 0) + frame(frames.CONTINUATION, 4, 3, BLOCK[9:]),
        PROTOCOL,
    ),
    "10.5 fields without an end": (
        headers(1, b"", 0) + frame(frames.CONTINUATION, 0, 1) * (limits.CONTINUATIONS_MAX + 1),
        CALM,
    ),
    "10.5 a long block": (
        headers(1, BLOCK, 0) + frame(frames.CONTINUATION, 0, 1, bytes(16_000)) * 2,
        CALM,
    ),
    "10.5.1 a long list out of a short block": (
        headers(1, b"\x40\x01a" + b"\x7f\x80\x1e" + b"v" * 3967 + b"\xbe" * 5),
        CALM,
    ),
}


@pytest.mark.parametrize("case", FATAL)
def test_what_a_connection_does_not_survive(case):
    sent, code = FATAL[case]
    connection = greeted()
    (*_, last) = connection.receive(sent)
    assert isinstance(last, Failed)
    assert last.code is code
    assert connection.is_over
    assert connection.streams_open == 0
    assert farewell_in(connection.take()) is code
    assert connection.receive(whole(99)) == []
    assert connection.take() == b""


BAD_STREAM = {
    "8.3.1 no path": (headers(1, but(path=None)), PROTOCOL),
    "8.3.1 an empty path": (headers(1, block_of([*FIELDS[:2], (b":path", b"")])), PROTOCOL),
    "8.3.1 no method": (headers(1, but(method=None)), PROTOCOL),
    "8.3.1 no scheme": (headers(1, but(scheme=None)), PROTOCOL),
    "8.3 a path twice": (headers(1, block_of([*FIELDS[:3], FIELDS[2]])), PROTOCOL),
    "8.3 an unknown one": (headers(1, block_of([*FIELDS[:3], (b":x", b"")])), PROTOCOL),
    "8.3 a path behind fields": (headers(1, block_of([*FIELDS, FIELDS[2]])), PROTOCOL),
    "8.2.1 a capital letter": (headers(1, block_of([*FIELDS, (b"Te", b"")])), PROTOCOL),
    "8.2.1 an empty name": (headers(1, block_of([*FIELDS, (b"", b"")])), PROTOCOL),
    "8.2.1 a line's end": (headers(1, block_of([*FIELDS, (b"a", b"b\r\nc")])), PROTOCOL),
    "8.2.1 a space at the end": (headers(1, block_of([*FIELDS, (b"a", b"b ")])), PROTOCOL),
    "8.2.2 of HTTP/1": (headers(1, block_of([*FIELDS, (b"connection", b"x")])), PROTOCOL),
    "8.2.2 te": (headers(1, block_of([*FIELDS[:4], (b"te", b"gzip")])), PROTOCOL),
    "8.1 fields in the middle": (headers(1) + headers(1), PROTOCOL),
    "5.1 data behind the end": (whole(1) + data(1), CLOSED),
    "5.1 fields behind the end": (whole(1) + headers(1), CLOSED),
    "6.9 a window that stays": (headers(1) + frames.window_update(1, 0), PROTOCOL),
    "6.9.1 too wide a window": (headers(1) + frames.window_update(1, WINDOW_MAX), FLOW),
    "6.9 more than the window": (
        headers(1) + data(1, bytes(16_384)) * (STREAM_ROOM // 16_384 + 1),
        FLOW,
    ),
}


@pytest.mark.parametrize("case", BAD_STREAM)
def test_what_only_a_stream_does_not_survive(case):
    sent, code = BAD_STREAM[case]
    connection = greeted()
    events = connection.receive(sent)
    assert resets_in(connection.take()) == [(1, code)]
    if any(isinstance(event, Opened) for event in events):
        assert events[-1] == Ended(1, code)
    else:
        assert events == []
    assert connection.streams_open == 0
    assert [type(event) for event in connection.receive(whole(3))] == [Opened, Received]


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01", frames.PREFACE + data(1),
     frames.PREFACE + frame(frames.SETTINGS, ACK, 0)],
    ids=["HTTP/1.1", "TLS", "no settings", "only an answer"],
)  # fmt: skip
def test_who_begins_otherwise_is_let_go(sent):
    """Section 3.4."""
    connection = ServerConnection()
    (event,) = connection.receive(sent)
    assert event.code is PROTOCOL
    assert farewell_in(connection.take()) is PROTOCOL


def test_we_begin_with_our_settings():
    first, second = frames_of(ServerConnection().take())
    told = dict(frames.SETTING.iter_unpack(first[3]))
    assert told == limits.OURS
    assert second[0] == frames.WINDOW_UPDATE


def test_a_request_in_all_its_forms():
    """Padding, priority, a block in pieces, an end by trailers (sections 6.1, 6.2, 6.10, 8.1)."""
    padded = frame(frames.DATA, PADDED | END_STREAM, 1, b"\x02ab\0\0")
    flags = PADDED | PRIORITISED
    cut = frame(frames.HEADERS, flags, 1, b"\x01" + bytes(5) + BLOCK[:7] + b"\0")
    cut += frame(frames.CONTINUATION, 0, 1) + frame(frames.CONTINUATION, 4, 1, BLOCK[7:])
    events = greeted().receive(cut + padded)
    assert (events[0].head.path, events[0].is_whole) == (b"/a/b", False)
    assert events[0].head.fields == FIELDS[4:]
    assert events[1:] == [Received(1, b"ab", is_last=True)]
    trailers = headers(1, block_of([(b"a", b"b")]), END_HEADERS | END_STREAM)
    events = greeted().receive(headers(1) + data(1) + trailers)
    assert events[1:] == [Received(1, b"x", is_last=False), Received(1, b"", is_last=True)]


def test_pings_settings_and_strangers_are_answered_or_let_be():
    connection = greeted()
    sent = frame(frames.PING, 0, 0, b"12345678") + frames.settings({9: 9})
    sent += frame(0xBE, 0xFF, 7, b"what") + frame(frames.PRIORITY, 0, 9, bytes(5))
    assert connection.receive(sent + frame(frames.GOAWAY, 0, 0, bytes(8))) == []
    assert frames_of(connection.take()) == [
        (frames.PING, ACK, 0, b"12345678"),
        (frames.SETTINGS, ACK, 0, b""),
    ]


def respond(connection, stream_id, body):
    connection.respond(stream_id, b"\x88", (b"", body), len(body), b"\x88")


def test_a_response_goes_as_far_as_the_windows_let_it():
    """Section 5.2: its own window, the connection's, and frames as long as the client takes."""
    connection = greeted(frames.settings({frames.INITIAL_WINDOW_SIZE: 10}), whole(1), whole(3))
    for stream_id in (1, 3):
        respond(connection, stream_id, bytes(range(25)))
    sent = connection.take()
    assert len(body_in(sent, 1)) == len(body_in(sent, 3)) == 10
    assert not connection.has_more
    assert connection.unsent_bytes == 30
    connection.receive(frames.window_update(1, 5))
    assert body_in(connection.take(), 1) == bytes(range(10, 15))
    connection.receive(frames.settings({frames.INITIAL_WINDOW_SIZE: 30}))
    sent = connection.take()
    assert body_in(sent, 1) == bytes(range(15, 25))
    assert body_in(sent, 3) == bytes(range(10, 25))
    ends = [stream for kind, flags, stream, _ in frames_of(sent) if kind == 1 and flags & 1]
    assert sorted(ends) == [1, 3]
    assert (connection.streams_open, connection.unsent_bytes) == (0, 0)


def test_a_window_may_be_made_narrower_than_nothing():
    """Section 6.9.2: it has to be earned back before anything goes."""
    connection = greeted(whole(1))
    respond(connection, 1, bytes(WINDOW + 10))
    assert len(body_in(connection.take(), 1)) == WINDOW
    connection.receive(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}))
    connection.receive(frames.window_update(0, 100) + frames.window_update(1, WINDOW))
    assert body_in(connection.take(), 1) == b""
    connection.receive(frames.window_update(1, 4))
    assert len(body_in(connection.take(), 1)) == 4


def test_long_responses_take_turns():
    wide = frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 20}) + frames.window_update(0, 1 << 20)
    connection = greeted(wide, whole(1), whole(3))
    for stream_id in (1, 3):
        respond(connection, stream_id, bytes(100_000))
    order = [stream for kind, _, stream, _ in frames_of(connection.take()) if kind == frames.DATA]
    assert order[:4] == [1, 3, 1, 3] or order[1:5] == [1, 3, 1, 3]


def test_a_response_before_the_end_of_its_request_ends_that_too():
    """Section 8.1: whatever is still on its way is dropped, and costs nothing but patience."""
    connection = greeted(headers(1))
    respond(connection, 1, b"no")
    assert resets_in(connection.take()) == [(1, ErrorCode.NO_ERROR)]
    assert connection.receive(data(1) + data(1, b"", END_STREAM)) == []


def test_a_client_is_invited_to_send_what_is_awaited():
    connection = greeted(headers(1))
    connection.receive(data(1, bytes(16_384)))
    connection.invite(1, STREAM_ROOM - 16_384)
    assert connection.take() == b""
    connection.invite(1, 5 * STREAM_ROOM)
    assert connection.take() == frames.window_update(1, 4 * STREAM_ROOM + 16_384)


def test_the_window_of_the_connection_is_kept_open(monkeypatch):
    monkeypatch.setattr(connection_module, "ROOM", 70_000)
    connection = greeted(headers(1))
    for _ in range(2):
        connection.receive(data(1, bytes(16_000)) * 2)
        assert connection.take() == b""
        connection.receive(data(1, bytes(4_000)))
        assert connection.take() == frames.window_update(0, 36_000)


def test_too_many_at_once_are_refused():
    """Section 5.1.2."""
    connection = greeted()
    for number in range(STREAMS_MAX):
        connection.receive(headers(2 * number + 1))
    assert connection.receive(headers(2 * STREAMS_MAX + 1)) == []
    assert resets_in(connection.take()) == [(2 * STREAMS_MAX + 1, ErrorCode.REFUSED_STREAM)]


def test_whoever_leaves_finishes_what_is_in():
    """Section 6.8."""
    connection = greeted(headers(1))
    connection.leave()
    connection.leave()
    assert farewell_in(connection.take()) is ErrorCode.NO_ERROR
    assert connection.receive(whole(3)) == []
    assert connection.receive(data(1, b"x", END_STREAM)) == [Received(1, b"x", is_last=True)]
    respond(connection, 1, b"yes")
    assert body_in(connection.take(), 1) == b"yes"
    assert connection.streams_open == 0
    assert not connection.is_over


IDLE = {
    "pings": frame(frames.PING, 0, 0, bytes(8)),
    "settings": frames.settings({frames.INITIAL_WINDOW_SIZE: 1}),
    "settings' answers": frame(frames.SETTINGS, ACK, 0),
    "priorities": frame(frames.PRIORITY, 0, 1, bytes(5)),
    "empty data": data(1, b""),
    "strangers": frame(0x55, 0, 0, bytes(3)),
    "wider windows": frames.window_update(0, 1),
    "a stream's wider windows": frames.window_update(1, 1),
    "farewells": frame(frames.GOAWAY, 0, 0, bytes(8)),
    "data of a closed stream": data(3, b"x"),
}


@pytest.mark.parametrize("kind", IDLE)
def test_floods_of_what_moves_nothing_are_ended(kind):
    """Section 10.5."""
    connection = greeted(headers(1), whole(3))
    connection.reset(3, ErrorCode.CANCEL)
    many = IDLE[kind] * 100
    fails = [e for _ in range(101) for e in connection.receive(many) if isinstance(e, Failed)]
    assert [event.code for event in fails] == [CALM]


def test_a_client_that_measures_while_it_works_is_none_of_them():
    connection = greeted()
    for number in range(12_000):
        connection.receive(whole(2 * number + 1) + IDLE["pings"] * 2)
        respond(connection, 2 * number + 1, b"")
        connection.take()
    assert not connection.is_over


def test_a_client_that_widens_two_windows_for_each_frame_is_none_of_them():
    connection = greeted(whole(1))
    connection.headers(1, b"")
    for _ in range(12_000):
        connection.data(1, (b"12345", b"some"), 9)
        assert len(body_in(connection.take(), 1)) == 9
        connection.receive(frames.window_update(0, 9) + frames.window_update(1, 9))
    assert not connection.is_over


def test_a_client_that_takes_a_response_byte_by_byte_is_one_of_them():
    """CVE-2019-9511: each of its frames makes another one of ours."""
    connection = greeted(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}), whole(1))
    respond(connection, 1, bytes(20_000))
    for sent in range(20_000):
        if connection.is_over:
            break
        connection.receive(frames.window_update(1, 1))
        assert len(connection.take()) > 0, sent
    assert connection.is_over


def reset_by_the_client(connection, stream_id):
    return connection.receive(headers(stream_id) + frames.reset(stream_id, ErrorCode.CANCEL))


def reset_by_us(connection, stream_id):
    """A client may make the server end streams, too."""
    return connection.receive(headers(stream_id) + frames.window_update(stream_id, 0))


def malformed(connection, stream_id):
    return connection.receive(headers(stream_id, but(path=None)))


@pytest.mark.parametrize("once", [reset_by_the_client, reset_by_us, malformed])
def test_rapid_resets_are_ended(once):
    """CVE-2023-44487 and CVE-2025-8671."""
    connection = greeted()
    for number in range(limits.RESETS_MAX):
        assert not any(isinstance(e, Failed) for e in once(connection, 2 * number + 1))
    assert once(connection, 2 * limits.RESETS_MAX + 1)[-1].code is CALM


def test_patience_comes_back_with_time():
    connection = greeted()
    for number in range(3 * limits.RESETS_MAX):
        reset_by_the_client(connection, 2 * number + 1)
        if number % limits.RESETS_A_SECOND == 0:
            assert connection.tick(30) == []
    assert not connection.is_over


def test_a_response_that_nobody_takes_is_dropped_in_time():
    connection = greeted(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}), whole(1), whole(3))
    respond(connection, 1, b"abc")
    respond(connection, 3, b"abc")
    for _ in range(3):
        assert connection.tick(3) == []
    connection.receive(frames.window_update(3, 1))
    assert len(body_in(connection.take(), 3)) == 1
    assert connection.tick(3) == [Ended(1, ErrorCode.CANCEL)]
    assert resets_in(connection.take()) == [(1, ErrorCode.CANCEL)]
    assert connection.unsent_bytes == 2


def test_what_is_owed_is_known():
    connection = ServerConnection()
    assert connection.is_owed
    connection.receive(HELLO)
    assert not connection.is_owed
    connection.receive(headers(1)[:-1])
    assert connection.is_owed
    connection.receive(headers(1)[-1:])
    assert not connection.is_owed
    connection.receive(headers(3, BLOCK, 0))
    assert connection.is_owed
