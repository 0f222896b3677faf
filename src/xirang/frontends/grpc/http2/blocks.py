"""A block of fields out of the frames in which it comes (sections 6.2 and 6.10)."""

from typing import NamedTuple

from xirang.frontends.grpc.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PADDED,
    PRIORITISED,
    ConnectionFault,
    ErrorCode,
    unpadded,
)
from xirang.frontends.grpc.http2.limits import CONTINUATIONS_MAX, LIST_BYTES_MAX

PRIORITY_BYTES = 5
WHOLE = END_HEADERS | END_STREAM
"""Flags of headers that are all in one frame, as they are, the last of them or not."""


class Block(NamedTuple):
    """All of one.

    Attributes:
        stream_id: Of its stream.
        is_last: Nothing follows on the stream.
        data: Its bytes.
    """

    stream_id: int
    is_last: bool
    data: bytes


class Assembly:
    """Puts blocks together, one at a time: nothing else may come before the last piece of one."""

    __slots__ = ("_continuations", "_data", "_is_last", "_stream_id")

    def __init__(self) -> None:
        self._data = b""
        self._is_last = False
        self._stream_id = self._continuations = 0

    def begin(self, flags: int, stream_id: int, payload: bytes) -> Block | None:
        """A frame of headers; the block, if that is all of it.

        Raises:
            ConnectionFault: The frame contradicts itself.
        """
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients' streams have odd numbers")
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITISED:
            if len(payload) < PRIORITY_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "headers without their priority")
            payload = payload[PRIORITY_BYTES:]
        if flags & END_HEADERS:
            return Block(stream_id, bool(flags & END_STREAM), payload)
        self._data, self._stream_id, self._is_last = payload, stream_id, bool(flags & END_STREAM)
        self._continuations = 0
        return None

    def go_on(self, flags: int, stream_id: int, payload: bytes) -> Block | None:
        """A frame that continues them; the block, if that is the last of it.

        Raises:
            ConnectionFault: There is nothing to continue, or it does not end.
        """
        if not self._stream_id or stream_id != self._stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "there is nothing to continue")
        self._continuations += 1
        self._data += payload
        if self._continuations > CONTINUATIONS_MAX or len(self._data) > LIST_BYTES_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "headers without an end")
        if not flags & END_HEADERS:
            return None
        block = Block(stream_id, self._is_last, self._data)
        self._stream_id, self._data = 0, b""
        return block
