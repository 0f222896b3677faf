"""The search, held against a naive twin that tries every offset."""

from hypothesis import given, settings
from tests.support.memory import lifetimes

from xirang.core.memory.lifetime import of_rows
from xirang.core.memory.skyline import Skyline
from xirang.core.memory.validate import fault_of

STEPS = 1_000_000


def is_possible(found, height, offsets=()):
    """Whether there is a plan of a height: block by block, every offset."""
    block = len(offsets)
    if block == len(found):
        return True
    size = found.sizes_bytes[block]
    for offset in range(height - size + 1):
        meets = any(
            found.overlaps(block, other)
            and offset < offsets[other] + found.sizes_bytes[other]
            and offsets[other] < offset + size
            for other in range(block)
        )
        if not meets and is_possible(found, height, (*offsets, offset)):
            return True
    return False


@settings(deadline=None)
@given(lifetimes(blocks_max=6, size_min=1, size_max=4))
def test_it_finds_a_plan_just_if_there_is_one(found):
    ranks = list(range(len(found)))
    for height in range(found.bound_bytes - 1, found.bound_bytes + 3):
        sought = Skyline(found).search(height, ranks, STEPS)
        assert (sought.offsets is not None) == is_possible(found, height)
        assert sought.is_exhausted == (sought.offsets is None)
        if sought.offsets is not None:
            assert fault_of(found, sought.offsets, height) is None


def test_it_stops_when_its_steps_are_spent():
    found = of_rows([(k, k + 5, 3 + k % 4) for k in range(40)])
    sought = Skyline(found).search(found.bound_bytes, list(range(40)), 50)
    assert sought.offsets is None
    assert not sought.is_exhausted
