"""The protocol on a fake transport: order, keeping alive, limits, and clients that vanish."""

import gzip
import random
import zlib

import pytest
from hypothesis import given, settings, strategies as st
from tests.frontends.puppets import (
    connect,
    get,
    post,
    responses,
)

from xirang.errors import InvalidRequest, TooBusy
from xirang.frontends.wire.connection import LINGER_SECONDS, PIPELINE_MAX
from xirang.frontends.wire.http import HEAD_BYTES_MAX


class Desk:
    """A hot route that keeps the exchanges until the test answers them."""

    def __init__(self):
        self.exchanges = []
        self.gone = []

    def __call__(self, exchange):
        exchange.on_disconnect = lambda: self.gone.append(exchange)
        self.exchanges.append(exchange)

    def match(self, url):
        return self if url.startswith(b"/hot") else None

    def answer(self, index=0, body=None):
        exchange = self.exchanges.pop(index)
        exchange.respond(200, b"content-type: text/plain\r\n", body or exchange.body)


@pytest.fixture
def desk():
    return Desk()


def bodies(line):
    return [response.body for response in responses(line.take())]


CHUNKED = (
    b"POST /hot HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n2;note=1\r\nde\r\n0\r\n\r\n"
)

WHOLE_REQUESTS = {
    "plain": (post("/hot", b"abcde"), b"abcde"),
    "no body": (post("/hot"), b""),
    "query": (post("/hot?x=1", b"q"), b"q"),
    "chunked": (CHUNKED, b"abcde"),
    "gzip": (post("/hot", gzip.compress(b"abc"), "Content-Encoding: gzip"), b"abc"),
    "deflate": (post("/hot", zlib.compress(b"abc"), "content-encoding: deflate"), b"abc"),
    "identity": (post("/hot", b"abc", "content-encoding: identity"), b"abc"),
    "leading line feed": (b"\r\n" + post("/hot", b"a"), b"a"),
    "h2c upgrade": (
        post("/hot", b"up", "connection: Upgrade, HTTP2-Settings", "upgrade: h2c"),
        b"up",
    ),
    "cold": (get("/cold"), b"/cold"),
    "cold with body": (post("/cold%20", b"body"), b"/cold "),
}


def run_all(desk, loop):
    while desk.exchanges:
        desk.answer()
    while loop.tasks:
        loop.run_tasks()
        while desk.exchanges:
            desk.answer()


@pytest.mark.parametrize("name", WHOLE_REQUESTS)
def test_request_is_read_whole_byte_by_byte_and_with_another_behind(desk, name):
    sent, expected = WHOLE_REQUESTS[name]
    protocol, line, loop = connect(desk.match)
    protocol.data_received(sent)
    run_all(desk, loop)
    assert bodies(line) == [expected]
    if b"chunked" in sent or b"POST /cold" not in sent:
        for byte in sent:
            protocol.data_received(bytes([byte]))
        run_all(desk, loop)
        assert bodies(line) == [expected]
    protocol.data_received(sent + post("/hot", b"behind"))
    run_all(desk, loop)
    assert bodies(line) == [expected, b"behind"]
    assert not line.closed


def test_pipelined_requests_are_worked_on_at_once_and_answered_in_order(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"2") + post("/hot", b"3"))
    assert len(desk.exchanges) == 3
    desk.answer(2)
    desk.answer(1)
    assert line.take() == b""
    desk.answer(0)
    assert bodies(line) == [b"1", b"2", b"3"]


