"""A client's frames, written by hand, and a server's frames, taken apart."""

from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.frames import HEAD, NUMBER, ErrorCode, frame
from xirang.frontends.grpc.http2.heads import block_of

FIELDS = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/a/b"),
    (b":authority", b"here"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]
BLOCK = block_of(FIELDS)
HELLO = frames.PREFACE + frames.settings({})


def headers(stream_id, block=BLOCK, flags=frames.END_HEADERS):
    return frame(frames.HEADERS, flags, stream_id, block)


def data(stream_id, payload=b"x", flags=0):
    return frame(frames.DATA, flags, stream_id, payload)


def whole(stream_id, payload=b"x"):
    return headers(stream_id) + data(stream_id, payload, frames.END_STREAM)


def frames_of(sent):
    """Kind, flags, stream and payload of each frame; it must be whole frames."""
    found = []
    while sent:
        high, low, kind, flags, stream_id = HEAD.unpack_from(sent)
        size = high << 16 | low
        assert len(sent) >= HEAD.size + size
        found.append((kind, flags, stream_id, sent[HEAD.size : HEAD.size + size]))
        sent = sent[HEAD.size + size :]
    return found


def resets_in(sent):
    """Stream and code of each reset."""
    return [
        (stream_id, ErrorCode(NUMBER.unpack(payload)[0]))
        for kind, _, stream_id, payload in frames_of(sent)
        if kind == frames.RST_STREAM
    ]


def farewell_in(sent):
    """The code of the last frame, which is a farewell; None if it is not."""
    kind, _, _, payload = frames_of(sent)[-1]
    return ErrorCode(NUMBER.unpack_from(payload, 4)[0]) if kind == frames.GOAWAY else None


def body_in(sent, stream_id):
    """The data of a stream, put together."""
    return b"".join(
        payload
        for kind, _, number, payload in frames_of(sent)
        if kind == frames.DATA and number == stream_id
    )


def greeted(*more):
    """A connection that has been begun, and has said its own settings."""
    connection = ServerConnection()
    assert connection.receive(HELLO + b"".join(more)) is not None
    connection.take()
    return connection
