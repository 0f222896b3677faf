"""All bodies together have a bound, whoever sends them and however they come."""

import gzip

import pytest
from tests.frontends.puppets import connect, post, responses
from tests.frontends.test_http import Desk

LIMIT = 1000
CHUNKED = b"POST /hot HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture
def desk():
    return Desk()


def pair(desk):
    """Two connections of one server."""
    first, line, _ = connect(desk.match, memory_bytes_max=LIMIT)
    second, other, _ = connect(desk.match, beside=first)
    return (first, line), (second, other)


def test_bodies_that_wait_and_bodies_that_come_count_together(desk):
    (first, _), (second, other) = pair(desk)
    first.data_received(post("/hot", b"x" * 600))
    assert first.memory.held_bytes == 600
    second.data_received(CHUNKED + b"190\r\n" + b"x" * 400 + b"\r\n")
    assert first.memory.held_bytes == LIMIT
    second.data_received(b"1\r\nx\r\n")
    (response,) = responses(other.sent)
    assert response.status == 503
    assert response.headers["retry-after"] == "1"
    assert response.headers["x-should-retry"] == "true"
    assert first.memory.held_bytes == 600
    assert len(desk.exchanges) == 1


def test_what_cannot_fit_is_refused_before_it_is_sent(desk):
    (first, _), (second, other) = pair(desk)
    first.data_received(post("/hot", b"x" * 600))
    head = post("/hot", b"x" * 401, "expect: 100-continue")[:-401]
    second.data_received(head)
    assert responses(other.sent)[0].status == 503
    assert b"100 Continue" not in other.sent


def test_an_announced_body_takes_no_room_before_it_comes(desk):
    (first, line), (second, _) = pair(desk)
    second.data_received(post("/hot", b"x" * LIMIT)[:-LIMIT])
    assert first.memory.held_bytes == 0
    first.data_received(post("/hot", b"y"))
    desk.answer()
    assert responses(line.sent)[0].body == b"y"


def test_the_answer_gives_the_room_back_also_to_those_who_wait_for_their_turn(desk):
    (first, line), _ = pair(desk)
    first.data_received(post("/hot", b"a" * 300) + post("/hot", b"b" * 300))
    desk.answer(1)
    assert first.memory.held_bytes == 300
    assert line.sent == b""
    assert first._turns[1].body == b""
    desk.answer()
    assert first.memory.held_bytes == 0
    assert [response.body[:1] for response in responses(line.sent)] == [b"a", b"b"]


@pytest.mark.parametrize("unsent", [0, 1])
def test_a_client_that_vanishes_gives_it_back(desk, unsent):
    (first, _), _ = pair(desk)
    request = post("/hot", b"x" * 300)
    first.data_received(request[: len(request) - unsent])
    assert first.memory.held_bytes == 300 - unsent
    first.connection_lost(None)
    assert first.memory.held_bytes == 0
    if desk.exchanges:
        desk.answer()
    assert first.memory.held_bytes == 0


def test_what_is_unpacked_counts_as_large_as_it_is(desk):
    (first, line), _ = pair(desk)
    packed = gzip.compress(b"x" * 800)
    first.data_received(post("/hot", packed, "content-encoding: gzip"))
    assert first.memory.held_bytes == 800
    first.data_received(post("/hot", packed, "content-encoding: gzip"))
    desk.answer()
    assert [response.status for response in responses(line.take())] == [200, 503]
    assert first.memory.held_bytes == 0
    first.data_received(post("/hot", packed, "content-encoding: gzip"))
    desk.answer()
    assert responses(line.take())[0].status == 200


def test_a_refused_upload_takes_no_room(desk):
    (first, line), _ = pair(desk)
    first.data_received(CHUNKED + b"3e8\r\n" + b"x" * LIMIT + b"\r\n1\r\nx\r\n")
    assert responses(line.sent)[0].status == 503
    assert first.memory.held_bytes == 0
    assert first._chunks is None
    first.data_received(b"x" * 5000)
    assert first.memory.held_bytes == 0
