"""Cut length-sorted requests into the padded runs that cost the least in sum.

Sorted by length, an optimal partition is contiguous: exchanging two rows so that each run holds
neighbours never raises a target length. With the run cost

    w(i, j) = call + rows(i, j)·row(length of the last)

(affine in rows, row cost growing with length) the weights satisfy the quadrangle inequality
w(a,c) + w(b,d) ≤ w(a,d) + w(b,c), a ≤ b ≤ c ≤ d, so the best start of a run never moves left as
its end moves right (F. F. Yao, "Efficient dynamic programming using quadrangle inequalities",
STOC 1980). Without bounds the best starts are looked up on a lower envelope of lines. If a run of
that optimum is beyond the bounds, a search from the last best start follows: bounds on rows and
elements only cut starts off from the left, never fewer of them for a later end, which leaves the
inequality true. Both are exact. The use for padded inference batches is that of TurboTransformers
(Fang et al., PPoPP 2021), whose O(n·batch) search is the twin in the tests.
"""

from bisect import bisect, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

Cut = tuple[int, int]
"""A half-open range of positions in length order."""

Fitting = Callable[[int], int]
"""From a length to the rows for which there could be memory."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no run of more than one request may exceed.

    Attributes:
        rows_max: Rows.
        elements_max: Elements, padding included; None for no bound.
        fitting: The rows of a length for which there could be memory; None for no bound.
    """

    rows_max: int
    elements_max: int | None = None
    fitting: Fitting | None = None

    def rows_at(self, length: int) -> int:
        """Most rows of a run of this target length."""
        rows = self.rows_max
        if self.elements_max is not None:
            rows = min(rows, self.elements_max // length)
        return rows if self.fitting is None else min(rows, self.fitting(length))


def partition(
    lengths: Sequence[int],
    rows: Sequence[int],
    *,
    call_ns: float,
    row_ns: Callable[[int], float],
    bounds: Bounds,
) -> list[Cut]:
    """The cheapest runs.

    Args:
        lengths: Ascending, each ≥ 1.
        rows: Rows of each request.
        call_ns: What a run costs before its first row.
        row_ns: What one row costs at a target length; must not fall as the length grows.
        bounds: What a run may hold. A request beyond them runs alone.

    Returns:
        Cuts in length order that cover all positions.
    """
    if not lengths:
        return []
    counts = Counter(lengths)  # keeps the order
    return partition_shelves(
        list(counts),
        list(counts.values()),
        rows,
        call_ns=call_ns,
        row_ns=[row_ns(length) for length in counts],
        bounds=bounds,
    )[0]


def partition_shelves(
    lengths: Sequence[int],
    counts: Sequence[int],
    rows: Sequence[int],
    *,
    call_ns: float,
    row_ns: Sequence[float],
    bounds: Bounds,
) -> tuple[list[Cut], float]:
    """The same for requests that lie sorted already, and what the runs cost.

    Args:
        lengths: The different ones, ascending, each ≥ 1.
        counts: Requests of each length.
        rows: Rows of each request, in length order.
        call_ns: What a run costs before its first row.
        row_ns: What one row costs at each length; must not fall as the length grows.
        bounds: What a run may hold. A request beyond them runs alone.

    Returns:
        Cuts in length order that cover all positions, and what they cost.
    """
    ends = list(accumulate(counts))
    total = list(accumulate(rows, initial=0))
    held = [total[end] for end in ends]
    starts, cost_ns = _unbounded(held, row_ns, call_ns=call_ns)
    cuts = _within(bounds, starts, ends, held=held, lengths=lengths)
    if cuts is not None:
        return cuts, cost_ns  # what is cheapest without bounds is so within them
    return _bounded(lengths, ends, total, call_ns=call_ns, row_ns=row_ns, bounds=bounds)


def first_come(lengths: Sequence[int], rows: Sequence[int], *, bounds: Bounds) -> list[Cut]:
    """Runs in the order given, each as full as its bounds allow: no search, much padding."""
    cuts: list[Cut] = []
    begin, held, longest = 0, 0, 0
    for i, (length, extra) in enumerate(zip(lengths, rows, strict=True)):
        longest = max(longest, length)
        if i > begin and held + extra > bounds.rows_at(longest):
            cuts.append((begin, i))
            begin, held, longest = i, 0, length
        held += extra
    if begin < len(lengths):
        cuts.append((begin, len(lengths)))
    return cuts


def _unbounded(
    held: Sequence[int], row_ns: Sequence[float], *, call_ns: float
) -> tuple[list[int], float]:
    """Where the last run starts in the cheapest runs up to each length, if nothing bounds them.

    As a function of the row cost x, a run that starts at a length with b rows and cost c before
    it ends at c − b·x. Later lengths have steeper lines, so each that is the lowest anywhere is
    so from where it crosses the one before: these are the lower envelope, in order of where they
    begin. Equal lengths never part.
    """
    before, best = [0, *held], [0.0]  # each length: the rows before it, and the least they cost
    lowest, begins = [0], [-1.0]  # the envelope: whose line is the lowest, and from where on
    starts: list[int] = []
    for end, row in enumerate(row_ns, 1):
        start, rows = lowest[bisect(begins, row) - 1], before[end]
        cost = best[start] + (rows - before[start]) * row + call_ns
        last = lowest[-1]
        crossing = (cost - best[last]) / (rows - before[last])
        while crossing <= begins[-1]:  # there the new line is lower than the last of them
            lowest.pop()
            begins.pop()
            last = lowest[-1]
            crossing = (cost - best[last]) / (rows - before[last])
        starts.append(start)
        best.append(cost)
        lowest.append(end)
        begins.append(crossing)
    return starts, best[-1]


def _within(
    bounds: Bounds,
    starts: Sequence[int],
    ends: Sequence[int],
    *,
    held: Sequence[int],
    lengths: Sequence[int],
) -> list[Cut] | None:
    """The cuts that these starts make; None if a run is beyond the bounds."""
    sure = min(bounds.rows_at(lengths[0]), bounds.rows_at(lengths[-1]))  # for any length between
    cuts: list[Cut] = []
    at = len(starts)
    while at:
        start = starts[at - 1]
        begin, before = (ends[start - 1], held[start - 1]) if start else (0, 0)
        end, rows = ends[at - 1], held[at - 1] - before
        if rows > sure and end - begin > 1 and rows > bounds.rows_at(lengths[at - 1]):
            return None
        cuts.append((begin, end))
        at = start
    cuts.reverse()
    return cuts


def _bounded(
    lengths: Sequence[int],
    ends: Sequence[int],
    total: Sequence[int],
    *,
    call_ns: float,
    row_ns: Sequence[float],
    bounds: Bounds,
) -> tuple[list[Cut], float]:
    """The cheapest runs within the bounds: each end tries the starts from the last one's on."""
    fits = [bounds.rows_at(length) for length in lengths]
    edges = _edges(ends, total, fits)
    best, start = [0.0], [0]  # of the runs up to each edge: their cost, and where the last starts
    block, row, fit = 0, row_ns[0], fits[0]
    for end in range(1, len(edges)):
        if edges[end] > ends[block]:
            block += 1
            row, fit = row_ns[block], fits[block]
        held = total[edges[end]]
        least, chosen = best[end - 1] - total[edges[end - 1]] * row, end - 1
        for i in range(end - 2, start[-1] - 1, -1):
            before = total[edges[i]]
            if held - before > fit:
                break
            cost = best[i] - before * row
            if cost < least:
                least, chosen = cost, i
        best.append(least + held * row + call_ns)
        start.append(chosen)
    cuts: list[Cut] = []
    at = len(edges) - 1
    while at > 0:
        cuts.append((edges[start[at]], edges[at]))
        at = start[at]
    cuts.reverse()
    return cuts, best[-1]


def _edges(ends: Sequence[int], total: Sequence[int], fits: Sequence[int]) -> list[int]:
    """Where a run of the optimum may start or end.

    In some optimum each run takes the last of a length, or is full: a request of its last length
    that starts the next run instead would cost no less there.
    """
    is_edge = bytearray(ends[-1] + 1)
    for end in ends:
        is_edge[end] = 1
    is_edge[0] = 1
    block = 0
    for start in range(ends[-1]):
        if not is_edge[start]:
            continue
        room = total[start]
        while ends[block] <= start or (
            block < len(ends) - 1 and total[ends[block]] - room <= fits[block]
        ):
            block += 1
        full = bisect_right(total, room + fits[block]) - 1
        is_edge[min(max(full, start + 1), ends[block])] = 1
    return [edge for edge in range(ends[-1] + 1) if is_edge[edge]]
