"""The allocator, held against a naive twin that marks every byte."""

import pytest
from hypothesis import given, strategies as st

from xirang.core.memory.allocator import Allocator, fit

CAPACITY, ALIGNMENT = 64, 4


class Bytes:
    """Every byte is marked with the block that has it."""

    def __init__(self):
        self.marks = [None] * CAPACITY

    def allocate(self, size_bytes):
        size = max(ALIGNMENT, -(-size_bytes // ALIGNMENT) * ALIGNMENT)
        gaps, begin = [], None
        for place, mark in enumerate([*self.marks, "end"]):
            if mark is None and begin is None:
                begin = place
            elif mark is not None and begin is not None:
                gaps.append((place - begin, begin))
                begin = None
        fitting = [(gap, begin) for gap, begin in gaps if gap >= size]
        if not fitting:
            return None
        # Above the last block the range is open: it is taken only if no gap between blocks fits.
        open_ended = [one for one in fitting if one[0] + one[1] == CAPACITY]
        closed = [one for one in fitting if one not in open_ended]
        _, begin = min(closed or open_ended)
        self.marks[begin : begin + size] = [begin] * size
        return begin

    def free(self, offset):
        self.marks = [None if mark == offset else mark for mark in self.marks]


@given(st.lists(st.one_of(st.integers(0, 30), st.integers(0, 9).map(lambda k: -1 - k))))
def test_it_does_as_its_naive_twin(acts):
    allocator, twin, blocks = Allocator(CAPACITY, alignment=ALIGNMENT), Bytes(), []
    for act in acts:
        if act >= 0:
            offset = allocator.allocate(act)
            assert offset == twin.allocate(act)
            if offset is not None:
                blocks.append(offset)
        elif blocks:
            offset = blocks.pop(act % len(blocks))
            allocator.free(offset)
            twin.free(offset)
        allocator.check_integrity()
        assert allocator.used_bytes == sum(mark is not None for mark in twin.marks)


def test_best_fit_takes_the_smallest_gap_and_first_fit_the_lowest():
    taken = [(10, 20), (24, 30)]
    assert fit(taken, 4, is_tight=True) == 20
    assert fit(taken, 4, is_tight=False) == 0
    assert fit(taken, 11, is_tight=True) == 30


def test_ranges_that_are_taken_may_overlap_each_other():
    assert fit([(0, 20), (5, 10), (22, 30)], 2, is_tight=False) == 20


@pytest.mark.parametrize("size", [1 << 62, CAPACITY + 1])
def test_what_is_too_large_is_refused(size):
    allocator = Allocator(CAPACITY)
    assert allocator.allocate(size) is None
    assert allocator.used_bytes == 0


def test_what_is_no_block_cannot_be_freed():
    allocator = Allocator(CAPACITY)
    allocator.allocate(10)
    with pytest.raises(AssertionError):
        allocator.free(3)
