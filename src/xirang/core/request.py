"""What a client asked for, as the scheduler sees it: numbers, never tensors."""

from collections.abc import Hashable
from dataclasses import dataclass

PRIORITY_HIGH, PRIORITY_NORMAL, PRIORITY_LOW = 1, 2, 3
"""Importance as the Open Inference Protocol's clients send it: 1 is the highest."""


@dataclass(slots=True, eq=False)
class Request:
    """One client's call, from the door to the answer.

    Attributes:
        id: Unique among all requests that one scheduler ever sees.
        model: Name of the model that shall answer.
        arrival_ns: When the door had the whole request.
        deadline_ns: When its latency budget is spent.
        priority: 1 is the highest.
        rows: Rows along the batch axis.
        length: What may be padded (tokens of a row); 1 where nothing varies. Of several lengths
            (an image's height and width) the product.
        lengths: Each of them, where there are several; a run's target is the largest of each.
        group: What must be equal to share a batch, beyond the model.
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
