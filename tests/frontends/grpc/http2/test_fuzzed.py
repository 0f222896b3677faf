"""Whatever comes, in whatever pieces: no surprise, the same events, and nothing kept behind."""

from hypothesis import given, settings, strategies as st
from tests.frontends.grpc.http2.wire import BLOCK, HELLO, data, frames_of, headers

from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.events import Ended, Failed, Opened, Received
from xirang.frontends.grpc.http2.frames import ErrorCode, frame

ids = st.integers(0, 9)
flags = st.integers(0, 255)
anything = st.builds(frame, st.integers(0, 11), flags, ids, st.binary(max_size=24))
blocks = st.sampled_from([BLOCK, BLOCK[:9], BLOCK[9:], b"", b"\x82", b"\xff", b"\x3f\xe1\x1f"])
likely = st.one_of(
    st.builds(headers, st.sampled_from([1, 3, 5, 7]), blocks, st.sampled_from([0, 1, 4, 5, 4, 5])),
    st.builds(data, st.sampled_from([1, 3, 5, 7]), st.binary(max_size=9), st.sampled_from([0, 1])),
    st.builds(frame, st.just(frames.CONTINUATION), st.sampled_from([0, 4]), ids, blocks),
    st.builds(frames.window_update, ids, st.sampled_from([0, 1, 70_000, 2**31 - 1])),
    st.builds(frames.reset, st.sampled_from([1, 3, 5]), st.sampled_from(ErrorCode)),
    st.builds(
        lambda number, value: frames.settings({number: value}),
        st.integers(1, 7),
        st.sampled_from([0, 1, 5, 16_384, 70_000, 2**31]),
    ),
    st.just(frame(frames.PING, 0, 0, bytes(8))),
)
flows = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(anything, likely), max_size=20).map(b"".join).map(HELLO.__add__),
    st.lists(likely, max_size=30).map(b"".join).map(HELLO.__add__),
)


class Driven:
    """A connection whose requests are answered or not, its events held to be in order."""

    def __init__(self, answers=False):
        self.answers = answers
        self.connection = ServerConnection()
        self.events = []
        self.streams = {}
        self.sent = b""

    def receive(self, piece):
        for event in self.connection.receive(piece):
            assert not any(isinstance(each, Failed) for each in self.events)
            self.events.append(event)
            self.see(event)
        self.sent += self.connection.take()

    def see(self, event):
        if isinstance(event, Opened):
            assert event.stream_id > max(self.streams, default=0)
            self.streams[event.stream_id] = event.is_whole
        elif isinstance(event, Received):
            assert self.streams[event.stream_id] is False, "nothing comes behind the last"
            self.streams[event.stream_id] = event.is_last
        elif isinstance(event, Ended):
            assert self.streams[event.stream_id] is not None
            self.streams[event.stream_id] = None
        if self.answers and isinstance(event, Opened | Received) and self.streams[event.stream_id]:
            self.connection.respond(event.stream_id, b"\x88", (b"12", b"345"), 5, b"\x88")

    def told(self):
        """The events, as far as they can be compared."""
        return [
            (event.stream_id, event.head.path, event.is_whole)
            if isinstance(event, Opened)
            else event
            for event in self.events
        ]


@settings(max_examples=200, deadline=None)
@given(flows, st.data())
def test_any_cut_of_the_bytes_gives_the_same_events(flow, drawn):
    whole, cut = Driven(), Driven()
    whole.receive(flow)
    while flow:
        size = drawn.draw(st.integers(1, max(1, len(flow))))
        piece, flow = flow[:size], flow[size:]
        cut.receive(piece)
    assert cut.told() == whole.told()
    frames_of(whole.sent)  # whole frames, whatever came
    cut.receive(b"")
    assert cut.sent == whole.sent
    assert cut.connection.is_over == whole.connection.is_over


@settings(max_examples=150, deadline=None)
@given(flows)
def test_at_the_end_nothing_is_kept(flow):
    driven = Driven(answers=True)
    for at in range(0, len(flow), 50):
        driven.receive(flow[at : at + 50])
    connection = driven.connection
    for stream_id, is_whole in driven.streams.items():
        if is_whole is not None:
            connection.reset(stream_id, ErrorCode.CANCEL)
    assert connection.streams_open == 0
    assert connection.unsent_bytes == 0
    assert len(connection._buffer) <= 16_384 + 9
