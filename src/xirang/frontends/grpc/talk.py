"""A call with many messages each way, as many at once as client and server can hold."""

from xirang.frontends.grpc.call_head import CallHead
from xirang.frontends.grpc.calls import Calls, check_pace
from xirang.frontends.grpc.framing import Garbled
from xirang.frontends.grpc.http2.limits import STREAM_ROOM
from xirang.frontends.grpc.servicer import Envelope
from xirang.frontends.grpc.status import Status, status_of
from xirang.frontends.grpc.stream import BeginStream

UNANSWERED_MAX = 1024
"""Requests of one stream that are in; the client waits beyond it."""
UNREAD_BYTES_MAX = 4 << 20
"""Answers of one stream that the client does not take; no more requests of it are taken then."""


class Talk:
    """A call with many messages each way."""

    __slots__ = (
        "_begun_ns",
        "_calls",
        "_coding",
        "_head",
        "_inbox",
        "_is_advancing",
        "_is_answering",
        "_is_heard",
        "_owed_s",
        "_stream",
        "_stream_id",
        "_taken_bytes",
        "_unanswered",
    )

    def __init__(self, begin: BeginStream, calls: Calls, stream_id: int, head: CallHead) -> None:
        self._calls: Calls | None = calls
        self._stream_id = stream_id
        self._head = head
        self._begun_ns = calls.board.servicer.now_ns() if head.timeout_ns is not None else 0
        self._inbox = calls.board.inbox(head)
        self._coding = head.accepted if calls.board.level else None
        self._is_heard = self._is_advancing = self._is_answering = False
        self._owed_s = self._taken_bytes = self._unanswered = 0
        self._stream = begin(self.send, self.answered, self.finish)

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """A piece of its body."""
        if self._is_heard:
            return
        self._is_heard = is_last
        self._taken_bytes += len(data)
        self._inbox.feed(data)
        self.advance()

    def advance(self) -> None:
        """Hand over the messages that are there, as many as may be in at once."""
        if self._is_advancing or self._calls is None:
            return
        self._is_advancing = True
        try:
            while self._has_room() and (message := self._inbox.take()) is not None:
                self._owed_s = 0
                self._unanswered += 1
                self._stream.receive(message, self._envelope(self._calls))
            self._settle()
        except Exception as error:
            self.fail(status_of(error))
        finally:
            self._is_advancing = False

    def send(self, message: bytes) -> None:
        """Send an answer."""
        if (calls := self._calls) is None:
            return
        if not self._is_answering:
            self._is_answering = True
            calls.begin(self._stream_id, self._coding)
        calls.send(self._stream_id, message, self._coding)

    def answered(self) -> None:
        """One more of its messages has got its last answer."""
        self._unanswered -= 1
        if self._is_heard or not self._inbox.is_empty:
            self.advance()

    def finish(self, status: Status | None = None) -> None:
        """There are no more answers."""
        if (calls := self._calls) is not None:
            self._release()
            calls.finish(self._stream_id, status, is_begun=self._is_answering)

    def fail(self, status: Status) -> None:
        """It cannot go on."""
        self.finish(status)
        self.cancel()

    def cancel(self) -> None:
        """Its client went away."""
        self._release()
        self._stream.abandon()

    def end(self) -> None:
        """The server stops: it ends as soon as all that came is answered."""
        self._is_heard = True
        self._inbox.clear()
        self._stream.end()

    def tick(self) -> None:
        """A second has passed: is the rest of a message still to come?"""
        if self._calls is not None and not self._inbox.is_empty and self._has_room():
            self._owed_s += 1
            check_pace(self, self._calls.board, self._owed_s, self._inbox)

    def _has_room(self) -> bool:
        calls = self._calls
        if calls is None or self._unanswered >= UNANSWERED_MAX:
            return False
        if calls.http.unsent_of(self._stream_id) <= UNREAD_BYTES_MAX:
            return True
        calls.wait_for_room(self)
        return False

    def _settle(self) -> None:
        """No more messages can be handed over now: let the client go on, or the call end."""
        inbox = self._inbox
        if self._calls is not None:
            inbox.settle()
        if not self._has_room() or (calls := self._calls) is None:
            return
        if self._is_heard:
            if not inbox.is_empty:
                raise Garbled("the last message is not whole")
            self._stream.end()
            return
        wanted_bytes = inbox.missing_bytes
        if self._taken_bytes >= STREAM_ROOM // 2:
            self._taken_bytes = 0
            wanted_bytes = max(wanted_bytes, STREAM_ROOM)
        calls.http.invite(self._stream_id, wanted_bytes)

    def _envelope(self, calls: Calls) -> Envelope:
        if self._head.timeout_ns is None:
            return self._head.envelope
        return self._head.envelope_at(self._begun_ns, calls.board.servicer.now_ns())

    def _release(self) -> None:
        self._calls = None
        self._inbox.clear()
