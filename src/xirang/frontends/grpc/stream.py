"""Streams: many requests on one call, each answered when it is ready."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from xirang.frontends.grpc.infer import Response, delimited
from xirang.frontends.grpc.inference import SCHEMA, message
from xirang.frontends.grpc.reflection import Reflection
from xirang.frontends.grpc.servicer import STREAM_PATH, Envelope, Servicer
from xirang.frontends.grpc.standard import REFLECTION_PACKAGES
from xirang.frontends.grpc.status import Status, status_of
from xirang.frontends.service import Ticket

StreamResponse = message("ModelStreamInferResponse")

INFER_RESPONSE_TAG = b"\x12"
"""What stands before a response in the message of a stream, its second field."""

FINAL = {"triton_final_response": True}
"""Of the last response to a request; most models give one."""


class Stream(Protocol):
    """The receiving end of one, as a transport sees it."""

    def receive(self, message: bytes, envelope: Envelope) -> None:
        """Take in one request; each gets one response."""

    def end(self) -> None:
        """No more requests come."""

    def abandon(self) -> None:
        """The client went away: take back what waits."""


Send = Callable[[bytes], None]
OnAnswered = Callable[[], None]
OnFinished = Callable[[], None]
BeginStream = Callable[[Send, OnAnswered, OnFinished], Stream]
"""Begins a stream, given what takes each response's bytes, what is called behind the last response
to each request, and what is called once when no more requests come and all are answered."""


def streams_of(servicer: Servicer) -> dict[str, BeginStream]:
    """All procedures with streams, by path."""
    return {STREAM_PATH: partial(InferStream, servicer)} | {
        f"/{package}.ServerReflection/ServerReflectionInfo": partial(
            ReflectionStream, Reflection(SCHEMA, package)
        )
        for package in REFLECTION_PACKAGES
    }


class ReflectionStream:
    """Answers each request at once."""

    def __init__(
        self, answer: Reflection, send: Send, on_answered: OnAnswered, on_finished: OnFinished
    ) -> None:
        self._answer = answer
        self._send = send
        self._on_answered = on_answered
        self._on_finished = on_finished

    def receive(self, message: bytes, _: Envelope) -> None:
        """Take in one request."""
        self._send(self._answer(message))
        self._on_answered()

    def end(self) -> None:
        """No more requests come."""
        self._on_finished()

    def abandon(self) -> None:
        """The client went away: nothing waits."""


class InferStream:
    """`ModelStreamInfer`: requests in, answers out in any order, each with its request's id.

    What is wrong with one request is told inside the stream, which goes on.
    """

    def __init__(
        self,
        servicer: Servicer,
        send: Send,
        on_answered: OnAnswered,
        on_finished: OnFinished,
    ) -> None:
        self._servicer = servicer
        self._send = send
        self._on_answered = on_answered
        self._on_finished = on_finished
        self._tickets: dict[int, Ticket | None] = {}
        self._received = 0
        self._is_ended = False
        self._is_abandoned = False

    def receive(self, message: bytes, envelope: Envelope) -> None:
        """Take in one request."""
        number = self._received = self._received + 1
        self._tickets[number] = None
        identity = ""
        try:
            asked = self._servicer.read(message)
            identity = asked.id
            ticket = self._servicer.submit(
                asked,
                envelope,
                partial(self._answered, number, identity),
                parameters=FINAL,
                on_part=partial(self._tell, identity),
            )
        except Exception as error:
            self._answered(number, identity, status_of(error))
            return
        if number in self._tickets:  # it may have been answered already
            self._tickets[number] = ticket

    def end(self) -> None:
        """No more requests come."""
        if not self._is_ended:
            self._is_ended = True
            self._finish_if_done()

    def abandon(self) -> None:
        """The client went away: take back what waits."""
        self._is_abandoned = True
        for ticket in list(self._tickets.values()):
            if ticket is not None:
                ticket.cancel()

    def _answered(self, number: int, identity: str, result: bytes | Status) -> None:
        del self._tickets[number]
        if result != b"":
            self._tell(identity, result)
        if not self._is_abandoned:
            self._on_answered()
            self._finish_if_done()

    def _tell(self, identity: str, result: bytes | Status) -> None:
        if self._is_abandoned:
            return
        if isinstance(result, Status):
            inner = Response(id=identity)
            response = StreamResponse(error_message=result.text, infer_response=inner)
            self._send(response.SerializeToString())
        else:
            self._send(delimited(INFER_RESPONSE_TAG, result))

    def _finish_if_done(self) -> None:
        if self._is_ended and not self._tickets:
            self._on_finished()
