"""A connection of HTTP/2 seen from the server, without a socket and without a clock.

How it works. Bytes go into `receive`, which gives events; what is said back is put in by `respond`
and its like, and comes out of `take` as far as the client's windows let it. Who breaks the rules
is answered as RFC 9113 has it: a stream is ended (section 5.4.2), or the connection is (5.4.1).
Who keeps them and only makes work spends its patience: `tick` gives some back every second.
"""

from collections.abc import Callable

from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.blocks import WHOLE, Assembly
from xirang.frontends.grpc.http2.events import Ended, Event, Failed, Opened, Received
from xirang.frontends.grpc.http2.frames import (
    ACK,
    END_STREAM,
    FRAME_BYTES,
    FRAME_BYTES_MAX,
    HEAD,
    HEAD_BYTES,
    ID_MASK,
    NUMBER,
    PADDED,
    PREFACE,
    SETTING,
    WINDOW,
    WINDOW_MAX,
    ConnectionFault,
    ErrorCode,
)
from xirang.frontends.grpc.http2.heads import HeadReader
from xirang.frontends.grpc.http2.limits import (
    IDLE_A_SECOND,
    IDLE_EARNED,
    IDLE_MAX,
    OURS,
    RESETS_A_SECOND,
    RESETS_MAX,
    ROOM,
    SETTINGS_COST,
    STREAM_ROOM,
    STREAMS_MAX,
    Patience,
)
from xirang.frontends.grpc.http2.sending import Sending, Stream


