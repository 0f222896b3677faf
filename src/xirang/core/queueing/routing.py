"""Which lane of its model a request waits in, and how urgent it is among all of them."""

from xirang.core.request import PRIORITY_HIGH, PRIORITY_NORMAL, Request

_BOOSTS = {PRIORITY_HIGH: 2, PRIORITY_NORMAL: 4}
"""A priority is worth this part of the budget: high a half, normal a quarter, low nothing."""

_WEIGHTS = {PRIORITY_HIGH: 4, PRIORITY_NORMAL: 2}


def cost_class(work_ns: float) -> int:
    """The bucket of a predicted device time: each is twice as wide as the one before."""
    return int(work_ns).bit_length()


def urgency_ns(request: Request, *, age_ns_max: int) -> int:
    """A virtual deadline to sort by: earlier for higher priorities, never later than the true one.

    Earliest virtual deadline first keeps a low priority from being starved and a high one from
    standing behind work that has time to spare. Who has no budget ages, and so does who has a very
    long one.
    """
    budget_ns = min(request.deadline_ns - request.arrival_ns, age_ns_max)
    part = _BOOSTS.get(request.priority)
    if part is not None:
        budget_ns -= budget_ns // part
    return request.arrival_ns + budget_ns


def weight(priority: int) -> int:
    """What a request on time is worth where not all can be."""
    return _WEIGHTS.get(priority, 1)
