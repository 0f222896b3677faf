"""The calls of a connection without sockets: pieces, faults, time, and clients that do not read."""

import asyncio

import pytest
from hpack import Decoder
from hypothesis import given, settings, strategies as st
from tests.frontends.grpc.calls import wish
from tests.frontends.grpc.http2.wire import HELLO, body_in, data, frames_of, headers, resets_in
from tests.frontends.puppets import PuppetService
from tritonclient.grpc import service_pb2 as pb

from xirang.frontends.grpc import calls as calls_module, talk
from xirang.frontends.grpc.calls import Calls, Switchboard
from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.frames import END_STREAM, ErrorCode
from xirang.frontends.grpc.http2.heads import block_of
from xirang.frontends.grpc.http2.limits import STREAM_ROOM
from xirang.frontends.grpc.procedures import procedures
from xirang.frontends.grpc.servicer import INFER_PATH, STREAM_PATH, Servicer

MESSAGE_MAX = 2 << 20


def head(path=INFER_PATH, *more):
    return block_of(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            *more,
        ]
    )


def prefixed(message, flag=0):
    message = message if isinstance(message, bytes) else message.SerializeToString()
    return bytes([flag]) + len(message).to_bytes(4) + message


def pieces(stream_id, body, size=16_384, end=END_STREAM):
    """A body in frames, the last one marked."""
    cut = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    return [data(stream_id, piece, end * (piece is cut[-1])) for piece in cut]


class House:
    """A connection, its calls and what answers them."""

    def __init__(self, memory_bytes_max=1 << 30, **options):
        self.service = PuppetService(**options)
        self.servicer = Servicer(self.service, memory_bytes_max=memory_bytes_max)
        self.loop = asyncio.new_event_loop()
        shutting = self.loop.create_future()
        board = Switchboard(procedures(self.servicer, shutting), self.servicer, MESSAGE_MAX, 0, 3)
        self.http = ServerConnection()
        self.calls = Calls(board, self.http, 7, lambda: None)
        self.sent = b""
        self.decoder = Decoder()
        self.give(HELLO)
        self.take()

    def give(self, *sent):
        for piece in sent:
            self.calls.handle(self.http.receive(piece))

    def take(self):
        sent = self.http.take()
        self.calls.sent()
        return sent

    def ends(self, sent=None):
        """Code and text of each call that has ended."""
        found = {}
        for kind, flags, stream_id, payload in frames_of(sent or self.take()):
            if kind == frames.HEADERS:
                fields = dict(self.decoder.decode(payload, raw=True))
                if flags & END_STREAM:
                    told = fields.get(b"grpc-status", b"-1"), fields.get(b"grpc-message", b"")
                    found[stream_id] = int(told[0]), told[1].decode()
        return found

    def tick(self, seconds=1):
        for _ in range(seconds):
            self.calls.tick()
            self.calls.handle(self.http.tick(3))


@pytest.fixture
def house():
    house = House()
    yield house
    house.calls.abandon()
    assert house.servicer.memory.held_bytes == 0
    house.loop.close()


@pytest.mark.parametrize("size", [1, 4, 7, 16_384])
def test_a_call_in_pieces_is_the_same_call(house, size):
    house.give(headers(1, head()), *pieces(1, prefixed(wish("a")), size))
    house.service.answer()
    sent = house.take()
    assert house.ends(sent) == {1: (0, "")}
    assert pb.ModelInferResponse.FromString(body_in(sent, 1)[5:]).id == "a"


def test_a_call_is_taken_in_as_soon_as_its_message_is_whole(house):
    house.give(headers(1, head()), data(1, prefixed(wish("a"))))
    assert len(house.service.calls) == 1
    house.give(data(1, b"", END_STREAM))
    house.service.answer()
    assert house.ends() == {1: (0, "")}


BAD_BODIES = {
    "none": (b"", 13, "expected one whole message"),
    "cut off": (prefixed(wish())[:-1], 13, "expected one whole message"),
    "two": (prefixed(wish()) * 2, 13, "nothing behind it"),
    "no protobuf": (prefixed(b"\xff"), 3, "the message is not a ModelInferRequest"),
    "a flag of 7": (prefixed(wish(), 7), 13, "begins with 7; expected 0 or 1"),
    "packed without a word": (prefixed(wish(), 1), 13, "names no grpc-encoding"),
    "too long": (b"\0\x7f\xff\xff\xff", 8, "Received message larger than max (2147483647 vs."),
}


