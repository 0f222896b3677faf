"""Which lane of its model a request waits in, and how urgent it is among all of them."""

from xirang.core.request import PRIORITY_HIGH, PRIORITY_NORMAL, Request

_BOOSTS = {PRIORITY_HIGH: 2, PRIORITY_NORMAL: 4}
"""A priority is worth this part of the budget: high a half, normal a quarter, low nothing."""


def cost_class(work_ns: float) -> int:
    """The bucket of a predicted device time: each is twice as wide as the one before."""
    return int(work_ns).bit_length()


def urgency_ns(request: Request) -> int:
    """A virtual deadline to sort by: earlier for higher priorities, never later than the true one.

    Earliest virtual deadline first keeps a low priority from being starved and a high one from
    standing behind work that has time to spare.
    """
    part = _BOOSTS.get(request.priority)
    if part is None:
        return request.deadline_ns
    return request.deadline_ns - (request.deadline_ns - request.arrival_ns) // part
