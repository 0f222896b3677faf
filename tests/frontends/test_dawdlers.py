"""Slow clients: those that owe us a request, and those that do not read their answers."""

import pytest
from tests.frontends.puppets import connect, get, post, responses
from tests.frontends.test_http import Desk

from xirang.frontends.wire.dawdlers import RATE_BYTES_MIN, SWEEP_SECONDS, Dawdlers

PATIENCE = 10


@pytest.fixture
def desk():
    return Desk()


def watched(desk, **limits):
    protocol, line, loop = connect(desk.match, **limits)
    return protocol, line, loop, Dawdlers(protocol.connections, loop=loop, seconds=PATIENCE)


BEGINNINGS = {
    "nothing": (b"", None),
    "half a head": (post("/hot", b"abc")[:20], 408),
    "a head without its body": (post("/hot", b"abc")[:-3], 408),
    "half a body": (post("/hot", b"abc")[:-1], 408),
    "half a cold body": (post("/cold", b"abc")[:-1], 408),
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_whoever_begins_and_does_not_go_on_is_closed(desk, name):
    data, status = BEGINNINGS[name]
    protocol, line, loop, _ = watched(desk)
    if data:
        protocol.data_received(data)
    loop.advance(PATIENCE - 1)
    assert not line.closed
    assert line.sent == b""
    loop.advance(PATIENCE)
    assert line.closed
    assert [response.status for response in responses(line.sent)] == ([status] if status else [])
    loop.run_tasks()  # the application sees that its client has gone
    loop.run_tasks()
    assert not loop.tasks


def test_a_byte_now_and_then_does_not_help(desk):
    protocol, line, loop, _ = watched(desk)
    request = post("/hot", b"x" * 100)
    for byte in request[:15]:
        if line.has_sent_eof or line.closed:
            break
        protocol.data_received(bytes([byte]))
        loop.advance(1)
    assert responses(line.sent)[0].status == 408


def test_a_steady_upload_may_take_its_time(desk):
    protocol, line, loop, _ = watched(desk, body_bytes_max=1 << 30)
    piece = b"x" * RATE_BYTES_MIN
    protocol.data_received(post("/hot", piece * 60)[: -60 * RATE_BYTES_MIN])
    for _ in range(60):
        protocol.data_received(piece)
        loop.advance(1)
    desk.answer(body=b"done")
    assert responses(line.take())[0].body == b"done"


def test_whoever_waits_for_an_answer_is_left_alone(desk):
    protocol, line, loop, _ = watched(desk)
    protocol.data_received(post("/hot", b"1"))
    loop.advance(100 * PATIENCE)
    assert not line.closed
    desk.answer()
    assert responses(line.take())[0].body == b"1"


def test_whoever_does_not_read_is_cut_off(desk):
    protocol, line, loop, _ = watched(desk)
    protocol.data_received(post("/hot", b"1"))
    protocol.pause_writing()
    desk.answer()
    loop.advance(PATIENCE - 1)
    assert not line.closed
    loop.advance(2)
    assert line.closed


def test_whoever_goes_on_reading_is_not(desk):
    protocol, line, loop, _ = watched(desk)
    for _ in range(5):
        protocol.data_received(post("/hot", b"1"))
        protocol.pause_writing()
        desk.answer()
        loop.advance(PATIENCE - 2)
        protocol.resume_writing()
        loop.advance(1)
    assert len(responses(line.sent)) == 5
    assert not line.closed


def test_a_pipeline_that_we_do_not_read_is_not_the_clients_fault(desk):
    protocol, line, loop, _ = watched(desk)
    protocol.data_received(post("/hot", b"1") * 64 + post("/hot", b"2")[:-1])
    assert line.is_paused
    loop.advance(10 * PATIENCE)
    assert not line.closed


def test_one_client_too_many_is_told_so(desk):
    first, _, loop = connect(desk.match, connections_max=1)
    second, line, _ = connect(desk.match, connections_max=1, beside=first)
    assert responses(line.sent)[0].status == 503
    assert line.closed
    assert len(first.connections) == 2
    second.connection_lost(None)
    third, line, _ = connect(desk.match, connections_max=1, beside=first)
    assert line.closed
    third.connection_lost(None)
    first.connection_lost(None)
    _, line, _ = connect(desk.match, connections_max=1, beside=first)
    assert not line.closed
    assert loop is not None


def test_the_watch_can_be_ended(desk):
    protocol, line, loop, dawdlers = watched(desk)
    protocol.data_received(get("/c")[:5])
    dawdlers.close()
    loop.advance(100 * PATIENCE + SWEEP_SECONDS)
    assert not line.closed