class ServerConnection:
    """One client's.

    Attributes:
        is_over: It has failed: there is nothing more to receive.
        is_leaving: The client was told to begin no more streams.
        received: How many frames have come.
    """

    __slots__ = (
        "_assembly",
        "_buffer",
        "_events",
        "_heads",
        "_idle",
        "_last_id",
        "_only",
        "_resets",
        "_room",
        "_sending",
        "_streams",
        "is_leaving",
        "is_over",
        "received",
    )

    def __init__(self) -> None:
        self._streams: dict[int, Stream] = {}
        self._sending = Sending(self._streams)
        self._assembly = Assembly()
        self._heads = HeadReader()
        self._idle = Patience(IDLE_MAX, IDLE_A_SECOND)
        self._resets = Patience(RESETS_MAX, RESETS_A_SECOND)
        self._events: list[Event] = []
        self._buffer = b""
        self._only = _PREFACE  # what alone may come now; _ANY for any frame
        self._last_id = 0
        self._room = ROOM
        self.is_over = self.is_leaving = False
        self.received = 0
        self._sending.put(frames.settings(OURS) + frames.window_update(0, ROOM - WINDOW))

    @property
    def is_owed(self) -> bool:
        """Whether the client has begun to say something, and owes the rest."""
        return bool(self._buffer) or self._only != _ANY

    @property
    def streams_open(self) -> int:
        """How many streams there are."""
        return len(self._streams)

    @property
    def has_more(self) -> bool:
        """Whether there is something to take."""
        return self._sending.has_more

    @property
    def unsent_bytes(self) -> int:
        """What waits until the client wants it."""
        return self._sending.unsent_bytes

    def unsent_of(self, stream_id: int) -> int:
        """The same of one stream."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.unsent_bytes

    def receive(self, data: bytes) -> list[Event]:
        """Bytes have come; what they mean."""
        if self.is_over:
            return []
        events = self._events = []
        try:
            self._buffer = self._read(self._buffer + data if self._buffer else data)
        except ConnectionFault as fault:
            self._fail(fault)
        return events

    def take(self) -> bytes:
        """The bytes that go to the client now."""
        sending = self._sending
        taken = sending.take()
        if sending.whole:
            self._idle.earn(IDLE_EARNED * sending.whole)
            sending.whole = 0
        return taken

    def respond(
        self, stream_id: int, head: bytes, parts: tuple[bytes, ...], size: int, trailers: bytes
    ) -> None:
        """Send a whole response: its fields, its body in parts and their size, and trailers."""
        if (stream := self._streams.get(stream_id)) is not None:
            self._sending.respond(stream, head, parts, size, trailers)

    def headers(self, stream_id: int, block: bytes) -> None:
        """Begin a response."""
        if (stream := self._streams.get(stream_id)) is not None:
            self._sending.headers(stream, block)

    def data(self, stream_id: int, parts: tuple[bytes, ...], size: int) -> None:
        """Go on with it: some parts, and their size together."""
        if (stream := self._streams.get(stream_id)) is not None:
            self._sending.data(stream, parts, size)

    def end(self, stream_id: int, block: bytes) -> None:
        """Finish it by trailers; the stream is over as soon as they are sent."""
        if (stream := self._streams.get(stream_id)) is not None:
            self._sending.end(stream, block)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """End a stream at once."""
        if (stream := self._streams.pop(stream_id, None)) is not None:
            self._sending.drop(stream)
            self._sending.put(frames.reset(stream_id, code))

    def invite(self, stream_id: int, size_bytes: int) -> None:
        """Let the client send so many bytes on a stream, if it may not already."""
        stream = self._streams.get(stream_id)
        if stream is not None and stream.room < size_bytes and not stream.is_heard:
            self._sending.put(frames.window_update(stream_id, size_bytes - stream.room))
            stream.room = size_bytes

    def ping(self) -> None:
        """Ask whether the client is there; whatever it says is an answer."""
        self._sending.put(frames.frame(frames.PING, 0, 0, bytes(8)))

    def leave(self) -> None:
        """Let the client begin no more streams; those that there are go on (section 6.8)."""
        if not self.is_leaving:
            self.is_leaving = True
            self._sending.put(frames.goaway(self._last_id, ErrorCode.NO_ERROR))

    def close(self, code: ErrorCode, reason: str) -> list[Event]:
        """Give the client up; what that means."""
        events = self._events = []
        if not self.is_over:
            self._fail(ConnectionFault(code, reason))
        return events

    def tick(self, stalled_s_max: float) -> list[Event]:
        """A second has passed; what that means.

        Args:
            stalled_s_max: For how long a client may take nothing of a response that waits.
        """
        events = self._events = []
        self._idle.renew()
        self._resets.renew()
        if self._sending.unsent_bytes:
            for stream in tuple(self._streams.values()):
                stream.stalled_s += bool(stream.unsent)
                if stream.stalled_s > stalled_s_max:
                    self.reset(stream.id, ErrorCode.CANCEL)
                    events.append(Ended(stream.id, ErrorCode.CANCEL))
        return events

    def _fail(self, fault: ConnectionFault) -> None:
        self.is_over = True
        self._buffer = b""
        for stream in self._streams.values():
            self._sending.drop(stream)
        self._streams.clear()
        self._sending.put(frames.goaway(self._last_id, fault.code, str(fault)))
        self._events.append(Failed(fault.code, str(fault)))

    def _break(self, stream_id: int, code: ErrorCode) -> None:
        """A stream cannot go on."""
        if stream_id in self._streams:
            self.reset(stream_id, code)
            self._events.append(Ended(stream_id, code))
        else:
            self._sending.put(frames.reset(stream_id, code))
        self._spend_reset()

    def _spend_reset(self) -> None:
        if not self._resets.spend():
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many streams end too early")

    def _spend(self, amount: int = 1) -> None:
        if not self._idle.spend(amount):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that move nothing")

    # ------------------------------------------------------------------ frames

    def _read(self, data: bytes) -> bytes:
        """Take in all frames that are whole; the rest."""
        at, end = 0, len(data)
        if self._only == _PREFACE:
            if not data.startswith(PREFACE[:end]):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "this is not HTTP/2")
            if end < len(PREFACE):
                return data
            at, self._only = len(PREFACE), frames.SETTINGS
        unpack = HEAD.unpack_from
        while end - at >= HEAD_BYTES:
            high, low, kind, flags, stream_id = unpack(data, at)
            start = at + HEAD_BYTES
            stop = start + (high << 16 | low)
            if stop - start > FRAME_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a frame is too long")
            if stop > end:
                break
            if self._only not in (_ANY, kind):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "another frame was due")
            at = stop
            self.received += 1
            if kind < len(_READERS):
                _READERS[kind](self, flags, stream_id & ID_MASK, data[start:stop])
            else:
                self._spend()  # of a kind that we need not know (section 5.5)
        return data[at:] if at < end else b""

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._room -= size
        if self._room < ROOM // 2:  # so that it is never used up
            self._sending.put(frames.window_update(0, ROOM - self._room))
            self._room = ROOM
        if flags & PADDED:
            payload = frames.unpadded(payload)
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
            self._spend()  # it was on its way when the stream ended (section 5.1)
            return
        stream.room -= size
        if stream.is_heard:
            self._break(stream_id, ErrorCode.STREAM_CLOSED)
            return
        if stream.room < 0:
            self._break(stream_id, ErrorCode.FLOW_CONTROL_ERROR)
            return
        is_last = bool(flags & END_STREAM)
        if payload:
            self._idle.earn(IDLE_EARNED)
        elif not is_last:
            self._spend()
            return
        stream.is_heard = is_last
        self._events.append(Received(stream_id, payload, is_last))

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if flags | END_STREAM == WHOLE and stream_id & 1:  # as nearly always
            self._block(stream_id, payload, is_last=bool(flags & END_STREAM))
        elif (block := self._assembly.begin(flags, stream_id, payload)) is not None:
            self._block(block.stream_id, block.data, is_last=block.is_last)
        else:
            self._only = frames.CONTINUATION

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._assembly.go_on(flags, stream_id, payload)
        if block is not None:
            self._only = _ANY
            self._block(block.stream_id, block.data, is_last=block.is_last)

    def _block(self, stream_id: int, data: bytes, *, is_last: bool) -> None:
        if stream_id <= self._last_id:
            self._trailers(stream_id, data, is_last=is_last)
            return
        head = self._heads.read(data)
        if self.is_leaving:
            return  # it was told that this one will not be answered
        self._last_id = stream_id
        if head is None:
            self._break(stream_id, ErrorCode.PROTOCOL_ERROR)
        elif len(self._streams) >= STREAMS_MAX:
            self._break(stream_id, ErrorCode.REFUSED_STREAM)
        else:
            window = self._sending.stream_window
            self._streams[stream_id] = Stream(stream_id, STREAM_ROOM, window, is_last)
            self._events.append(Opened(stream_id, head, is_last))

    def _trailers(self, stream_id: int, block: bytes, *, is_last: bool) -> None:
        """Fields behind a body: they say only that it ends."""
        stream = self._streams.get(stream_id)
        if stream is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "that stream is closed")
        self._heads.skip(block)
        if stream.is_heard:
            self._break(stream_id, ErrorCode.STREAM_CLOSED)
        elif not is_last:
            self._break(stream_id, ErrorCode.PROTOCOL_ERROR)
        else:
            stream.is_heard = True
            self._events.append(Received(stream_id, b"", is_last=True))

    def _priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a priority of no stream")
        if len(payload) != 5:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a priority has five bytes")
        self._spend()

    def _rst_stream(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a reset has four bytes")
        stream = self._streams.pop(stream_id, None)
        if stream is None:
            self._check_known(stream_id)
            self._spend()
            return
        self._sending.drop(stream)
        self._events.append(Ended(stream_id, NUMBER.unpack(payload)[0]))
        self._spend_reset()

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings of a stream")
        if len(payload) % SETTING.size or (flags & ACK and payload):
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "settings have six bytes each")
        if flags & ACK:
            if self._only == frames.SETTINGS:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a connection begins with settings")
            self._spend()
            return
        self._only = _ANY
        self._spend(SETTINGS_COST)
        for number, value in SETTING.iter_unpack(payload):
            self._set(number, value)
        self._sending.put(frames.frame(frames.SETTINGS, ACK, 0))

    def _set(self, number: int, value: int) -> None:
        if number == frames.INITIAL_WINDOW_SIZE:
            self._set_window(value)
        elif number == frames.FRAME_SIZE_MAX:
            if not FRAME_BYTES <= value <= FRAME_BYTES_MAX:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "no such size of frames")
            self._sending.frame_bytes_max = value
        elif number == frames.ENABLE_PUSH and value > 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "push is 0 or 1")

    def _set_window(self, size: int) -> None:
        """It holds for the streams that there are, too (section 6.9.2)."""
        change = size - self._sending.stream_window
        self._sending.stream_window = size
        fits = size <= WINDOW_MAX
        for stream in self._streams.values():
            fits = self._sending.widen_stream(stream, change) and fits
        if not fits:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is too wide")

    def _push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "clients push nothing")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a ping of a stream")
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a ping has eight bytes")
        self._spend()
        if not flags & ACK:
            self._sending.put(frames.frame(frames.PING, ACK, 0, payload))

    def _goaway(self, _flags: int, stream_id: int, _payload: bytes) -> None:
        """The client wants nothing new of us: we push nothing, so that changes nothing."""
        if stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a farewell of a stream")
        self._spend()

    def _window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a window update has four bytes")
        self._spend()  # a byte at a time, it would be a flood of frames both ways (CVE-2019-9511)
        size = NUMBER.unpack(payload)[0] & WINDOW_MAX
        if not stream_id:
            if not size:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a window that stays as it is")
            if not self._sending.widen(size):
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "the window is too wide")
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        elif not size:
            self._break(stream_id, ErrorCode.PROTOCOL_ERROR)
        elif not self._sending.widen_stream(stream, size):
            self._break(stream_id, ErrorCode.FLOW_CONTROL_ERROR)

    def _check_known(self, stream_id: int) -> None:
        """Refuse what comes on a stream that was never begun (section 5.1)."""
        if not stream_id & 1 or (stream_id > self._last_id and not self.is_leaving):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "there is no such stream")


_ANY, _PREFACE = -1, -2

_READERS: tuple[Callable[[ServerConnection, int, int, bytes], None], ...] = (
    ServerConnection._data,
    ServerConnection._headers,
    ServerConnection._priority,
    ServerConnection._rst_stream,
    ServerConnection._settings,
    ServerConnection._push_promise,
    ServerConnection._ping,
    ServerConnection._goaway,
    ServerConnection._window_update,
    ServerConnection._continuation,
)
"""By kind of frame."""
