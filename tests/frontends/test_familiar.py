"""A head that is known by its bytes is the head that the parser would have read, always."""

import gzip

import pytest
from hypothesis import given, settings, strategies as st
from tests.frontends.puppets import connect, post, responses

from xirang.errors import Forbidden
from xirang.frontends.wire import http
from xirang.frontends.wire.familiar import head_of


class Desk:
    """A hot route that answers at once and keeps what it was asked."""

    def __init__(self):
        self.seen = []

    def __call__(self, exchange):
        self.seen.append((exchange.url, dict(exchange.headers), exchange.body))
        exchange.respond(200, b"", exchange.body)

    def match(self, url):
        return None if url.startswith(b"/cold") else self


@pytest.fixture
def parsed(monkeypatch):
    """How many bytes the parser was fed, piece by piece."""
    fed = []
    parse = http.FastProtocol._parse

    def counted(protocol, data):
        fed.append(len(data))
        parse(protocol, data)

    monkeypatch.setattr(http.FastProtocol, "_parse", counted)
    return fed


def message(head, body=b""):
    return head.replace(b"\n", b"\r\n").replace(b"LENGTH", b"%d" % len(body)) + b"\r\n\r\n" + body


PLAIN = b"POST /hot HTTP/1.1\nHost: x\nContent-Length: LENGTH\nX-Last: 1"

HEADS = [
    PLAIN,
    PLAIN.replace(b"/hot", b"/hop"),
    PLAIN.replace(b"/hot", b"/cold"),
    PLAIN.replace(b"X-Last: 1", b"X-Last: 2"),
    PLAIN.replace(b"X-Last: 1", b"X-Last: 1\nX-More: 1"),
    PLAIN.replace(b"X-Last: 1", b"X-Last: content-length: LENGTH"),
    PLAIN.replace(b"Content-Length", b"content-length"),
    PLAIN.replace(b"LENGTH", b"0LENGTH"),
    PLAIN.replace(b"LENGTH", b"  LENGTH  "),
    PLAIN.replace(b"LENGTH", b"9999999999999999999999"),
    PLAIN.replace(b"LENGTH", b"-LENGTH"),
    PLAIN.replace(b"Host: x", b"Content-Length: LENGTH"),
    PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    PLAIN.replace(b"X-Last: 1", b"Connection: close"),
    PLAIN.replace(b"X-Last: 1", b"Connection: keep-alive"),
    PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0").replace(b"X-Last: 1", b"Connection: keep-alive"),
    PLAIN.replace(b"X-Last: 1", b"Expect: 100-continue"),
    PLAIN.replace(b"X-Last: 1", b"Content-Encoding: gzip"),
    PLAIN.replace(b"X-Last: 1", b"Content-Encoding: identity"),
    PLAIN.replace(b"X-Last: 1", b"Transfer-Encoding: chunked"),
    PLAIN.replace(b"X-Last: 1", b"Connection: upgrade\nUpgrade: h2c"),
    PLAIN.replace(b"POST", b"PUT"),
    b"\n" + PLAIN,
]

BODIES = [b"", b"a", b"0123456789", b"12345678901", gzip.compress(b"x"), message(PLAIN, b"inner")]


def outcome(desk, pieces):
    protocol, line, loop = connect(desk.match)
    for piece in pieces:
        protocol.data_received(piece)
    while loop.tasks:
        loop.run_tasks()
    return desk.seen, line.take(), line.closed


@st.composite
def streams(draw):
    """What a client may send: some heads again and again, in pieces of any size."""
    few = draw(st.lists(st.sampled_from(HEADS), min_size=1, max_size=2))
    kinds = st.tuples(st.sampled_from([PLAIN, *few]), st.sampled_from(BODIES))
    whole = [message(*kind) for kind in draw(st.lists(kinds, min_size=3, max_size=8))]
    pieces = []
    for each in whole:
        cut = draw(st.one_of(st.just(0), st.integers(0, len(each))))
        pieces += [piece for piece in (each[:cut], each[cut:]) if piece]
    joined = draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    found = []
    for piece, joins in zip(pieces, joined, strict=True):
        if joins and found and draw(st.integers(0, 3)) == 0:
            found[-1] += piece
        else:
            found.append(piece)
    return found


@settings(max_examples=400, deadline=None)
@given(streams())
def test_with_and_without_memory_of_heads_the_same_is_understood_and_answered(pieces):
    learned = outcome(Desk(), pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "head_of", lambda *_: None)
        parsed = outcome(Desk(), pieces)
    assert learned == parsed


SENT = message(PLAIN, b"abc")


