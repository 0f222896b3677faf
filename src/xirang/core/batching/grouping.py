"""From urgent requests to the runs they could make, by the model's way of batching."""

from collections.abc import Sequence
from operator import attrgetter

from xirang.core.batching.partition import Bounds, Cut, first_come, partition
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.request import Request

_LENGTH = attrgetter("length")


def runs_of(
    urgent: Sequence[Request], *, policy: Policy, cost: CostModel
) -> list[Sequence[Request]]:
    """The runs that requests of one model could make.

    Args:
        urgent: The most urgent first; not empty.
        policy: The model's.
        cost: The model's.

    Returns:
        For a model that cannot pad, or whose batching does not look at lengths, only the run of
        the most urgent; else all runs of the cheapest partition of those that may share one.
    """
    if len(urgent) == 1:
        return [urgent]
    head = urgent[0].group
    mates = [request for request in urgent if request.group == head]
    bounds = Bounds(rows_max=policy.rows_max, elements_max=policy.elements_max)
    if policy.batching is Batching.OPTIMAL and policy.can_pad:
        mates.sort(key=_LENGTH)
        cuts = partition(
            [request.length for request in mates],
            [request.rows for request in mates],
            call_ns=cost.call_ns(),
            row_ns=cost.row_ns,
            bounds=bounds,
        )
        return [mates[start:stop] for start, stop in cuts]
    if policy.batching is Batching.FIRST_COME:
        bounds = Bounds(rows_max=policy.rows_max)
    start, stop = _first_run(mates, bounds)
    return [mates[start:stop]]


def _first_run(mates: Sequence[Request], bounds: Bounds) -> Cut:
    # A run holds at least a row a request, so a prefix this long decides the first cut.
    prefix = mates[: bounds.rows_max + 1]
    lengths = [request.length for request in prefix]
    return first_come(lengths, [request.rows for request in prefix], bounds=bounds)[0]
