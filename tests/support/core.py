"""Requests, costs and naive twins for the tests of the core."""

from itertools import pairwise

from xirang.core.cost import CostModel, Sample
from xirang.core.request import Request

MS = 1_000_000
GRID = tuple((rows, length) for rows in (1, 4, 16) for length in (8, 32, 128))


def request(id, *, at_ms=0, budget_ms=100, model="m", **fields):
    """A request whose times are in ms."""
    arrival_ns = int(at_ms * MS)
    return Request(id, model, arrival_ns, arrival_ns + int(budget_ms * MS), **fields)


def learned(call_ns, row_ns=0.0, element_ns=0.0, square_ns=0.0, *, grid=GRID):
    """A cost model that was fitted to quiet runs of this law."""
    cost = CostModel()
    cost.fit(
        [
            Sample(b, n, round(call_ns + row_ns * b + element_ns * b * n + square_ns * b * n * n))
            for b, n in grid
        ]
    )
    return cost


def fixed_shape(call_ms, row_ms):
    """A cost model for a model whose rows all have the length 1."""
    return learned(call_ms * MS, row_ms * MS, grid=tuple((rows, 1) for rows in (1, 2, 4, 16, 64)))


def cost_of(cuts, lengths, rows, *, call_ns, row_ns):
    """What these runs cost in sum."""
    return sum(call_ns + sum(rows[a:b]) * row_ns(max(lengths[a:b])) for a, b in cuts)


def fits(run_rows, length, bounds, *, alone):
    """Whether a run is within bounds, read straight from their definition."""
    if alone:
        return True
    elements_max = bounds.elements_max
    return run_rows <= bounds.rows_max and (
        elements_max is None or run_rows * length <= elements_max
    )


def covers(cuts, count):
    """Whether the cuts hold every position once, in order."""
    ends = [0, *(end for _, end in cuts)]
    return all(a == start < end for (a, end), (start, _) in zip(pairwise(ends), cuts, strict=True))