@pytest.mark.parametrize("case", BAD_BODIES)
def test_a_body_that_is_no_message_is_told_so(house, case):
    body, code, text = BAD_BODIES[case]
    house.give(headers(1, head()), *pieces(1, body))
    ((found, told),) = house.ends().values()
    assert found == code
    assert text in told.replace("%25", "%")
    assert not house.service.calls


def test_what_follows_a_message_takes_its_call_back(house):
    house.give(headers(1, head()), data(1, prefixed(wish())))
    house.give(data(1, b"more"))
    assert house.service.tickets[0].is_cancelled
    sent = house.take()
    assert house.ends(sent)[1][0] == 13
    assert resets_in(sent) == [(1, ErrorCode.NO_ERROR)]


def test_other_requests_are_refused_by_their_heads(house):
    house.give(headers(1, head("/nowhere")), headers(3, head(INFER_PATH, (b"grpc-timeout", b"x"))))
    ends = house.ends()
    assert ends[1] == (12, "Method not found: /nowhere")
    assert ends[3][0] == 3


def test_a_deadline_counts_from_the_head(house):
    house.give(headers(1, head(INFER_PATH, (b"grpc-timeout", b"50m"))))
    house.service.time_ns = 20_000_000
    house.give(data(1, prefixed(wish()), END_STREAM))
    assert house.service.calls[0].budget_ns == 30_000_000


def test_a_reset_takes_its_call_back(house):
    house.give(headers(1, head()), data(1, prefixed(wish()), END_STREAM))
    house.give(frames.reset(1, ErrorCode.CANCEL))
    assert house.service.tickets[0].is_cancelled
    assert house.take() == b""
    house.give(headers(3, head()), data(3, b"\0\0\0\0\x09abc"), frames.reset(3, ErrorCode.CANCEL))
    assert house.servicer.memory.held_bytes == 0


def test_a_long_message_is_invited_at_once_and_counted_as_it_comes(house):
    house.give(headers(1, head()), data(1, b"\0" + MESSAGE_MAX.to_bytes(4) + bytes(95)))
    assert house.take() == frames.window_update(1, MESSAGE_MAX - 95 - (STREAM_ROOM - 100))
    assert house.servicer.memory.held_bytes == 100
    house.give(data(1, bytes(1000)))
    assert house.take() == b""
    assert house.servicer.memory.held_bytes == 1100


def test_messages_that_would_not_fit_are_refused_before_they_come():
    house = House(memory_bytes_max=1000)
    house.give(headers(1, head()), data(1, b"\0\0\0\x0f\xa0" + bytes(10)))
    assert house.ends() == {1: (14, "too many bytes of requests are in memory; come back later")}
    assert house.servicer.memory.held_bytes == 0
    house.loop.close()


def test_a_message_that_does_not_come_in_time_is_given_up(house):
    house.give(headers(1, head()), headers(3, head(STREAM_PATH)), headers(5, head(STREAM_PATH)))
    house.give(data(5, b"\0\0"))
    house.tick(3)
    assert house.ends(house.take()) == {}
    house.tick()
    ends = house.ends()
    assert ends == dict.fromkeys((1, 5), (4, "the rest of the message did not come in time"))


def test_a_message_that_goes_on_coming_has_its_time(house):
    house.give(headers(1, head()), data(1, b"\0\0\x10\0\0"))
    for _ in range(10):
        house.give(data(1, bytes(16_384)))
        house.tick()
    assert house.ends(house.take()) == {}


def test_a_stream_in_pieces_is_the_same_stream(house):
    body = b"".join(prefixed(wish(identity)) for identity in "abc")
    house.give(headers(1, head(STREAM_PATH)), *pieces(1, body, 7))
    for _ in range(3):
        house.service.answer()
    sent = house.take()
    assert house.ends(sent) == {1: (0, "")}
    body, found = body_in(sent, 1), []
    while body:
        size = int.from_bytes(body[1:5])
        found.append(pb.ModelStreamInferResponse.FromString(body[5 : 5 + size]))
        body = body[5 + size :]
    assert [each.infer_response.id for each in found] == ["a", "b", "c"]


