"""One device, requests of one kind, equal budgets, all arrivals known beforehand: the exact best.

With deadlines in the order of arrival there is a best plan whose runs take requests in that order,
without a gap inside a run: a later request that is in a run could change places with an earlier
one that was passed over since, as it arrived before the run began and its deadline is no sooner.
So a plan is found request by request: the next ones make a run, or one is dropped.

`ends[j][p]` is the earliest end of a plan for the first j requests at the price p, where either
each dropped request costs 1 (`most_on_time`) or each run does (`fewest_runs`). A higher price is of
use only while it buys an earlier end, which is why few prices have to be kept for each j.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]

NEVER = np.iinfo(np.int64).max // 4


def most_on_time(arrivals_ns: Sequence[int], *, budget_ns: int, run_ns: Sequence[int]) -> int:
    """How many requests could be answered within their budgets, at most.

    Args:
        arrivals_ns: Ascending.
        budget_ns: From an arrival to its deadline.
        run_ns: Time of a run of 1, 2, … rows, not descending; as many as a run may hold.
    """
    ends = _ends(arrivals_ns, budget_ns, run_ns, run_price=0)
    return len(arrivals_ns) - _least_price(ends)


def fewest_runs(arrivals_ns: Sequence[int], *, budget_ns: int, run_ns: Sequence[int]) -> int | None:
    """With how few runs all requests could be answered within their budgets; None if they cannot.

    Args:
        arrivals_ns: Ascending.
        budget_ns: From an arrival to its deadline.
        run_ns: Time of a run of 1, 2, … rows, not descending; as many as a run may hold.
    """
    ends = _ends(arrivals_ns, budget_ns, run_ns, run_price=1)
    return _least_price(ends) if ends[-1] < NEVER else None


def _least_price(ends: Table) -> int:
    return int(np.argmax(ends < NEVER))


def _ends(
    arrivals_ns: Sequence[int], budget_ns: int, run_ns: Sequence[int], *, run_price: int
) -> Table:
    """The last row of `ends`; a run costs run_price, a drop 1 if runs cost nothing."""
    arrivals = np.array(arrivals_ns, dtype=np.int64)
    times = np.array(run_ns, dtype=np.int64)
    assert (np.diff(arrivals) >= 0).all()
    assert (np.diff(times) >= 0).all()
    deadlines = arrivals + budget_ns
    rows_max, count = len(times), len(arrivals)
    ends = np.full((rows_max + 1, count + 2), NEVER)  # a ring of the last rows
    ends[0, :] = -NEVER
    useful = np.zeros(rows_max + 1, dtype=np.int64)  # up to this price a row still descends
    low = 0
    for j in range(1, count + 1):
        arrival, at = arrivals[j - 1], j % (rows_max + 1)
        oldest = deadlines[max(0, j - rows_max) : j][::-1]  # the deadline of the last 1, 2, … rows
        sizes = int(np.searchsorted(arrival + times[: len(oldest)] - oldest, 0, side="right"))
        high = min(count, int(useful.max()) + 1)
        best = np.full(high + 2 - low, NEVER)
        if not run_price:
            best[1:] = ends[(j - 1) % (rows_max + 1), low : high + 1]
        if sizes:
            before = ends[(j - np.arange(1, sizes + 1)) % (rows_max + 1), low : high + 1]
            ended = np.maximum(before, arrival) + times[:sizes, None]
            ended[ended > oldest[:sizes, None]] = NEVER
            part = best[run_price : run_price + high + 1 - low]
            np.minimum(part, ended.min(axis=0), out=part)
        np.minimum.accumulate(best, out=best)
        row = ends[at]
        row[:low] = NEVER
        row[low : high + 2] = best
        row[high + 2 :] = best[-1]
        # An end before this arrival is as good as any: whatever follows starts later.
        useful[at] = low + int(np.argmax(best <= max(best[-1], arrival)))
        low = max(0, low + int(np.argmax(best < NEVER)) - run_price)
    last: Table = ends[count % (rows_max + 1)].copy()
    return last
