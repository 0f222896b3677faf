"""Cut length-sorted requests into the padded runs that cost the least in sum.

Sorted by length, an optimal partition is contiguous: exchanging two rows so that each run holds
neighbours never raises a target length. With the run cost

    w(i, j) = call + rows(i, j)·row(length of the last)

(affine in rows, row cost growing with length) the weights satisfy the quadrangle inequality
w(a,c) + w(b,d) ≤ w(a,d) + w(b,c), a ≤ b ≤ c ≤ d, so the best start of a run never moves left as
its end moves right (F. F. Yao, "Efficient dynamic programming using quadrangle inequalities",
STOC 1980). The bounds on a run's rows and elements only cut starts off from the left, and never
fewer of them for a later end, which leaves that true. So each end tries few starts, and the cuts
are exact. The use for padded inference batches is that of TurboTransformers (Fang et al., PPoPP
2021), whose O(n·batch) search serves as the twin in the tests.
"""

from collections.abc import Callable, Sequence
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
    count = len(lengths)
    before = [0] * (count + 1)  # rows before each position
    for i in range(count):
        before[i + 1] = before[i] + rows[i]
    best = [0.0] * (count + 1)  # least cost of everything before a position
    start = [0] * (count + 1)  # where the last run of that optimum starts
    length, row, fit = 0, 0.0, 0
    for end in range(1, count + 1):
        if lengths[end - 1] != length:
            length = lengths[end - 1]
            row, fit = row_ns(length), bounds.rows_at(length)
        first = start[end - 1]
        least, chosen = best[end - 1] - before[end - 1] * row, end - 1
        least_before = before[end] - fit  # a start needs at least this many rows behind it
        for i in range(end - 2, first - 1, -1):
            if before[i] < least_before:
                break
            cost = best[i] - before[i] * row
            if cost < least:
                least, chosen = cost, i
        best[end] = least + before[end] * row + call_ns
        start[end] = chosen
    return _walk_back(start)


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


def _walk_back(start: Sequence[int]) -> list[Cut]:
    cuts: list[Cut] = []
    end = len(start) - 1
    while end > 0:
        cuts.append((start[end], end))
        end = start[end]
    cuts.reverse()
    return cuts
