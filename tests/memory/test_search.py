"""The native search: what it finds is a plan, and what it says cannot be cannot be."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.memory import GRAPHS, HARD, crowded, lifetimes, problem
from tests.support.native import library, needs_native

from xirang.core.memory.lifetime import of_rows
from xirang.core.memory.planner import Planner, plan
from xirang.core.memory.skyline import Skyline
from xirang.core.memory.validate import fault_of
from xirang.memory.native.search import search_in

pytestmark = needs_native


@settings(deadline=None, max_examples=300)
@given(
    lifetimes() | crowded(),
    st.randoms(use_true_random=False),
    st.integers(-1, 4),
    st.sampled_from((100, 1_000, 100_000)),
    st.booleans(),
)
def test_it_finds_what_the_planners_own_search_finds(found, random, above, steps_max, is_wary):
    height = found.bound_bytes + above
    ranks = list(range(len(found)))
    random.shuffle(ranks)
    native = search_in(library())(found)(height, ranks, steps_max, is_wary=is_wary)
    assert native == Skyline(found).search(height, ranks, steps_max, is_wary=is_wary)
    if native.offsets is not None:
        assert fault_of(found, native.offsets, height) is None


@pytest.mark.parametrize("name", ["A", "E", "I", GRAPHS[0]])
@pytest.mark.parametrize("is_wary", [True, False])
def test_it_does_so_in_large_problems(name, is_wary):
    found = problem(name)
    ranks = sorted(range(len(found)), key=lambda i: -found.sizes_bytes[i])
    native = search_in(library())(found)(found.bound_bytes, ranks, 300_000, is_wary=is_wary)
    assert native == Skyline(found).search(found.bound_bytes, ranks, 300_000, is_wary=is_wary)


def test_sizes_beyond_64_bits_are_left_to_the_planners_own():
    found = of_rows([(0, 2, 1 << 70), (1, 3, 1), (2, 4, 1 << 70)])
    search = search_in(library())(found)
    assert search((1 << 70) + 1, [0, 1, 2], 1_000, is_wary=True).offsets is not None
    assert search(1 << 70, [0, 1, 2], 1_000, is_wary=True).is_exhausted


@pytest.mark.parametrize("name", HARD)
def test_hard_problems_fit_the_capacity_that_they_were_made_for(name):
    found = problem(name)
    planner = Planner(found, search=search_in(library()))
    assert planner.reach(1_048_576, steps_max=300_000_000)
    made = planner.plan
    assert made.height_bytes <= 1_048_576
    assert fault_of(found, made.offsets, made.height_bytes) is None


def test_no_more_steps_than_told():
    found = problem("I")
    planner = Planner(found, search=search_in(library()))
    assert not planner.reach(1_048_576, steps_max=100_000)
    assert planner.plan == plan(found, steps_max=0)
    assert planner.steps < 200_000 + 6000 * len(found)


def test_below_the_bound_nothing_is_searched():
    planner = Planner(problem("A"), search=search_in(library()))
    assert not planner.reach(planner.plan.bound_bytes - 1, steps_max=1_000_000)
    assert planner.steps == 0