def test_a_stream_that_ends_within_a_message_is_told_so(house):
    house.give(headers(1, head(STREAM_PATH)), *pieces(1, prefixed(wish("a")) + b"\0\0"))
    assert house.ends() == {1: (13, "the last message is not whole")}
    assert house.service.tickets[0].is_cancelled


def test_who_takes_no_answers_is_not_served_further(house, monkeypatch):
    monkeypatch.setattr(talk, "UNREAD_BYTES_MAX", 200)
    house.give(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}), headers(1, head(STREAM_PATH)))
    house.service.is_prompt = True
    for identity in "abcdefghij":
        house.give(data(1, prefixed(wish(identity))))
    assert 0 < len(house.service.tickets) < 10
    assert house.servicer.memory.held_bytes > 0
    house.give(frames.window_update(1, 60_000))
    for _ in range(5):
        house.take()
    assert len(house.service.tickets) == 10
    assert house.servicer.memory.held_bytes == 0


def test_a_connection_full_of_answers_gets_no_more_calls(house, monkeypatch):
    monkeypatch.setattr(calls_module, "UNREAD_BYTES_MAX", 20)
    house.service.is_prompt = True
    house.give(frames.settings({frames.INITIAL_WINDOW_SIZE: 0}))
    for number in (1, 3):
        house.give(headers(number, head()), data(number, prefixed(wish()), END_STREAM))
    assert house.ends()[3] == (14, "answers wait to be read")
    house.tick(4)
    assert resets_in(house.take()) == [(1, ErrorCode.CANCEL)]
    house.give(headers(5, head()), data(5, prefixed(wish()), END_STREAM))
    assert len(house.service.tickets) == 2


def test_a_connection_that_breaks_the_rules_takes_back_all_its_calls(house):
    for number in (1, 3):
        house.give(headers(number, head()), data(number, prefixed(wish()), END_STREAM))
    house.give(data(0))
    assert all(ticket.is_cancelled for ticket in house.service.tickets)
    house.service.calls[0].reply(house.service.echo(house.service.calls[0]))  # too late


def test_a_server_that_stops_does_not_wait_for_half_a_message(house):
    house.give(headers(1, head(STREAM_PATH)), data(1, prefixed(wish("a")) + b"\0\0"))
    house.calls.end()
    house.service.answer()
    assert house.ends() == {1: (0, "")}


likely = st.one_of(
    st.builds(
        headers,
        st.sampled_from([1, 3, 5, 7, 9]),
        st.sampled_from([head(), head(STREAM_PATH), head(INFER_PATH, (b"grpc-encoding", b"gzip"))]),
        st.sampled_from([4, 4, 4, 5]),
    ),
    st.builds(
        data,
        st.sampled_from([1, 3, 5, 7, 9]),
        st.one_of(
            st.binary(max_size=12),
            st.just(prefixed(wish("a"))),
            st.just(prefixed(wish("b"))[:20]),
            st.just(prefixed(wish("b"))[20:]),
            st.just(prefixed(wish("c"), 1)),
        ),
        st.sampled_from([0, 0, 1]),
    ),
    st.builds(frames.window_update, st.integers(0, 9), st.sampled_from([0, 1, 70_000])),
    st.builds(frames.reset, st.sampled_from([1, 3, 5]), st.sampled_from(ErrorCode)),
    st.sampled_from([0, 30, 70_000]).map(lambda size: frames.settings({4: size})),
    st.sampled_from(["answer", "tick", "take", "end"]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(likely, max_size=30))
def test_whatever_is_asked_each_call_ends_once_and_nothing_is_kept(steps):
    house, said = House(), b""
    for step in steps:
        if isinstance(step, bytes):
            house.give(step)
        elif step == "answer" and house.service.calls:
            house.service.answer()
        elif step == "tick":
            house.tick()
        elif step == "end":
            house.calls.end()
        said += house.take()
    house.calls.abandon()
    while house.service.calls:
        house.service.answer()
    said += house.take()
    ends = [f[2] for f in frames_of(said) if f[0] == frames.HEADERS and f[1] & END_STREAM]
    assert len(ends) == len(set(ends))
    assert house.servicer.memory.held_bytes == 0
    house.loop.close()
