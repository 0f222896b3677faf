"""From waiting requests to the runs they could make, by the model's way of batching."""

from collections.abc import Hashable, Sequence
from operator import attrgetter

from xirang.core.batching.areas import first_come_areas, partition_areas
from xirang.core.batching.partition import Bounds, Fitting, first_come, partition_shelves
from xirang.core.batching.shaping import filled, partition_table
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.request import Request, target_of

_ROWS, _LENGTH, _GROUP = attrgetter("rows"), attrgetter("length"), attrgetter("group")


def by_length(
    requests: Sequence[Request],
    lengths: Sequence[int],
    counts: Sequence[int],
    *,
    policy: Policy,
    cost: CostModel,
    fitting: Fitting | None = None,
) -> tuple[list[Sequence[Request]], float]:
    """The runs of the cheapest partition of requests that may be padded together.

    Args:
        requests: The shortest first; not empty.
        lengths: The different ones, ascending.
        counts: Requests of each.
        policy: The model's.
        cost: The model's.
        fitting: The rows of a length for which there could be memory; None for no bound.

    Returns:
        Its runs, and what they cost.
    """
    ends = requests if requests[0].lengths else (requests[0], requests[-1])
    bounds = _bounds(policy.rows_max, policy.elements_max, fitting, ends)
    if policy.row_sizes:
        return _filled_up(requests, policy, cost)
    if requests[0].lengths:
        cuts, cost_ns = partition_areas(requests, cost=cost, bounds=bounds)
    else:
        cuts, cost_ns = partition_shelves(
            lengths,
            counts,
            list(map(_ROWS, requests)),
            call_ns=cost.call_ns(),
            row_ns=row_costs(lengths, cost),
            bounds=bounds,
        )
    return [requests[start:stop] for start, stop in cuts], cost_ns


def in_order(
    urgent: Sequence[Request], *, policy: Policy, fitting: Fitting | None = None
) -> list[list[Sequence[Request]]]:
    """The runs of each group whose requests are not looked at by length, in the order given.

    Args:
        urgent: The first to go first; not empty.
        policy: The model's.
        fitting: See `by_length`.
    """
    if policy.batching is Batching.OFF or len(urgent) == 1:
        return [[urgent[:1]]]
    is_optimal = policy.batching is Batching.OPTIMAL
    elements_max = policy.elements_max if is_optimal else policy.elements_room
    bounds = _bounds(policy.rows_max, elements_max, fitting, urgent)
    return [_split(mates, bounds) for mates in _by_group(urgent)]


def _bounds(
    rows_max: int, elements_max: int | None, fitting: Fitting | None, requests: Sequence[Request]
) -> Bounds:
    """Bounds of runs of these: memory is none where shortest and longest have plenty."""
    bounds = Bounds(rows_max, elements_max)
    if fitting is None:
        return bounds
    if requests[0].lengths:
        has_plenty = fitting(target_of(requests)) >= rows_max
    else:
        found = [request.length for request in requests]
        ends = (min(found), max(found))
        has_plenty = all(fitting(length) >= bounds.rows_at(length) for length in ends)
    return bounds if has_plenty else Bounds(rows_max, elements_max, fitting)


def row_costs(lengths: Sequence[int], cost: CostModel) -> list[float]:
    """What one row costs at each length."""
    _, w1, w2, w3 = cost.weights
    if w1 + w2 + w3 <= 0.0:
        return [cost.row_ns(length) for length in lengths]
    if not w3:
        return [w1 + length * w2 for length in lengths]
    return [w1 + length * (w2 + length * w3) for length in lengths]


def _filled_up(
    requests: Sequence[Request], policy: Policy, cost: CostModel
) -> tuple[list[Sequence[Request]], float]:
    """Runs that take the time of the size that they are filled up to."""
    rows = [request.rows for request in requests]
    cuts = partition_table(
        [request.length for request in requests],
        rows,
        cost_ns=lambda rows, length: cost.call_ns() + rows * cost.row_ns(length),
        sizes=policy.row_sizes,
        elements_max=policy.elements_max,
    )
    cost_ns = 0.0
    for start, stop in cuts:
        held = filled(sum(rows[start:stop]), policy.row_sizes)
        cost_ns += cost.call_ns() + held * cost.row_ns(requests[stop - 1].length)
    return [requests[start:stop] for start, stop in cuts], cost_ns


def _split(mates: Sequence[Request], bounds: Bounds) -> list[Sequence[Request]]:
    if mates[0].lengths:
        cuts = first_come_areas(mates, bounds=bounds)
        return [mates[start:stop] for start, stop in cuts]
    lengths, rows = list(map(_LENGTH, mates)), list(map(_ROWS, mates))
    cuts = first_come(lengths, rows, bounds=bounds)
    return [mates[start:stop] for start, stop in cuts]


def _by_group(urgent: Sequence[Request]) -> list[list[Request]]:
    if len(set(map(_GROUP, urgent))) == 1:
        return [list(urgent)]
    groups: dict[Hashable, list[Request]] = {}
    for request in urgent:
        mates = groups.get(request.group)
        if mates is None:
            groups[request.group] = [request]
        else:
            mates.append(request)
    return list(groups.values())
