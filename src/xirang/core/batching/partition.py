"""Cut length-sorted requests into the padded runs that cost the least in sum.

Sorted by length, an optimal partition is contiguous: exchanging two rows so that each run holds
neighbours never raises a target length. With the run cost

    w(i, j) = call + rows(i, j)·row(length of the last)

(affine in rows, row cost growing with length) the weights satisfy the quadrangle inequality
w(a,c) + w(b,d) ≤ w(a,d) + w(b,c), a ≤ b ≤ c ≤ d, so the best start of a run never moves left as
its end moves right (F. F. Yao, "Efficient dynamic programming using quadrangle inequalities",
STOC 1980). Without bounds the best starts are read off a lower envelope of lines, in linear time.
If a run of that optimum is beyond the bounds, a search from the last best start follows: bounds on
rows and elements only cut starts off from the left, never fewer of them for a later end, which
leaves the inequality true. Both are exact. The use for padded inference batches is that of
TurboTransformers (Fang et al., PPoPP 2021), whose O(n·batch) search is the twin in the tests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Cut = tuple[int, int]
"""A half-open range of positions in length order."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What no run of more than one request may exceed."""

    rows_max: int
    elements_max: int | None = None

    def rows_at(self, length: int) -> int:
        """Most rows of a run of this target length."""
        if self.elements_max is None:
            return self.rows_max
        return min(self.rows_max, self.elements_max // length)


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
    cuts = _unbounded(lengths, rows, call_ns=call_ns, row_ns=row_ns)
    if _all_fit(cuts, lengths, rows, bounds):
        return cuts  # what is cheapest without bounds is so within them
    return _bounded(lengths, rows, call_ns=call_ns, row_ns=row_ns, bounds=bounds)


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
    lengths: Sequence[int], rows: Sequence[int], *, call_ns: float, row_ns: Callable[[int], float]
) -> list[Cut]:
    """The cheapest runs if nothing bounds them.

    As a function of the row cost x, a run that starts at a position with b rows and cost c before
    it ends at c − b·x. Row costs only grow, and later positions have steeper lines, so a pointer
    walks along the lower envelope of the lines and never back. Equal lengths never part.
    """
    lines: list[tuple[int, float, int]] = [(0, 0.0, 0)]  # rows and cost before, position
    start: dict[int, int] = {}  # where the last run of the optimum up to a position starts
    held, walked, last = 0, 0, len(lengths) - 1
    for i, length in enumerate(lengths):
        held += rows[i]
        if i < last and lengths[i + 1] == length:
            continue
        row = row_ns(length)
        before, least, position = lines[walked]
        while walked + 1 < len(lines):
            steeper = lines[walked + 1]
            if steeper[1] - steeper[0] * row > least - before * row:
                break
            walked += 1
            before, least, position = steeper
        start[i + 1] = position
        _add_line(lines, (held, least + (held - before) * row + call_ns, i + 1), walked=walked)
    return _walk_back(start, len(lengths))


def _add_line(
    lines: list[tuple[int, float, int]], line: tuple[int, float, int], *, walked: int
) -> None:
    """Append the steepest line and drop those behind the pointer that it keeps from winning."""
    while len(lines) - walked >= 2:
        (rows_a, cost_a, _), (rows_b, cost_b, _) = lines[-2:]
        if (line[1] - cost_b) * (rows_b - rows_a) > (cost_b - cost_a) * (line[0] - rows_b):
            break
        lines.pop()
    lines.append(line)


def _bounded(
    lengths: Sequence[int],
    rows: Sequence[int],
    *,
    call_ns: float,
    row_ns: Callable[[int], float],
    bounds: Bounds,
) -> list[Cut]:
    """The cheapest runs within the bounds: each end tries the starts from the last one's on."""
    count = len(lengths)
    before = [0] * (count + 1)  # rows before each position
    best = [0.0] * (count + 1)  # least cost of everything before a position
    start = {0: 0}  # where the last run of that optimum starts
    length, row, fit = 0, 0.0, 0
    for end in range(1, count + 1):
        before[end] = before[end - 1] + rows[end - 1]
        if lengths[end - 1] != length:
            length = lengths[end - 1]
            row, fit = row_ns(length), bounds.rows_at(length)
        least, chosen = best[end - 1] - before[end - 1] * row, end - 1
        least_before = before[end] - fit  # a start needs at least this many rows behind it
        for i in range(end - 2, start[end - 1] - 1, -1):
            if before[i] < least_before:
                break
            cost = best[i] - before[i] * row
            if cost < least:
                least, chosen = cost, i
        best[end] = least + before[end] * row + call_ns
        start[end] = chosen
    return _walk_back(start, count)


def _all_fit(
    cuts: Sequence[Cut], lengths: Sequence[int], rows: Sequence[int], bounds: Bounds
) -> bool:
    return all(
        stop - start == 1 or sum(rows[start:stop]) <= bounds.rows_at(lengths[stop - 1])
        for start, stop in cuts
    )


def _walk_back(start: Mapping[int, int], end: int) -> list[Cut]:
    cuts: list[Cut] = []
    while end > 0:
        cuts.append((start[end], end))
        end = start[end]
    cuts.reverse()
    return cuts