@pytest.mark.parametrize("at", range(len(SENT) - len(b"abc")))
def test_a_head_with_any_byte_changed_is_read_anew(at):
    desk = Desk()
    protocol, _, _ = connect(lambda _url: desk)
    for _ in range(3):
        protocol.data_received(SENT)
    familiar = protocol._familiar
    assert familiar is not None
    assert familiar.body_in(SENT) == b"abc"
    for change in (1, 0x20, 0x80):
        other = SENT[:at] + bytes([SENT[at] ^ change]) + SENT[at + 1 :]
        assert familiar.body_in(other) is None, other


def test_from_the_third_time_on_nothing_is_parsed(parsed):
    desk = Desk()
    protocol, line, _ = connect(desk.match)
    for number in range(6):
        protocol.data_received(message(PLAIN, b"x" * (number * 40)))
    assert len(parsed) == 2
    assert [response.body for response in responses(line.take())] == [
        b"x" * (number * 40) for number in range(6)
    ]


@pytest.mark.parametrize("cut", range(1, len(SENT)))
def test_a_known_head_in_two_pieces_is_parsed_and_known_again_later(parsed, cut):
    desk = Desk()
    protocol, line, _ = connect(desk.match)
    for _ in range(3):
        protocol.data_received(SENT)
    parsed.clear()
    protocol.data_received(SENT[:cut])
    protocol.data_received(SENT[cut:])
    assert parsed == [cut, len(SENT) - cut]
    protocol.data_received(SENT)
    protocol.data_received(SENT)
    assert len(parsed) == 3
    assert len(responses(line.take())) == 6


def test_pipelined_requests_are_parsed(parsed):
    desk = Desk()
    protocol, line, _ = connect(desk.match)
    for _ in range(3):
        protocol.data_received(SENT)
    protocol.data_received(SENT + SENT)
    assert parsed[-1] == 2 * len(SENT)
    assert len(responses(line.take())) == 5


def test_a_body_beyond_the_bound_is_refused_though_its_head_is_known():
    desk = Desk()
    protocol, line, _ = connect(desk.match, body_bytes_max=100)
    for size in (10, 10, 100, 101):
        protocol.data_received(message(PLAIN, b"x" * size))
    assert [each.status for each in responses(line.take())] == [200, 200, 200, 413]


def test_there_is_no_room_for_a_body_though_its_head_is_known():
    exchanges = []
    protocol, line, _ = connect(lambda _url: exchanges.append, memory_bytes_max=50)
    for size in (10, 10, 20):
        protocol.data_received(message(PLAIN, b"x" * size))
    assert protocol.memory.held_bytes == 40
    protocol.data_received(message(PLAIN, b"x" * 11))
    for exchange in exchanges:
        exchange.respond(200, b"", b"")
    assert [each.status for each in responses(line.take())] == [200, 200, 200, 503]
    assert protocol.memory.held_bytes == 0


def test_who_is_no_longer_welcome_is_turned_away_though_its_head_is_known():
    class Guarded(Desk):
        is_open = True

        def welcome(self, _exchange):
            if not self.is_open:
                raise Forbidden("closed")

    desk = Guarded()
    protocol, line, _ = connect(desk.match)
    for _ in range(3):
        protocol.data_received(message(PLAIN, b"a"))
    desk.is_open = False
    protocol.data_received(message(PLAIN, b"a"))
    desk.is_open = True
    protocol.data_received(message(PLAIN, b"a"))
    assert [each.status for each in responses(line.take())] == [200, 200, 200, 403, 200]


def test_one_connection_does_not_know_the_heads_of_another(parsed):
    desk = Desk()
    first, _, _ = connect(desk.match)
    second, _, _ = connect(desk.match)
    for _ in range(3):
        first.data_received(message(PLAIN, b"a"))
    second.data_received(message(PLAIN, b"a"))
    assert len(parsed) == 3


def test_after_another_request_the_head_before_it_is_not_taken_for_the_last(parsed):
    desk = Desk()
    protocol, line, loop = connect(desk.match)
    for _ in range(3):
        protocol.data_received(message(PLAIN, b"a"))
    protocol.data_received(post("/cold", b"c"))
    protocol.data_received(message(PLAIN, b"b"))
    while loop.tasks:
        loop.run_tasks()
    assert [each.body for each in responses(line.take())] == [b"a", b"a", b"a", b"/cold", b"b"]
    assert len(parsed) == 4


@pytest.mark.parametrize(
    ("sent", "length"),
    [
        (SENT, b""),
        (SENT, b"4"),
        (SENT + b"d", b"3"),
        (SENT[:-1], b"3"),
        (message(PLAIN.replace(b"X-Last: 1", b"Content-Length: LENGTH"), b"abc"), b"3"),
        (SENT.replace(b"X-Last: 1", b"a: b\nContent-Length: 3"), b"3"),
        (b"", b"0"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_learned(sent, length):
    assert head_of(sent, length) is None
