"""What a client's bytes come to."""

import msgspec

from xirang.frontends.grpc.http2.frames import ErrorCode
from xirang.frontends.grpc.http2.heads import Head


class Opened(msgspec.Struct, frozen=True, gc=False):
    """A request has begun.

    Attributes:
        stream_id: Of its stream.
        head: Its fields.
        is_whole: Nothing follows.
    """

    stream_id: int
    head: Head
    is_whole: bool


class Received(msgspec.Struct, frozen=True, gc=False):
    """A piece of a request's body is there.

    Attributes:
        stream_id: Of its stream.
        data: May be empty.
        is_last: Nothing follows.
    """

    stream_id: int
    data: bytes
    is_last: bool


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A stream is no more, by the client's will or its fault: nothing can be sent on it.

    Attributes:
        stream_id: Of the stream.
        code: Why.
    """

    stream_id: int
    code: int


class Failed(msgspec.Struct, frozen=True, gc=False):
    """The connection is to be closed once what there is to send is sent. No event follows.

    Attributes:
        code: Why.
        reason: The same in words.
    """

    code: ErrorCode
    reason: str


Event = Opened | Received | Ended | Failed
