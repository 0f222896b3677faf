"""Cut requests of several lengths (an image's height and width) into padded runs.

A run's target is the largest of each length, so its cost is not that of its last request and the
order in which runs are contiguous is not known. Requests are taken in the order of their areas,
which puts like beside like: a heuristic. Within that order the cheapest cuts are found by the plain
search over all starts, with the exact cost of each run.
"""

from collections.abc import Sequence
from math import prod

from xirang.core.batching.partition import Bounds, Cut
from xirang.core.cost import CostModel
from xirang.core.request import Request

STARTS_MAX = 64
"""A run begins at most so many requests before its last; this bounds the time of a plan."""


def partition_areas(
    requests: Sequence[Request], *, cost: CostModel, bounds: Bounds
) -> tuple[list[Cut], float]:
    """The cheapest runs that are contiguous in the order given.

    Args:
        requests: By area; not empty.
        cost: The model's.
        bounds: What a run may hold. A request beyond them runs alone.

    Returns:
        Cuts that cover all positions, and what they cost.
    """
    call_ns = cost.call_ns()
    best, start = [0.0], [0]  # of the runs up to each request: their cost, where the last starts
    for end in range(1, len(requests) + 1):
        target, area, row_ns = requests[end - 1].lengths, 0, 0.0
        rows, least, chosen = 0, float("inf"), end - 1
        for i in range(end - 1, max(-1, end - 1 - STARTS_MAX), -1):
            lengths = requests[i].lengths
            if not area or any(map(int.__gt__, lengths, target)):
                target = tuple(map(max, lengths, target))
                area = prod(target)
                row_ns = cost.row_ns(area)
            rows += requests[i].rows
            if i < end - 1 and rows > bounds.rows_at(area, target):
                break
            found = best[i] + call_ns + rows * row_ns
            if found < least:
                least, chosen = found, i
        best.append(least)
        start.append(chosen)
    return _walk_back(start), best[-1]


def first_come_areas(requests: Sequence[Request], *, bounds: Bounds) -> list[Cut]:
    """Runs in the order given, each as full as its bounds allow."""
    cuts: list[Cut] = []
    begin, rows, target = 0, 0, requests[0].lengths
    for i, request in enumerate(requests):
        wider = tuple(map(max, request.lengths, target))
        if i > begin and rows + request.rows > bounds.rows_at(prod(wider), wider):
            cuts.append((begin, i))
            begin, rows, wider = i, 0, request.lengths
        target = wider
        rows += request.rows
    return [*cuts, (begin, len(requests))]


def _walk_back(start: Sequence[int]) -> list[Cut]:
    cuts: list[Cut] = []
    end = len(start) - 1
    while end > 0:
        cuts.append((start[end], end))
        end = start[end]
    cuts.reverse()
    return cuts
