"""Streams: many requests on one call, each answered when it is ready."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from xirang.frontends.grpc.infer import EMPTY_FINAL_RESPONSE, Request, Response
from xirang.frontends.grpc.inference import SCHEMA, message
from xirang.frontends.grpc.reflection import Reflection
from xirang.frontends.grpc.servicer import STREAM_PATH, Envelope, Servicer, parsed
from xirang.frontends.grpc.standard import REFLECTION_PACKAGES
from xirang.frontends.grpc.status import Status, status_of
from xirang.frontends.service import Ticket

StreamResponse = message("ModelStreamInferResponse")

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
OnFinished = Callable[[], None]
BeginStream = Callable[[Send, OnFinished], Stream]
"""Begins a stream, given what takes each response's bytes, and what is called once when no more
requests come and all are answered."""


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

    def __init__(self, answer: Reflection, send: Send, on_finished: OnFinished) -> None:
        self._answer = answer
        self._send = send
        self._on_finished = on_finished

    def receive(self, message: bytes, _: Envelope) -> None:
        """Take in one request."""
        self._send(self._answer(message))

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
        on_finished: OnFinished,
    ) -> None:
        self._servicer = servicer
        self._send = send
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
            request = parsed(Request, message)
            identity = request.id
            wants_empty = EMPTY_FINAL_RESPONSE in request.parameters
            finish = partial(self._answered, number, identity, wants_empty=wants_empty)
            ticket = self._servicer.submit(
                request,
                len(message),
                envelope,
                finish,
                parameters=FINAL,
                on_part=partial(self._tell, identity),
            )
        except Exception as error:
            self._answered(number, identity, status_of(error), wants_empty=True)
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

    def _answered(self, number: int, identity: str, result: Any, *, wants_empty: bool) -> None:
        del self._tickets[number]
        # A model that answers in parts may have nothing left for the end.
        if isinstance(result, Status) or result.outputs or wants_empty:
            self._tell(identity, result)
        if not self._is_abandoned:
            self._finish_if_done()

    def _tell(self, identity: str, result: Any) -> None:
        if self._is_abandoned:
            return
        if isinstance(result, Status):
            response = StreamResponse(
                error_message=result.text, infer_response=Response(id=identity)
            )
        else:
            response = StreamResponse(infer_response=result)
        self._send(response.SerializeToString())

    def _finish_if_done(self) -> None:
        if self._is_ended and not self._tickets:
            self._on_finished()
