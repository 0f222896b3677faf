"""Against `h2`, another implementation of HTTP/2, as the client."""

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingAckReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes
from hypothesis import given, settings, strategies as st
from tests.frontends.grpc.http2.wire import FIELDS

from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.events import Opened, Received
from xirang.frontends.grpc.http2.frames import ErrorCode
from xirang.frontends.grpc.http2.heads import block_of

HEAD = b"\x88" + block_of([(b"content-type", b"application/grpc")])
TRAILERS = block_of([(b"grpc-status", b"0")])


class Pair:
    """A client of h2's and a server of ours, joined."""

    def __init__(self, initial_window=None):
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.initiate_connection()
        if initial_window is not None:
            self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: initial_window})
        self.server = ServerConnection()
        self.bodies = {}
        self.answers = {}
        self.seen = []

    def ask(self, stream_id, body):
        self.client.send_headers(stream_id, FIELDS)
        self.left = body

    def turn(self):
        """Bytes one way and the other; returns whether there were any."""
        going = self.client.data_to_send()
        for event in self.server.receive(going):
            if isinstance(event, Opened):
                self.bodies[event.stream_id] = b""
            if isinstance(event, Received):
                self.bodies[event.stream_id] += event.data
                self.server.invite(event.stream_id, 1 << 20)
        coming = self.server.take()
        for event in self.client.receive_data(coming):
            self.seen.append(event)
            if isinstance(event, DataReceived):
                self.answers[event.stream_id] = self.answers.get(event.stream_id, b"") + event.data
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        return bool(going or coming)

    def settle(self):
        while self.turn():
            pass

    def of(self, kind):
        return [event for event in self.seen if isinstance(event, kind)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=4),
    st.lists(st.integers(0, 300_000), min_size=1, max_size=4),
    st.sampled_from([None, 1, 100, 1 << 20]),
)
def test_bodies_of_every_size_arrive_whole_both_ways(up, down, window):
    if window == 1:
        up, down = [size // 1000 for size in up], [size // 1000 for size in down]
    pair = Pair(window)
    pair.settle()
    for number, size in enumerate(up):
        stream_id, body = 2 * number + 1, bytes([number]) * size
        pair.client.send_headers(stream_id, FIELDS)
        while body:
            room = pair.client.local_flow_control_window(stream_id)
            piece, body = body[: min(room, 16_384)], body[min(room, 16_384) :]
            pair.client.send_data(stream_id, piece)
            pair.turn()
        pair.client.end_stream(stream_id)
        pair.settle()
        assert pair.bodies[stream_id] == bytes([number]) * size
        answer = bytes([100 + number]) * down[number % len(down)]
        pair.server.respond(stream_id, HEAD, (b"", answer), len(answer), TRAILERS)
    pair.settle()
    assert pair.server.streams_open == 0
    for number in range(len(up)):
        assert len(pair.answers.get(2 * number + 1, b"")) == down[number % len(down)]
    assert len(pair.of(StreamEnded)) == len(pair.of(TrailersReceived)) == len(up)
    assert {tuple(event.headers) for event in pair.of(ResponseReceived)} == {
        ((b":status", b"200"), (b"content-type", b"application/grpc"))
    }


def test_pings_resets_and_farewells_are_understood():
    pair = Pair()
    pair.client.ping(b"12345678")
    for stream_id in (1, 3):
        pair.client.send_headers(stream_id, FIELDS)
    pair.settle()
    pair.server.reset(1, ErrorCode.CANCEL)
    pair.server.ping()
    pair.settle()
    pair.server.leave()
    pair.settle()
    assert [event.ping_data for event in pair.of(PingAckReceived)] == [b"12345678"]
    assert [(event.stream_id, event.error_code) for event in pair.of(StreamReset)] == [(1, 8)]
    (farewell,) = pair.of(ConnectionTerminated)
    assert (farewell.error_code, farewell.last_stream_id) == (0, 3)


@pytest.mark.parametrize("padding", [0, 5, 255])
def test_padding_and_priority_are_seen_through(padding):
    pair = Pair()
    pair.client.send_headers(1, FIELDS, priority_weight=7, priority_depends_on=0)
    pair.client.send_data(1, b"body", pad_length=padding)
    pair.client.prioritize(1, weight=9)
    pair.client.end_stream(1)
    pair.settle()
    assert pair.bodies == {1: b"body"}
