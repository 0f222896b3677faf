"""A strong plan for a long stream of unlike requests: known beforehand, who had better be refused.

Under overload a long request costs the device several short ones. An online scheduler learns that
while it has already run some; in hindsight one refuses the longest at the door, as many as it
takes. What comes of the rest is a plan that exists, so the clairvoyant's best is no less.
"""

from collections.abc import Callable, Sequence

from xirang.core.request import Request

REFUSED = (0.0, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Shares of the stream, the longest first, that are refused in turn."""


def most_on_time_found(
    requests: Sequence[Request], *, answered: Callable[[Sequence[Request]], int]
) -> int:
    """The most that were answered on time, over how many of the longest are refused.

    Args:
        requests: By arrival.
        answered: How many of a part of them a schedule answers on time.
    """
    order = sorted(range(len(requests)), key=lambda i: -requests[i].length)
    best = 0
    for share in REFUSED:
        refused = set(order[: int(share * len(requests))])
        rest = [request for i, request in enumerate(requests) if i not in refused]
        best = max(best, answered(rest))
    return best
