"""Finds free addresses: where a block fits among those that are taken.

One rule serves the planner, which knows every lifetime beforehand, and the host buffers of
responses, whose ends nobody knows. Best fit takes the smallest gap that is large enough, first fit
the lowest.
"""

from bisect import bisect_left
from collections.abc import Iterable

from xirang.core.memory.lifetime import aligned


def fit(taken: Iterable[tuple[int, int]], size_bytes: int, *, is_tight: bool) -> int:
    """The offset for a block among ranges that are taken, which may overlap each other.

    Args:
        taken: (begin, end) in ascending order of their beginnings.
        size_bytes: Of the block.
        is_tight: Best fit, else first fit. Above the last range there is always room.
    """
    free_from, found, smallest = 0, -1, -1
    for begin, end in taken:
        gap = begin - free_from
        if gap >= size_bytes and (found < 0 or gap < smallest):
            if not is_tight:
                return free_from
            found, smallest = free_from, gap
        free_from = max(free_from, end)
    return found if found >= 0 else free_from


class Allocator:
    """Blocks in a fixed range of addresses."""

    __slots__ = ("_alignment", "_begins", "_ends", "capacity_bytes", "used_bytes")

    def __init__(self, capacity_bytes: int, *, alignment: int = 64) -> None:
        """Nothing is taken yet.

        Args:
            capacity_bytes: Size of the range.
            alignment: Blocks begin at its multiples.
        """
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._alignment = alignment
        self._begins: list[int] = []
        self._ends: list[int] = []

    def allocate(self, size_bytes: int) -> int | None:
        """The offset of a new block, or None if no gap is large enough.

        A block of no bytes gets an address of its own all the same: it has to be freed.
        """
        assert size_bytes >= 0
        size_bytes = aligned(max(1, size_bytes), self._alignment)
        offset = fit(zip(self._begins, self._ends, strict=True), size_bytes, is_tight=True)
        if offset + size_bytes > self.capacity_bytes:
            return None
        place = bisect_left(self._begins, offset)
        self._begins.insert(place, offset)
        self._ends.insert(place, offset + size_bytes)
        self.used_bytes += size_bytes
        return offset

    def free(self, offset: int) -> None:
        """Give a block back; neighbouring gaps become one by themselves."""
        place = bisect_left(self._begins, offset)
        assert place < len(self._begins), "not a block"
        assert self._begins[place] == offset, "not the beginning of a block"
        self.used_bytes -= self._ends[place] - offset
        del self._begins[place], self._ends[place]

    def check_integrity(self) -> None:
        """Blocks are in order, apart, aligned and inside; the sum is right."""
        reached = used = 0
        for begin, end in zip(self._begins, self._ends, strict=True):
            assert reached <= begin < end <= self.capacity_bytes
            assert begin % self._alignment == end % self._alignment == 0
            used += end - begin
            reached = end
        assert used == self.used_bytes
