"""What doors hand to the engine and what they get back: once, by callback, on the loop's thread."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from xirang.backends.requests import About, Responded
from xirang.core.event import RunEnded
from xirang.errors import XirangError
from xirang.tensors.tensor import Array, Tensor


class Ran(msgspec.Struct, frozen=True, gc=False):
    """How a run went, told once for all who shared it.

    Attributes:
        rows: Rows of the run.
        padding: Share of its elements that were padding, 0…1.
        start_ns: When it was cut.
        end_ns: When its results were back on the loop.
        assemble_ns: The part of it on the instance before the model.
        split_ns: The part of it after the model.
        event: The run and its outcome, for whoever asks why.
    """

    rows: int
    padding: float
    start_ns: int
    end_ns: int
    assemble_ns: int = 0
    split_ns: int = 0
    event: RunEnded | None = None


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A request's outputs and how it came by them.

    Attributes:
        outputs: Name to array, in the model's order; only the outputs asked for.
        queue_ns: Arrival to start of the run.
        ran: The run it shared (the last one, if it was cut into parts).
        request_id: Its number in that run.
        version: Of the model that gave it.
        is_cropped: Whether the request was longer than the model takes, and cut.
        stand_in: The cheaper model that gave it, under overload; empty if it was the one asked for.
        lacks: In what it is less than usual, under overload; empty if it is not.
    """

    outputs: dict[str, Array]
    queue_ns: int
    ran: Ran
    request_id: int = 0
    version: str = "1"
    is_cropped: bool = False
    stand_in: str = ""
    lacks: str = ""


Reply = Callable[[Answer | XirangError], None]


class Terms(NamedTuple):
    """On what terms a request is served.

    Attributes:
        priority: 1 is the highest, 0 the default.
        client: A number that is the same for all requests of one client.
        tenant: Whose allowance it draws on; empty for nobody's.
        fast: Whether it takes the fast lane; None: its priority and budget decide.
        is_inner: Whether it is made for another request, which is in already.
    """

    priority: int = 0
    client: int = 0
    tenant: str = ""
    fast: bool | None = None
    is_inner: bool = False


class Call(msgspec.Struct, gc=False):
    """One request as a door decoded it.

    Attributes:
        model: Name of the model.
        inputs: Name to tensor.
        reply: Called exactly once, with an answer or an error, on the loop's thread; it must not
            raise, and may be called before `Engine.submit` returns.
        version: None for the served one.
        outputs: Names wanted; None or none for all.
        budget_ns: Latency budget; None for the model's default.
        priority: 1 is the highest, 0 the model's default.
        client: A number that is the same for all requests of one client.
        tenant: Whose allowance it draws on; empty for nobody's.
        fast: Whether it takes the fast lane; None: its priority and budget decide.
        arrival_ns: When its head was there, from which its budget runs; 0 for now.
        about: What the client says of it besides its tensors, for models that want to know.
        is_inner: Whether it is made for another request, which is in already.
        take_part: Takes parts of the answer as they come, if it may come in several; the reply gets
            what remains then, which may be nothing.
    """

    model: str
    inputs: dict[str, Tensor]
    reply: Reply
    version: str | None = None
    outputs: tuple[str, ...] | None = None
    budget_ns: int | None = None
    priority: int = 0
    client: int = 0
    tenant: str = ""
    fast: bool | None = None
    arrival_ns: int = 0
    about: About | None = None
    is_inner: bool = False
    take_part: Callable[[Responded], None] | None = None


def settling(future: "asyncio.Future[dict[str, Array]]") -> Reply:
    """The `Reply` of a call that somebody awaits."""

    def reply(answer: Answer | XirangError) -> None:
        if future.done():
            return
        if isinstance(answer, XirangError):
            future.set_exception(answer)
        else:
            future.set_result(answer.outputs)

    return reply
