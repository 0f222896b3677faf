"""What a client asked for, as the scheduler sees it: numbers, never tensors."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import prod

PRIORITY_HIGH, PRIORITY_NORMAL, PRIORITY_LOW = 1, 2, 3
"""Importance as the Open Inference Protocol's clients send it: 1 is the highest."""

NEVER_NS = 1 << 62
"""The deadline of a request without a budget: it does not expire, and becomes urgent by age."""


@dataclass(slots=True, eq=False)
class Request:
    """One client's call, from the door to the answer.

    Attributes:
        id: Unique among all requests that one scheduler ever sees.
        model: Name of the model that shall answer.
        arrival_ns: When the door had the whole request.
        deadline_ns: When its latency budget is spent; `NEVER_NS` where it has none.
        priority: 1 is the highest.
        rows: Rows along the batch axis.
        length: What may be padded (tokens of a row); 1 where nothing varies. Of several lengths
            (an image's height and width) the product.
        lengths: Each of them, where there are several; a run's target is the largest of each.
        group: What must be equal to share a batch, beyond the model.
        client: A number that is the same for all requests of a client: under overload it is
            always the same clients that are turned away.
        tenant: Whose allowance it draws on; empty for nobody's.
        fast: Whether it takes the fast lane; None: by the policy.
        entered_ns: When it was admitted; the scheduler sets it. 0 for at its arrival.
        urgency_ns: The virtual deadline that it waits by; the backlog sets it.
        cost_class: Of the lane that it waits in; the backlog sets it.
    """

    id: int
    model: str
    arrival_ns: int
    deadline_ns: int
    priority: int = PRIORITY_NORMAL
    rows: int = 1
    length: int = 1
    group: Hashable = None
    lengths: tuple[int, ...] = ()
    client: int = 0
    tenant: str = ""
    fast: bool | None = None
    urgency_ns: int = 0
    entered_ns: int = 0
    cost_class: int = 0


def target_of(requests: Sequence[Request]) -> tuple[int, ...]:
    """The largest of each length, for requests that have several."""
    return tuple(map(max, zip(*[request.lengths for request in requests], strict=True)))


def mean_length(requests: Sequence[Request]) -> int:
    """What a row of these has on the average, where rows stand as they are."""
    rows = sum([request.rows for request in requests])
    return -(-sum([request.rows * request.length for request in requests]) // rows)


def packed_size(requests: Sequence[Request]) -> tuple[int, int]:
    """The elements of all rows of these, which stand end to end, and of the longest row."""
    elements = sum([request.rows * request.length for request in requests])
    return elements, max([request.length for request in requests])


def target_size(requests: Sequence[Request]) -> int | tuple[int, ...]:
    """What all of these are padded to in one run, each of several lengths."""
    if requests[0].lengths:
        return target_of(requests)
    return max([request.length for request in requests])


def target_length(requests: Sequence[Request]) -> int:
    """What all of these are padded to in one run."""
    if requests[0].lengths:
        return prod(target_of(requests))
    return max([request.length for request in requests])
