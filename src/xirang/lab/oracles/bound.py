"""For long streams of unlike requests: a number that no schedule of one device can exceed.

To find the best plan is hard (batching with deadlines is NP-hard); to bound it takes two steps.

Charges: each request is charged its own row and a part of a call, such that no run that could ever
be formed costs less than the charges of its requests. A run pads to its longest, so a request may
be charged more where requests of its length are rare: sharing a call would cost padding.

Prices: device time has a price π(t) at each instant. Whatever is sold is bounded by
Σ π + Σ max(0, 1 − charge · cheapest π between arrival and deadline), for any prices (weak duality
of the linear program that cuts requests into crumbs). The prices are improved by subgradient
steps; the bound holds wherever they stop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np
import numpy.typing as npt

from xirang.core.request import Request

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

STEPS = 300
BINS_MAX = 600
GREED = (0.6, 0.8, 1.0)
"""Factors of the first guess at charges; the best of the bounds counts."""
ROUNDING = 1e-5
"""Milliseconds by which floats may be off; a start at the last instant is possible."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """Requests as columns, times in ms from the first arrival."""

    arrivals: Floats
    deadlines: Floats
    rows: Floats  # what a row of each costs
    call: float


def most_on_time_bound(
    requests: Sequence[Request], *, call_ns: float, row_ns: Callable[[int], float]
) -> int:
    """No schedule answers more of these requests by their deadlines.

    Args:
        requests: By arrival, one row each.
        call_ns: Time of a run before its first row, more than nothing.
        row_ns: Time of a row by the length of the run, ascending.
    """
    first_ns = requests[0].arrival_ns
    stream = _Stream(
        np.array([(request.arrival_ns - first_ns) / 1e6 for request in requests]),
        np.array([(request.deadline_ns - first_ns) / 1e6 for request in requests]),
        np.array([row_ns(request.length) / 1e6 for request in requests]),
        call_ns / 1e6,
    )
    latest = stream.deadlines - stream.call - stream.rows + ROUNDING
    possible = int((stream.arrivals <= latest).sum())
    bounds = [_sold(stream, stream.rows + charge) for charge in _charges(stream)]
    return min(possible, *(floor(bound + 1e-6) for bound in bounds))


def _charges(stream: _Stream) -> list[Floats]:
    """Parts of a call for each request, of which no possible run pays more than one call."""
    order = np.argsort(stream.rows, kind="stable")
    rows = stream.rows[order]
    arrivals = stream.arrivals[order]
    latest = stream.deadlines[order] - stream.call - rows + ROUNDING
    pools = [np.flatnonzero((arrivals <= at) & (at <= latest)) for at in stream.arrivals]
    waiting = max(1.0, sum(len(pool) for pool in pools) / len(pools))
    guess = _guess(rows, waiting, stream.call)
    charges = []
    for factor in GREED:
        share = guess * factor
        excess = np.ones(len(rows))
        for pool in pools:
            most = _most_paid(rows[pool], share[pool]) / stream.call
            excess[pool] = np.maximum(excess[pool], most)
        charge = np.empty(len(rows))
        charge[order] = share / excess
        charges.append(charge)
    return charges


def _guess(rows: Floats, waiting: float, call: float) -> Floats:
    """A call shared among those for whom its part is worth the padding.

    If rows cost s more from one waiting request to the next, parts of e each exceed the padding
    for e/s of them and sum to e²/2s; this is a call for e = √(2·s·call).
    """
    count = len(rows)
    reach = max(1, count // 50)
    places = np.arange(count)
    low, high = np.maximum(0, places - reach), np.minimum(count - 1, places + reach)
    spacing = (rows[high] - rows[low]) / np.maximum(1, high - low) * (count / waiting)
    shared: Floats = np.clip(np.sqrt(2 * call * spacing), call / waiting, call)
    return shared


def _most_paid(rows: Floats, share: Floats) -> float:
    """The most that a run of these (ascending) pays for its call, net of its padding."""
    if not len(rows):
        return 0.0
    paid = np.maximum(0.0, share - (rows[:, None] - rows))
    return float(np.where(rows[:, None] >= rows, paid, 0.0).sum(axis=1).max())


def _sold(stream: _Stream, charges: Floats) -> float:
    """The bound at the best prices found."""
    end = float(stream.deadlines.max())
    bins = min(BINS_MAX, max(1, ceil(end / 5)))
    width = end / bins
    first = np.minimum(bins - 1, (stream.arrivals / width).astype(np.int64))
    last = np.minimum(bins - 1, (stream.deadlines / width).astype(np.int64))
    # A start with one price for all time: what the dearest request that fits can pay.
    dearest = np.sort(charges)[::-1]
    starts = [0.0, *(1 / dearest[:: max(1, len(dearest) // 40)])]
    values = [p * end + np.maximum(0.0, 1 - charges * p).sum() for p in starts]
    best = min(values)
    prices = np.full(bins, starts[int(np.argmin(values))])
    step = 0.05 / float(np.median(charges))
    for i in range(STEPS):
        cheapest = _cheapest(prices, first, last)
        gains = 1 - charges * prices[cheapest]
        best = min(best, width * prices.sum() + np.maximum(0.0, gains).sum())
        bought = np.bincount(cheapest[gains > 0], charges[gains > 0], minlength=bins)
        slope = np.clip(bought / width - 1, -1, 3)
        prices = np.maximum(0.0, prices + step / sqrt(1 + i) * slope)
    return float(best)


def _cheapest(prices: Floats, first: Integers, last: Integers) -> Integers:
    """Where the price is least between two bins, for many pairs at once (a sparse table)."""
    table = [np.arange(len(prices))]
    span = 1
    while 2 * span <= len(prices):
        left, right = table[-1][:-span], table[-1][span:]
        table.append(np.where(prices[left] <= prices[right], left, right))
        span *= 2
    level = np.frexp(last - first + 1)[1] - 1
    cheapest = np.empty(len(first), dtype=np.int64)
    for k in np.unique(level):
        chosen = level == k
        left = table[k][first[chosen]]
        right = table[k][last[chosen] - (1 << int(k)) + 1]
        cheapest[chosen] = np.where(prices[left] <= prices[right], left, right)
    return cheapest
