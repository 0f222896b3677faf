"""The search, held against a naive twin that tries every offset."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.memory import crowded, lifetimes

from xirang.core.memory.lifetime import of_rows
from xirang.core.memory.skyline import Skyline
from xirang.core.memory.validate import fault_of

STEPS = 1_000_000

NO_PLAN_AT_THE_BOUND = (
    *((0, 1, 5), (1, 2, 2), (0, 3, 3), (2, 3, 1), (1, 4, 4)),
    *((3, 4, 2), (2, 5, 1), (3, 8, 2), (4, 8, 6), (6, 8, 1)),
)


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
@given(
    lifetimes(blocks_max=6, size_min=1, size_max=4) | crowded(height_max=6, instants_max=4),
    st.booleans(),
)
def test_it_finds_a_plan_just_if_there_is_one(found, is_wary):
    ranks = list(range(len(found)))
    for height in range(found.bound_bytes - 1, found.bound_bytes + 3):
        sought = Skyline(found).search(height, ranks, STEPS, is_wary=is_wary)
        assert (sought.offsets is not None) == is_possible(found, height)
        assert sought.is_exhausted == (sought.offsets is None)
        if sought.offsets is not None:
            assert fault_of(found, sought.offsets, height) is None


@pytest.mark.parametrize("is_wary", [True, False])
def test_a_plan_that_needs_more_than_the_bound(is_wary):
    found = of_rows(NO_PLAN_AT_THE_BOUND)
    ranks = list(range(len(found)))
    assert not is_possible(found, found.bound_bytes)
    assert Skyline(found).search(9, ranks, STEPS, is_wary=is_wary).is_exhausted
    assert Skyline(found).search(10, ranks, STEPS, is_wary=is_wary).offsets is not None


@settings(deadline=None)
@given(crowded(), st.randoms(use_true_random=False), st.booleans())
def test_what_it_finds_is_a_plan_and_both_rules_agree_on_what_there_is(found, random, is_wary):
    ranks = list(range(len(found)))
    random.shuffle(ranks)
    skyline = Skyline(found)
    sought = skyline.search(found.bound_bytes, ranks, STEPS // 5, is_wary=is_wary)
    if sought.offsets is not None:
        assert fault_of(found, sought.offsets, found.bound_bytes) is None
    other = skyline.search(found.bound_bytes, ranks[::-1], STEPS // 5, is_wary=not is_wary)
    assert not (sought.is_exhausted and other.offsets is not None)
    assert not (other.is_exhausted and sought.offsets is not None)


def test_parts_that_never_meet_are_searched_apart():
    """Together their plans would be tried as often as the product of both."""
    apart = NO_PLAN_AT_THE_BOUND, [(s + 9, e + 9, z) for s, e, z in NO_PLAN_AT_THE_BOUND]
    alone, *_ = spent = [
        Skyline(of_rows(rows)).search(9, list(range(len(rows))), STEPS, is_wary=True)
        for rows in (apart[0], [*apart[0], *apart[1]])
    ]
    assert all(sought.is_exhausted for sought in spent)
    assert spent[1].steps < 2 * alone.steps


def test_it_stops_when_its_steps_are_spent():
    found = of_rows([(k, k + 5, 3 + k % 4) for k in range(40)])
    sought = Skyline(found).search(found.bound_bytes, list(range(40)), 50, is_wary=True)
    assert sought.offsets is None
    assert not sought.is_exhausted
