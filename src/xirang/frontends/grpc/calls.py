"""The calls of one connection: events of HTTP/2 find theirs, answers find their streams."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from xirang.errors import TooBusy
from xirang.frontends.errors import Dawdled
from xirang.frontends.grpc.call_head import CallHead, read_call
from xirang.frontends.grpc.framing import PREFIX_BYTES, Inbox, beginning, ending, framed
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.events import Ended, Event, Opened, Received
from xirang.frontends.grpc.servicer import Servicer
from xirang.frontends.grpc.status import NotServed, Status, status_of
from xirang.frontends.wire.dawdlers import RATE_BYTES_MIN

UNREAD_BYTES_MAX = 64 << 20
"""Answers that a client does not take: its new calls are turned away."""
UNREAD_PUSHBACK_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Switchboard:
    """What all calls of a door share.

    Attributes:
        makers: By path, what makes a call of a procedure.
        servicer: Answers.
        message_bytes_max: Of a message, as sent and unpacked.
        level: How hard answers are packed; 0: not at all.
        client_timeout_s: How long a client may take to finish a message.
    """

    makers: "Mapping[str, MakeCall]"
    servicer: Servicer
    message_bytes_max: int
    level: int
    client_timeout_s: float

    def inbox(self, head: CallHead) -> Inbox:
        """For the messages of a call."""
        return Inbox(self.servicer.memory, self.message_bytes_max, head.coding)


class Call(Protocol):
    """One, as its connection sees it."""

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """A piece of its body."""

    def fail(self, status: Status) -> None:
        """It cannot go on."""

    def cancel(self) -> None:
        """Its client went away."""

    def end(self) -> None:
        """The server stops: it may end when all that came is answered."""

    def tick(self) -> None:
        """A second has passed."""


class Resumable(Protocol):
    """A call that waits until its client has taken answers."""

    def advance(self) -> None:
        """Go on."""


MakeCall = Callable[["Calls", int, CallHead], Call]


class Calls:
    """Those of one connection.

    Attributes:
        board: Of the door.
        http: Its connection.
        on_output: Called when there is something to send.
    """

    __slots__ = ("_calls", "_full", "_number", "board", "http", "on_output")

    def __init__(
        self,
        board: Switchboard,
        http: ServerConnection,
        number: int,
        on_output: Callable[[], None],
    ) -> None:
        """Begin.

        Args:
            board: Of the door.
            http: Where the events come from.
            number: That stands for this connection.
            on_output: Called when there is something to send.
        """
        self.board = board
        self.http = http
        self.on_output = on_output
        self._number = number
        self._calls: dict[int, Call] = {}
        self._full: set[Resumable] = set()  # that wait until their clients have taken answers

    def handle(self, events: Iterable[Event]) -> None:
        """Do what they ask for."""
        calls = self._calls
        for event in events:
            if isinstance(event, Received):
                if (call := calls.get(event.stream_id)) is not None:
                    self._feed(call, event.data, is_last=event.is_last)
            elif isinstance(event, Opened):
                self._open(event)
            elif isinstance(event, Ended):
                if (call := calls.pop(event.stream_id, None)) is not None:
                    call.cancel()
            else:
                self.abandon()

    def answer(self, stream_id: int, message: bytes, coding: str | None) -> None:
        """Send a whole response of one message; with it the call ends well."""
        self._calls.pop(stream_id, None)
        parts = framed(message, self.board.level, coding)
        size = PREFIX_BYTES + len(parts[1])
        self.http.respond(stream_id, beginning(coding), parts, size, ending())
        self.on_output()

    def begin(self, stream_id: int, coding: str | None) -> None:
        """Send the head of a response."""
        self.http.headers(stream_id, beginning(coding))

    def send(self, stream_id: int, message: bytes, coding: str | None) -> None:
        """Send a message."""
        parts = framed(message, self.board.level, coding)
        self.http.data(stream_id, parts, PREFIX_BYTES + len(parts[1]))
        self.on_output()

    def finish(self, stream_id: int, status: Status | None, *, is_begun: bool) -> None:
        """A call has ended, well or not."""
        self._calls.pop(stream_id, None)
        self.http.end(stream_id, ending(status, is_all=not is_begun))
        self.on_output()

    def wait_for_room(self, call: Resumable) -> None:
        """Tell it when its client has taken answers."""
        self._full.add(call)

    def sent(self) -> None:
        """Some of what was to be sent is sent."""
        if self._full:
            waiting, self._full = self._full, set()
            for call in waiting:
                call.advance()

    def tick(self) -> None:
        """A second has passed."""
        for call in tuple(self._calls.values()):
            call.tick()

    def end(self) -> None:
        """The server stops."""
        for call in tuple(self._calls.values()):
            call.end()

    def abandon(self) -> None:
        """The client went away: take back what waits."""
        calls, self._calls = self._calls, {}
        self._full.clear()
        for call in calls.values():
            call.cancel()

    def _open(self, event: Opened) -> None:
        head = event.head
        if head.read is None:
            head.read = self._read(event)
        if isinstance(head.read, bytes):
            self.http.end(event.stream_id, head.read)
            self.on_output()
            return
        make, call_head = head.read
        call = self._calls[event.stream_id] = make(self, event.stream_id, call_head)
        if self.http.unsent_bytes > UNREAD_BYTES_MAX:
            busy = TooBusy("answers wait to be read", retry_after_ns=UNREAD_PUSHBACK_NS)
            call.fail(status_of(busy))
        elif event.is_whole:
            self._feed(call, b"", is_last=True)

    def _read(self, event: Opened) -> bytes | tuple[MakeCall, CallHead]:
        found = read_call(event.head, self._number)
        if isinstance(found, bytes):
            return found
        make = self.board.makers.get(found.path)
        if make is None:
            unknown = NotServed(f"Method not found: {found.path}")
            return ending(status_of(unknown), is_all=True)
        return make, found

    def _feed(self, call: Call, data: bytes, *, is_last: bool) -> None:
        try:
            call.receive(data, is_last=is_last)
        except Exception as error:  # one call's fault is not the connection's
            call.fail(status_of(error))


def check_pace(call: Call, board: Switchboard, owed_s: int, inbox: Inbox | None) -> None:
    """End a call of which a message has been on its way for too long."""
    came_bytes = 0 if inbox is None else inbox.held_bytes
    if owed_s > board.client_timeout_s + came_bytes / RATE_BYTES_MIN:
        call.fail(status_of(Dawdled("the rest of the message did not come in time")))
