"""What doors hand to the engine and what they get back: once, by callback, on the loop's thread."""

from collections.abc import Callable

import msgspec

from xirang.errors import XirangError
from xirang.tensors.tensor import Array, Tensor


class Ran(msgspec.Struct, frozen=True, gc=False):
    """How a run went, told once for all who shared it.

    Attributes:
        rows: Rows of the run.
        padding: Share of its elements that were padding, 0…1.
        start_ns: When it was cut.
        end_ns: When its results were back on the loop.
    """

    rows: int
    padding: float
    start_ns: int
    end_ns: int


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A request's outputs and how it came by them.

    Attributes:
        outputs: Name to array, in the model's order; only the outputs asked for.
        queue_ns: Arrival to start of the run.
        ran: The run it shared (the last one, if it was cut into parts).
    """

    outputs: dict[str, Array]
    queue_ns: int
    ran: Ran


Reply = Callable[[Answer | XirangError], None]


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
