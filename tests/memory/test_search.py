"""The native search: what it finds is a plan, and what it says cannot be cannot be."""

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.memory import lifetimes, problem
from tests.support.native import library, needs_native

from xirang.core.memory.planner import Planner, plan
from xirang.core.memory.skyline import Skyline
from xirang.core.memory.validate import fault_of
from xirang.memory.native.search import search_in

pytestmark = needs_native


@settings(deadline=None, max_examples=200)
@given(lifetimes(), st.randoms(use_true_random=False), st.integers(0, 8))
def test_it_agrees_with_the_planners_own_search(found, random, above):
    height = found.bound_bytes + above
    ranks = list(range(len(found)))
    random.shuffle(ranks)
    native = search_in(library())(found)(height, ranks, 2_000_000)
    if native.offsets is not None:
        assert fault_of(found, native.offsets, height) is None
    own = Skyline(found).search(height, ranks, 2_000_000)
    if own.offsets is not None:
        assert not native.is_exhausted
    if own.is_exhausted:
        assert native.offsets is None


@pytest.mark.parametrize("name", ["C", "G", "J"])
def test_hard_problems_fit_the_capacity_that_they_were_made_for(name):
    found = problem(name)
    planner = Planner(found, search=search_in(library()))
    assert planner.reach(1_048_576, steps_max=200_000_000)
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
