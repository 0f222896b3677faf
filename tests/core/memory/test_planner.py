"""Plans: right, low, the same each time, and there at any time."""

import pytest
from hypothesis import given, settings
from tests.support.memory import GRAPHS, HARD, lifetimes, problem

from xirang.core.memory.lifetime import Lifetimes, of_rows
from xirang.core.memory.planner import Planner, plan
from xirang.core.memory.validate import fault_of


@settings(deadline=None)
@given(lifetimes())
def test_a_plan_has_no_fault_and_is_within_its_bounds(found):
    made = plan(found, steps_max=20_000)
    assert fault_of(found, made.offsets, made.height_bytes) is None
    assert made.bound_bytes == found.bound_bytes <= made.height_bytes <= found.sum_bytes


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_real_models_are_planned_at_the_bound(name):
    found = problem(name)
    made = plan(found)
    assert fault_of(found, made.offsets, made.height_bytes) is None
    assert made.height_bytes == made.bound_bytes


@pytest.mark.parametrize("name", HARD)
def test_it_gets_better_with_work_and_never_worse(name):
    found = problem(name)
    planner = Planner(found)
    heights = [planner.plan.height_bytes]
    while planner.steps < 300_000 and planner.advance():
        heights.append(planner.plan.height_bytes)
    assert heights == sorted(heights, reverse=True)
    assert fault_of(found, planner.plan.offsets, planner.plan.height_bytes) is None


@pytest.mark.parametrize("name", ["B", "C", "D", "F"])
def test_hard_problems_reach_the_capacity_that_they_were_made_for(name):
    found = problem(name)
    planner = Planner(found)
    assert planner.reach(1_048_576, steps_max=1_000_000)
    made = planner.plan
    assert made.height_bytes <= 1_048_576
    assert fault_of(found, made.offsets, made.height_bytes) is None


def test_the_example_of_twelve_units_is_solved():
    made = plan(problem("input12"))
    assert made.height_bytes == made.bound_bytes == 12


def test_the_same_lifetimes_get_the_same_plan():
    found = problem("F")
    assert plan(found, steps_max=500_000) == plan(found, steps_max=500_000)


def test_it_stops_at_the_bound():
    planner = Planner(of_rows([(0, 2, 4), (1, 3, 4)]))
    assert not planner.advance()
    assert planner.steps == 0


@pytest.mark.parametrize("found", [Lifetimes((), (), ()), of_rows([(0, 1, 0), (0, 2, 0)])])
def test_nothing_needs_nothing(found):
    made = plan(found)
    assert made.height_bytes == 0
    assert made.ratio == 1.0
    assert made.offsets == (0,) * len(found)


def test_sizes_beyond_any_machine_are_planned_like_others():
    made = plan(of_rows([(0, 2, 1 << 70), (1, 3, 1), (2, 4, 1 << 70)]))
    assert made.height_bytes == (1 << 70) + 1
