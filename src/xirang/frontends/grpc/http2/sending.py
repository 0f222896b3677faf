"""What goes to a client, as far as its windows let it: frames in turn, one of each stream."""

from collections import deque
from collections.abc import MutableMapping

import msgspec

from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    FRAME_BYTES_MAX,
    HEAD,
    HEADERS,
    WINDOW,
    WINDOW_MAX,
    ErrorCode,
)

TAKEN_BYTES_MAX = 1 << 20
"""About what is handed out at once; the rest waits for the socket."""


class Stream(msgspec.Struct, eq=False, gc=False):
    """One, until the last byte of its response has been handed out.

    Attributes:
        id: Its number.
        room: What the client may still send on it.
        window: What may still be sent to the client.
        is_heard: The client has said all.
        unsent: What waits for a window; None if nothing ever has.
        unsent_bytes: The same, counted.
        trailers: What follows it; None as long as there may be more.
        is_lined_up: Waits for its turn, with a window that is open.
        stalled_s: For how many seconds nothing could be sent.
    """

    id: int
    room: int
    window: int
    is_heard: bool
    unsent: deque[memoryview] | None = None
    unsent_bytes: int = 0
    trailers: bytes | None = None
    is_lined_up: bool = False
    stalled_s: int = 0


class Sending:
    """The sending half of a connection.

    Attributes:
        window: What may still be sent, on all streams together.
        stream_window: How wide that of a new stream is.
        frame_bytes_max: The longest frame that the client takes.
        unsent_bytes: What waits for windows, of all streams.
        whole: How many frames with data no window has cut short, since they were last counted.
    """

    __slots__ = (
        "_line",
        "_out",
        "_streams",
        "frame_bytes_max",
        "stream_window",
        "unsent_bytes",
        "whole",
        "window",
    )

    def __init__(self, streams: MutableMapping[int, Stream]) -> None:
        """Begin.

        Args:
            streams: Those that are not over; whose response is sent is taken out.
        """
        self._streams = streams
        self._out: list[bytes | memoryview] = []
        self._line: deque[Stream] = deque()
        self.window = WINDOW
        self.stream_window = WINDOW
        self.frame_bytes_max = FRAME_BYTES
        self.unsent_bytes = 0
        self.whole = 0

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return bool(self._out) or (bool(self._line) and self.window > 0)

    def take(self) -> bytes:
        """The bytes that go now."""
        if self._line:
            self._advance()
        out, self._out = self._out, []
        return b"".join(out)

    def put(self, frame: bytes) -> None:
        """Send a frame that no window holds back."""
        self._out.append(frame)

    def respond(
        self, stream: Stream, head: bytes, parts: tuple[bytes, ...], size: int, trailers: bytes
    ) -> None:
        """A whole response; most are small, and leave in one piece.

        Args:
            stream: Whose response it is.
            head: Its fields.
            parts: Its body, one after the other.
            size: Of all of them.
            trailers: The fields behind it.
        """
        if (
            size > self.window
            or size > stream.window
            or size > self.frame_bytes_max
            or stream.unsent
        ):
            self.headers(stream, head)
            self.data(stream, parts, size)
            self.end(stream, trailers)
            return
        self.window -= size
        self.whole += 1
        stream_id, pack = stream.id, HEAD.pack
        self._out += (
            pack(0, len(head), HEADERS, END_HEADERS, stream_id),
            head,
            pack(size >> 16, size & 0xFFFF, DATA, 0, stream_id),
            *parts,
            pack(0, len(trailers), HEADERS, END_HEADERS | END_STREAM, stream_id),
            trailers,
        )
        self._over(stream)

    def headers(self, stream: Stream, block: bytes) -> None:
        """Begin a response."""
        assert len(block) <= FRAME_BYTES
        self._out += (HEAD.pack(0, len(block), HEADERS, END_HEADERS, stream.id), block)

    def data(self, stream: Stream, parts: tuple[bytes, ...], size: int) -> None:
        """Go on with it.

        Args:
            stream: Whose response it is.
            parts: One after the other.
            size: Of all of them.
        """
        if (
            size <= self.window
            and size <= stream.window
            and size <= self.frame_bytes_max
            and not stream.unsent
        ):
            self.whole += 1
            self._frame(stream, size)
            self._out += parts
            return
        if stream.unsent is None:
            stream.unsent = deque()
        stream.unsent.extend(map(memoryview, parts))
        stream.unsent_bytes += size
        self.unsent_bytes += size
        self._line_up(stream)

    def end(self, stream: Stream, block: bytes) -> None:
        """Finish it, behind what still waits."""
        if stream.unsent:
            stream.trailers = block
            return
        assert len(block) <= FRAME_BYTES
        ends = END_HEADERS | END_STREAM
        self._out += (HEAD.pack(0, len(block), HEADERS, ends, stream.id), block)
        self._over(stream)

    def drop(self, stream: Stream) -> None:
        """The stream is over: nothing more is sent on it."""
        self.unsent_bytes -= stream.unsent_bytes
        stream.unsent_bytes = 0
        stream.unsent = None

    def widen(self, size: int) -> bool:
        """The client takes so many bytes more in all; false if that is more than can be said."""
        self.window += size
        return self.window <= WINDOW_MAX

    def widen_stream(self, stream: Stream, size: int) -> bool:
        """The same on one stream; the size may be below 0."""
        stream.window += size
        self._line_up(stream)
        return stream.window <= WINDOW_MAX

    def _over(self, stream: Stream) -> None:
        del self._streams[stream.id]
        if not stream.is_heard:  # nobody wants the rest of the request (section 8.1)
            self._out.append(frames.reset(stream.id, ErrorCode.NO_ERROR))

    def _line_up(self, stream: Stream) -> None:
        if stream.unsent and stream.window > 0 and not stream.is_lined_up:
            stream.is_lined_up = True
            self._line.append(stream)

    def _advance(self) -> None:
        """One frame of each stream that has something to say, again and again."""
        line, left = self._line, TAKEN_BYTES_MAX
        while line and self.window > 0 and left > 0:
            stream = line.popleft()
            stream.is_lined_up = False
            if not stream.unsent or stream.window <= 0:
                continue  # it was dropped, or its window made narrower
            left -= self._advance_one(stream, stream.unsent)
            self._line_up(stream)
            if not stream.unsent and stream.trailers is not None:
                self.end(stream, stream.trailers)

    def _advance_one(self, stream: Stream, unsent: deque[memoryview]) -> int:
        """Send the next frame of a stream; how long it is."""
        piece = unsent[0]
        size = min(len(piece), self.window, stream.window, self.frame_bytes_max)
        if size == len(piece):
            unsent.popleft()
        else:
            unsent[0] = piece[size:]
        self.whole += size in (len(piece), self.frame_bytes_max)
        stream.unsent_bytes -= size
        self.unsent_bytes -= size
        stream.stalled_s = 0
        self._frame(stream, size)
        self._out.append(piece[:size])
        return size

    def _frame(self, stream: Stream, size: int) -> None:
        assert size <= FRAME_BYTES_MAX
        self.window -= size
        stream.window -= size
        self._out.append(HEAD.pack(size >> 16, size & 0xFFFF, DATA, 0, stream.id))
