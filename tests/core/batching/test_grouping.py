"""Which runs waiting requests could make, by the model's way of batching."""

import pytest
from tests.support.core import learned, request

from xirang.core.batching.grouping import runs_of
from xirang.core.policy import Batching, Policy

LENGTHS = (8, 100, 8, 9)
COST = learned(2.07e6, 0.0, 0.132e6, 120.0)


def ids(runs):
    return [[r.id for r in run] for run in runs]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(batching=Batching.OPTIMAL, can_pad=True), [[0, 2, 3], [1]]),
        (Policy(batching=Batching.OPTIMAL, can_pad=False), [[0, 1, 2, 3]]),
        (Policy(batching=Batching.OPTIMAL, can_pad=False, max_batch_size=2), [[0, 1]]),
        (Policy(batching=Batching.OPTIMAL, can_pad=False, elements_max=200), [[0, 1]]),
        (Policy(batching=Batching.FIRST_COME, can_pad=True), [[0, 1, 2, 3]]),
        (Policy(batching=Batching.FIRST_COME, can_pad=True, elements_max=9), [[0, 1, 2, 3]]),
        (Policy(batching=Batching.FIRST_COME, can_pad=True, max_batch_size=3), [[0, 1, 2]]),
        (Policy(batching=Batching.OFF, can_pad=True), [[0]]),
    ],
    ids=[
        "optimal parts the outlier",
        "fixed shapes share",
        "fixed shapes, rows",
        "fixed shapes, elements",
        "first-come pads",
        "first-come counts rows only",
        "first-come, rows",
        "off",
    ],
)
def test_runs(policy, expected):
    urgent = [request(i, length=length) for i, length in enumerate(LENGTHS)]
    assert ids(runs_of(urgent, policy=policy, cost=COST)) == expected


def test_only_the_group_of_the_most_urgent_is_planned():
    urgent = [request(i, group=group, length=8) for i, group in enumerate("abab")]
    runs = runs_of(urgent, policy=Policy(can_pad=True), cost=COST)
    assert ids(runs) == [[0, 2]]


def test_one_request_is_one_run():
    assert ids(runs_of([request(7)], policy=Policy(can_pad=True), cost=COST)) == [[7]]


def test_a_request_larger_than_the_bounds_runs_alone():
    urgent = [request(0, rows=9), request(1)]
    runs = runs_of(urgent, policy=Policy(max_batch_size=4), cost=COST)
    assert ids(runs) == [[0]]
