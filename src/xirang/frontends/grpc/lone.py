"""A call with one message: gathered, handed over, answered.

A call of infer is a few callbacks and no task: its message goes to the servicer as soon as it is
whole, and the reply writes the response.
"""

from collections.abc import Callable

from xirang.frontends.grpc.call_head import CallHead
from xirang.frontends.grpc.calls import Calls, check_pace
from xirang.frontends.grpc.framing import Garbled, Inbox, lone_message
from xirang.frontends.grpc.servicer import Envelope
from xirang.frontends.grpc.status import Status
from xirang.frontends.service import Ticket

Begin = Callable[["Lone", bytes, Envelope], Ticket | None]
"""Begins to answer a call, given its message; what takes that back, if it is not answered yet."""


class Lone:
    """A call with one message, and one answer or, to a watch, several."""

    __slots__ = (
        "_begin",
        "_begun_ns",
        "_calls",
        "_coding",
        "_head",
        "_inbox",
        "_is_answering",
        "_is_begun",
        "_owed_s",
        "_stream_id",
        "_ticket",
    )

    def __init__(self, begin: Begin, calls: Calls, stream_id: int, head: CallHead) -> None:
        self._begin = begin
        self._calls: Calls | None = calls
        self._stream_id = stream_id
        self._head = head
        self._begun_ns = calls.board.servicer.now_ns() if head.timeout_ns is not None else 0
        self._inbox: Inbox | None = None
        self._ticket: Ticket | None = None
        self._coding = head.accepted if calls.board.level else None
        self._is_answering = self._is_begun = False
        self._owed_s = 0

    def receive(self, data: bytes, *, is_last: bool) -> None:
        """A piece of its body."""
        calls = self._calls
        if calls is None:
            return
        if self._is_begun:
            if data:
                raise Garbled("expected one message, and nothing behind it")
            return
        message = lone_message(data) if self._inbox is None else None
        if message is None and (message := self._gathered(calls, data, is_last=is_last)) is None:
            return
        self._is_begun = True
        head = self._head
        envelope = head.envelope
        if head.timeout_ns is not None:
            envelope = head.envelope_at(self._begun_ns, calls.board.servicer.now_ns())
        ticket = self._begin(self, message, envelope)
        if self._calls is not None:  # it may have been answered already
            self._ticket = ticket

    def answer(self, result: bytes | Status) -> None:
        """Send the one answer, or what went wrong."""
        if isinstance(result, Status):
            self.finish(result)
        elif (calls := self._calls) is not None:
            self._release()
            calls.answer(self._stream_id, result, self._coding)

    def send(self, message: bytes) -> None:
        """Send an answer."""
        if (calls := self._calls) is None:
            return
        if not self._is_answering:
            self._is_answering = True
            calls.begin(self._stream_id, self._coding)
        calls.send(self._stream_id, message, self._coding)

    def finish(self, status: Status | None) -> None:
        """There are no more answers."""
        if (calls := self._calls) is not None:
            self._release()
            calls.finish(self._stream_id, status, is_begun=self._is_answering)

    def fail(self, status: Status) -> None:
        """It cannot go on."""
        ticket = self._ticket
        self.finish(status)
        if ticket is not None:
            ticket.cancel()

    def cancel(self) -> None:
        """Its client went away."""
        ticket = self._ticket
        self._release()
        if ticket is not None:
            ticket.cancel()

    def end(self) -> None:
        """It ends by itself."""

    def tick(self) -> None:
        """A second has passed: is the rest of its message still to come?"""
        if not self._is_begun and self._calls is not None:
            self._owed_s += 1
            check_pace(self, self._calls.board, self._owed_s, self._inbox)

    def _gathered(self, calls: Calls, data: bytes, *, is_last: bool) -> bytes | None:
        """The message of a body that comes in pieces, when all are there."""
        inbox = self._inbox
        if inbox is None:
            inbox = self._inbox = calls.board.inbox(self._head)
        inbox.feed(data)
        message = inbox.take()
        if message is None and not is_last:
            inbox.settle()
            calls.http.invite(self._stream_id, inbox.missing_bytes)
            return None
        if message is None or not inbox.is_empty:
            raise Garbled("expected one whole message, and nothing behind it")
        inbox.clear()
        return message

    def _release(self) -> None:
        self._calls = self._ticket = None
        if self._inbox is not None:
            self._inbox.clear()
