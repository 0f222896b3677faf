"""Models of few sizes: which lengths to freeze, and the cheapest runs when rows are filled up.

A model may be able to run at a handful of lengths and batch sizes only. Which lengths serve a mix
best is a k-segmentation of its histogram: each segment is padded to its longest. The cost of a
segment satisfies the quadrangle inequality (a row's cost grows with its length), so the best cut
never moves left as the end moves right, and each layer is filled by divide and conquer.

A run that is filled up to the next batch size costs a step function of its rows, which breaks the
inequality that `partition` relies on. But steps make many starts equal: for a given size the
earliest start that still fits is the best, since what stands before it only gets cheaper. So a
pointer for each size is enough.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence

from xirang.core.batching.partition import Cut


def filled(size: int, sizes: Sequence[int]) -> int:
    """The size that this one is filled up to: itself if there are no sizes, or none so large."""
    index = bisect_left(sizes, size)
    return sizes[index] if index < len(sizes) else size


def emptied(size: int, sizes: Sequence[int]) -> int:
    """The most that may be there so that, filled up, it is no more than this; 0 if nothing may."""
    if not sizes or size >= sizes[-1]:
        return size
    index = bisect_right(sizes, size)
    return sizes[index - 1] if index else 0


def segment(
    histogram: Mapping[int, int], count: int, *, row_ns: Callable[[int], float]
) -> tuple[int, ...]:
    """The lengths to freeze: those to which all rows are padded for the least cost.

    Args:
        histogram: Length to how many rows have it; not empty.
        count: At most so many lengths, at least 1.
        row_ns: What one row costs at a target length; must not fall as the length grows.

    Returns:
        Ascending; the last one is the longest of the histogram.
    """
    lengths = sorted(histogram)
    costs = [row_ns(length) for length in lengths]
    held = [0]  # rows before each position
    for length in lengths:
        held.append(held[-1] + histogram[length])

    def cost(start: int, stop: int) -> float:
        return (held[stop] - held[start]) * costs[stop - 1]

    best = [0.0] + [cost(0, stop) for stop in range(1, len(lengths) + 1)]
    layers: list[list[int]] = []
    for _ in range(min(count, len(lengths)) - 1):
        best, starts = _one_more(best, cost)
        layers.append(starts)
    sizes = [lengths[-1]]
    stop = len(lengths)
    for starts in reversed(layers):
        stop = starts[stop]
        if stop == 0:  # more segments than pay
            break
        sizes.append(lengths[stop - 1])
    return tuple(reversed(sizes))


def _one_more(
    best: Sequence[float], cost: Callable[[int, int], float]
) -> tuple[list[float], list[int]]:
    """The least costs with one segment more, and where the last segment of each starts."""
    better, starts = list(best), [0] * len(best)
    spans = [(1, len(best) - 1, 0, len(best) - 1)]  # ends to settle, and between which starts
    while spans:
        low, high, first, last = spans.pop()
        if low > high:
            continue
        middle = (low + high) // 2
        candidates = range(first, min(last, middle - 1) + 1)
        start = min(candidates, key=lambda i: best[i] + cost(i, middle))
        better[middle], starts[middle] = best[start] + cost(start, middle), start
        spans += [(low, middle - 1, first, start), (middle + 1, high, start, last)]
    return better, starts


def partition_table(
    lengths: Sequence[int],
    rows: Sequence[int],
    *,
    cost_ns: Callable[[int, int], float],
    sizes: Sequence[int],
    elements_max: int | None = None,
) -> list[Cut]:
    """The cheapest runs that are filled up to one of a few sizes.

    Args:
        lengths: Ascending, each ≥ 1.
        rows: Rows of each request.
        cost_ns: What a run of so many rows (filler included) costs at a target length; must fall
            with neither.
        sizes: Rows that a run may have, ascending; not empty.
        elements_max: Most elements of a run of more than one request, filler included.

    Returns:
        Cuts in length order that cover all positions: the best of all such. A request of more
        rows than the largest size runs alone, as it is.
    """
    before = [0]  # rows before each position
    for count in rows:
        before.append(before[-1] + count)
    best, start = [0.0], [0]
    earliest = [0] * len(sizes)  # for each size, the first start that still fits
    for end in range(1, len(lengths) + 1):
        length = lengths[end - 1]
        chosen = end - 1
        least = best[chosen] + cost_ns(filled(rows[chosen], sizes), length)
        for index, size in enumerate(sizes):
            while before[end] - before[earliest[index]] > size:
                earliest[index] += 1
            if earliest[index] >= end - 1 or _is_beyond(size * length, elements_max):
                continue
            cost = best[earliest[index]] + cost_ns(size, length)
            if cost < least:
                least, chosen = cost, earliest[index]
        best.append(least)
        start.append(chosen)
    return _walk_back(start)


def _is_beyond(elements: int, elements_max: int | None) -> bool:
    return elements_max is not None and elements > elements_max


def _walk_back(start: Sequence[int]) -> list[Cut]:
    cuts: list[Cut] = []
    end = len(start) - 1
    while end > 0:
        cuts.append((start[end], end))
        end = start[end]
    cuts.reverse()
    return cuts
