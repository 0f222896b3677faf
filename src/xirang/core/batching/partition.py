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

Fitting = Callable[[int | tuple[int, ...]], int]
"""From a length, or from each of several, to the rows for which there could be memory."""


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

    def rows_at(self, length: int, lengths: tuple[int, ...] = ()) -> int:
        """Most rows of a run of this target length; where there are several, of each of them."""
        rows = self.rows_max
        if self.elements_max is not None:
            rows = min(rows, self.elements_max // length)
        return rows if self.fitting is None else min(rows, self.fitting(lengths or length))


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
    total: Sequence[int] = range(len(rows) + 1)
    held = ends
    if max(rows) > 1:
        total = list(accumulate(rows, initial=0))
        held = list(map(total.__getitem__, ends))
    starts, cost_ns = _unbounded(held, row_ns, call_ns=call_ns)
    cuts = _within(bounds, starts, ends, held=held, lengths=lengths)
    if cuts is not None:
        return cuts, cost_ns  # what is cheapest without bounds is so within them
    return _bounded(lengths, ends, total, call_ns=call_ns, row_ns=row_ns, bounds=bounds)


def first_come(lengths: Sequence[int], rows: Sequence[int], *, bounds: Bounds) -> list[Cut]:
    """Runs in the order given, each as full as its bounds allow: no search, much padding."""
    if len(set(lengths)) == 1 and max(rows) == 1:  # nothing to weigh: so many fit, always
        step, count = max(1, bounds.rows_at(lengths[0])), len(lengths)
        return [(begin, min(begin + step, count)) for begin in range(0, count, step)]
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
    starts: list[int] = []
    begins, lines = [-1.0], [(0, 0.0, 0)]  # the envelope: from where on a line is the lowest, and
    begin, before, least = -1.0, 0, 0.0  # its b, its c, where its run starts; the last of them
    cost = 0.0
    for end, row in enumerate(row_ns):
        b, c, start = lines[bisect(begins, row) - 1]
        starts.append(start)
        rows = held[end]
        cost = c + (rows - b) * row + call_ns
        crossing = (cost - least) / (rows - before)
        while crossing <= begin:  # there the new line is lower than the last of them
            begins.pop()
            lines.pop()
            begin = begins[-1]
            before, least, _ = lines[-1]
            crossing = (cost - least) / (rows - before)
        begins.append(crossing)
        lines.append((rows, cost, end + 1))
        begin, before, least = crossing, rows, cost
    return starts, cost


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
    end, upto = ends[-1], held[-1]
    while at:
        last = at - 1
        at = starts[last]
        begin, before = (ends[at - 1], held[at - 1]) if at else (0, 0)
        rows = upto - before
        if rows > sure and end - begin > 1 and rows > bounds.rows_at(lengths[last]):
            return None
        cuts.append((begin, end))
        end, upto = begin, before
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