def test_hot_and_cold_pipelined_are_answered_in_order(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(
        post("/hot", b"1") + get("/c2") + post("/hot", b"3") + get("/c4") + get("/c5")
    )
    desk.answer(1)
    loop.run_tasks()
    assert line.take() == b"", "the cold request waits for the hot one before it"
    desk.answer(0)
    assert bodies(line) == [b"1"]
    while loop.tasks:
        loop.run_tasks()
    assert bodies(line) == [b"/c2", b"3", b"/c4", b"/c5"]
    assert not line.is_paused


def test_cold_first_holds_back_the_hot_answer(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(get("/c1") + post("/hot", b"2"))
    loop.run_tasks()
    desk.answer()
    assert line.take() == b""
    loop.run_tasks()
    assert bodies(line) == [b"/c1", b"2"]


def test_only_post_is_hot(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(get("/hot"))
    loop.run_tasks()
    loop.run_tasks()
    assert bodies(line) == [b"/hot"]
    assert not desk.exchanges


@pytest.mark.parametrize(
    ("version", "connection", "is_kept", "echo"),
    [
        ("1.1", None, True, None),
        ("1.1", "keep-alive", True, None),
        ("1.1", "close", False, "close"),
        ("1.0", None, False, "close"),
        ("1.0", "keep-alive", True, "keep-alive"),
        ("1.0", "close", False, "close"),
    ],
)
def test_connection_is_kept_as_the_client_asked(desk, version, connection, is_kept, echo):
    protocol, line, _ = connect(desk.match)
    extra = () if connection is None else (f"Connection: {connection}",)
    protocol.data_received(post("/hot", b"a", *extra, version=version) + post("/hot", b"b"))
    assert len(desk.exchanges) == (2 if is_kept else 1)
    desk.answer()
    response = responses(line.take())[0]
    assert response.headers.get("connection") == echo
    assert line.closed is not is_kept


def test_what_follows_a_cold_close_is_not_begun(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(get("/c", "connection: close") + post("/hot", b"b"))
    protocol.data_received(post("/hot", b"c"))
    loop.run_tasks()
    loop.run_tasks()
    assert not desk.exchanges
    assert bodies(line) == [b"/c"]
    assert line.closed


def test_client_that_waits_is_told_to_continue(desk):
    protocol, line, _ = connect(desk.match)
    head = post("/hot", b"abc", "Expect: 100-continue")[:-3]
    protocol.data_received(head)
    assert line.take() == b"HTTP/1.1 100 Continue\r\n\r\n"
    protocol.data_received(b"abc")
    desk.answer()
    assert bodies(line) == [b"abc"]


def test_continue_waits_for_its_turn(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"abc", "Expect: 100-continue")[:-3])
    assert line.take() == b""
    desk.answer()
    assert line.take().endswith(b"\r\n\r\n1HTTP/1.1 100 Continue\r\n\r\n")
    protocol.data_received(b"abc")
    desk.answer()
    assert bodies(line) == [b"abc"]


def test_idle_connection_is_closed_after_the_keep_alive_time(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(post("/hot", b"1"))
    desk.answer()
    loop.advance(4.9)
    protocol.data_received(post("/hot", b"2"))
    loop.advance(7)
    assert not line.closed, "a request is under way"
    desk.answer()
    loop.advance(4.9)
    assert not line.closed
    loop.advance(0.2)
    assert line.closed


def test_one_timer_serves_many_requests(desk):
    protocol, line, loop = connect(desk.match)
    for _ in range(20):
        protocol.data_received(post("/hot", b"1"))
        desk.answer()
        loop.advance(0.1)
    assert len(loop.timers) == 1
    loop.advance(4.8)
    assert not line.closed
    loop.advance(0.2)
    assert line.closed


REFUSED = {
    "announced": (post("/hot", b"x" * 11), 413),
    "announced, cold": (post("/cold", b"x" * 11), 413),
    "announced, before 100": (post("/hot", b"x" * 11, "expect: 100-continue")[:-11], 413),
    "chunked": (CHUNKED.replace(b"3\r\nabc", b"b\r\n" + b"x" * 11), 413),
    "garbage": (b"NONSENSE\r\n\r\n", 400),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "two lengths": (post("/hot", b"", "content-length: 3"), 400),
    "length and chunks": (post("/hot", b"", "transfer-encoding: chunked"), 400),
    "negative length": (b"POST /hot HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
    "bad chunk": (CHUNKED.replace(b"3\r\n", b"zz\r\n"), 400),
    "line feed in a header": (post("/hot", b"", "a: b\nc"), 400),
    "bomb": (post("/hot", gzip.compress(b"x" * 100)[:10] + b"", "content-encoding: gzip"), 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_turn_with_a_reason_and_closed(desk, name):
    sent, status = REFUSED[name]
    protocol, line, loop = connect(desk.match, body_bytes_max=10)
    protocol.data_received(post("/hot", b"1") + sent + post("/hot", b"3"))
    assert line.take() == b"", "not before the request ahead"
    desk.answer()
    found = responses(line.take())
    assert found[0].body == b"1"
    assert found[1].status == status
    assert found[1].body.startswith(b'{"error":"')
    if name != "bomb":
        assert found[1].headers["connection"] == "close"
        assert line.has_sent_eof
        protocol.data_received(b"x" * 1000)
        loop.advance(LINGER_SECONDS)
        assert line.closed


def test_decompression_is_bounded(desk):
    protocol, line, _ = connect(desk.match, body_bytes_max=5000)
    bomb = gzip.compress(bytes(1_000_000))
    protocol.data_received(post("/hot", bomb, "content-encoding: gzip") + post("/hot", b"b"))
    desk.answer()
    first, second = responses(line.take())
    assert first.status == 413
    assert second.body == b"b"


def test_unknown_coding_is_told_which_are_known(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"a", "content-encoding: br"))
    (response,) = responses(line.take())
    assert response.status == 501
    assert response.headers["accept-encoding"] == "gzip, deflate"


def test_endless_head_is_refused(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(b"POST /hot HTTP/1.1\r\nx: ")
    for _ in range(HEAD_BYTES_MAX // 1000):
        protocol.data_received(b"y" * 1000)
    assert not line.sent
    protocol.data_received(b"y" * 1000)
    assert responses(line.take())[0].status == 431


def test_large_body_after_a_split_head_is_not_a_large_head(desk):
    protocol, line, _ = connect(desk.match)
    request = post("/hot", b"z" * (3 * HEAD_BYTES_MAX))
    protocol.data_received(request[:20])
    protocol.data_received(request[20:])
    desk.answer()
    assert len(bodies(line)[0]) == 3 * HEAD_BYTES_MAX


def test_cold_request_cut_off_by_nonsense_is_let_go(desk):
    protocol, line, loop = connect(desk.match)
    head = b"POST /cold HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    protocol.data_received(head + b"1\r\na\r\n")
    loop.run_tasks()
    protocol.data_received(b"nonsense\r\n")
    assert responses(line.take())[0].status == 400
    loop.run_tasks()
    assert not loop.tasks
    assert not line.sent


def test_client_that_vanishes_takes_its_requests_with_it(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"2") + get("/c"))
    first, second = desk.exchanges
    second.respond(200, b"", b"")
    line.closed = True
    protocol.connection_lost(None)
    assert desk.gone == [first]
    first.respond(200, b"", b"late")
    loop.advance(60)
    assert line.sent == b""


def test_failing_cancel_does_not_stop_the_others(desk, caplog):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"2"))
    desk.exchanges[0].on_disconnect = lambda: 1 / 0
    line.closed = True
    protocol.connection_lost(ConnectionResetError())
    assert desk.gone == [desk.exchanges[1]]
    assert "could not be cancelled" in caplog.text


def test_nothing_is_written_to_a_closed_transport(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"2"))
    line.closed = True
    desk.answer()
    desk.answer()
    assert line.sent == b""


def test_slow_reader_gets_its_answers_when_it_has_caught_up(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + get("/c") + post("/hot", b"3"))
    protocol.pause_writing()
    assert line.is_paused
    desk.answer(0)
    desk.answer(0)
    assert line.sent == b""
    protocol.resume_writing()
    assert bodies(line) == [b"1"]
    while loop.tasks:
        loop.run_tasks()
    assert bodies(line) == [b"/c", b"3"]
    assert not line.is_paused


def test_too_many_unanswered_requests_stop_the_reading(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") * PIPELINE_MAX)
    assert line.is_paused
    desk.answer()
    assert not line.is_paused


def test_idle_connection_closes_at_shutdown(desk):
    protocol, line, _ = connect(desk.match)
    protocol.shutdown()
    assert line.closed


def test_shutdown_lets_the_requests_that_are_in_finish(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + get("/c") + post("/hot", b"3"))
    protocol.shutdown()
    assert not line.closed
    desk.answer()
    while loop.tasks:
        loop.run_tasks()
    assert bodies(line) == [b"1", b"/c"]
    assert not line.closed
    desk.answer()
    assert bodies(line) == [b"3"]
    assert line.closed


def test_shutdown_closes_with_the_last_answer(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1") + post("/hot", b"2")[:-1])
    protocol.shutdown()
    desk.answer()
    assert not line.closed
    protocol.data_received(b"2")
    desk.answer()
    first, second = responses(line.take())
    assert "connection" not in first.headers
    assert second.headers["connection"] == "close"
    assert line.closed


def test_shutdown_closes_after_a_cold_answer(desk):
    protocol, line, loop = connect(desk.match)
    protocol.data_received(get("/c"))
    loop.run_tasks()
    protocol.shutdown()
    loop.run_tasks()
    assert responses(line.take())[0].headers["connection"] == "close"
    assert line.closed


def test_server_headers_are_sent(desk):
    protocol, line, _ = connect(desk.match)
    protocol.server_state.default_headers = [(b"date", b"now"), (b"server", b"x")]
    protocol.data_received(post("/hot", b"1"))
    desk.answer()
    headers = responses(line.take())[0].headers
    assert headers["date"] == "now"
    assert headers["server"] == "x"
    assert protocol.server_state.total_requests == 1


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (InvalidRequest("no"), 400, b'{"error":"no"}'),
        (TooBusy("full", retry_after_ns=1_200_000_000), 429, b'{"error":"full"}'),
        (ZeroDivisionError("secret"), 500, b"internal error"),
    ],
)
def test_route_that_raises_is_answered_and_the_connection_lives(error, status, text, caplog):
    def route(_):
        raise error

    protocol, line, _ = connect(lambda url: route)
    protocol.data_received(post("/hot", b"1") * 2)
    for response in responses(line.take()):
        assert response.status == status
        assert text in response.body
        assert b"secret" not in response.body
    assert ("ZeroDivisionError" in caplog.text) is (status == 500)
    if status == 429:
        assert response.headers["retry-after"] == "2"
        assert response.headers["retry-after-ms"] == "1200"


def test_large_answer_is_whole(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"1"))
    desk.answer(0, b"y" * 100_000)
    assert bodies(line) == [b"y" * 100_000]


def test_offer_of_another_protocol_keeps_the_wish_to_close(desk):
    protocol, line, _ = connect(desk.match)
    protocol.data_received(post("/hot", b"up", "connection: close, Upgrade", "upgrade: h2c"))
    desk.answer()
    (response,) = responses(line.take())
    assert response.body == b"up"
    assert response.headers["connection"] == "close"
    assert line.closed


SPLICES = [b"", b"\r\n", b"\0", b":", b" ", b"-1", b"9" * 30, b"\xff", b"chunked", b"HTTP/1.0"]
HEAD = (
    b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: Upgrade\r\nUpgrade: x\r\n"
)


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.sampled_from([b"POST", b"GET", b"HEAD", b"CONNECT"]))
def test_mangled_bytes_never_break_the_connection(seed, verb):
    """Whatever comes: no exception, whole responses, nothing after a close (`Line` sees to it)."""
    desk, generator = Desk(), random.Random(seed)
    protocol, line, loop = connect(desk.match, body_bytes_max=50)
    sent = post("/hot", b"abc").replace(b"POST", verb) + CHUNKED.replace(b"host: x\r\n", HEAD)
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(sent) + 1)
        end = min(len(sent), start + generator.randint(0, 4))
        sent = sent[:start] + generator.choice(SPLICES) + sent[end:]
    while sent and not line.closed:
        size = generator.randint(1, 40)
        protocol.data_received(sent[:size])
        sent = sent[size:]
        if desk.exchanges and generator.random() < 0.5:
            desk.answer()
    while desk.exchanges:
        desk.answer()
    assert all(found.status < 500 for found in responses(line.take()))
    line.closed = True
    protocol.connection_lost(None)
    for task in loop.tasks:
        task.coroutine.close()
