"""Which runs waiting requests could make, by the model's way of batching."""

import pytest
from tests.support.core import learned, request

from xirang.core.batching.grouping import by_length, in_order, row_costs
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy

COST = learned(2.07e6, 0.0, 0.132e6, 120.0)


def ids(runs):
    return [[r.id for r in run] for run in runs]


def test_by_length_parts_the_outlier():
    requests = [request(i, length=n) for i, n in enumerate((8, 8, 9, 100))]
    runs, cost_ns = by_length(requests, [8, 9, 100], [2, 1, 1], policy=Policy(), cost=COST)
    assert ids(runs) == [[0, 1, 2], [3]]
    paid_ns = COST.predict_ns(rows=3, length=9) + COST.predict_ns(rows=1, length=100)
    assert cost_ns == pytest.approx(paid_ns)


def test_by_length_keeps_the_bounds():
    requests = [request(i, length=8) for i in range(5)]
    policy = Policy(elements_max=16)
    runs, _ = by_length(requests, [8], [5], policy=policy, cost=COST)
    assert sorted(map(len, runs)) == [1, 2, 2]


def test_images_are_planned_by_area():
    sizes = [(8, 8), (8, 9), (100, 100)]
    requests = [request(i, length=h * w, lengths=(h, w)) for i, (h, w) in enumerate(sizes)]
    runs, _ = by_length(requests, [64, 72, 10_000], [1, 1, 1], policy=Policy(), cost=COST)
    assert ids(runs) == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Policy(), [[0, 1, 2, 3]]),
        (Policy(max_batch_size=2), [[0, 1], [2, 3]]),
        (Policy(elements_max=200), [[0, 1], [2, 3]]),
        (Policy(batching=Batching.FIRST_COME), [[0, 1, 2, 3]]),
        (Policy(batching=Batching.FIRST_COME, elements_max=9), [[0, 1, 2, 3]]),
        (Policy(batching=Batching.FIRST_COME, max_batch_size=3), [[0, 1, 2], [3]]),
        (Policy(batching=Batching.OFF), [[0]]),
    ],
    ids=[
        "share",
        "rows",
        "elements",
        "first-come pads",
        "first-come counts rows only",
        "first-come, rows",
        "off",
    ],
)
def test_in_order(policy, expected):
    urgent = [request(i, length=length) for i, length in enumerate((8, 100, 8, 9))]
    (runs,) = in_order(urgent, policy=policy)
    assert ids(runs) == expected


def test_groups_are_apart_the_most_urgent_first():
    urgent = [request(i, group=group, length=8) for i, group in enumerate("abab")]
    assert [ids(runs) for runs in in_order(urgent, policy=Policy())] == [[[0, 2]], [[1, 3]]]


def test_one_request_is_one_run():
    assert [ids(runs) for runs in in_order([request(7)], policy=Policy())] == [[[7]]]


def test_a_request_larger_than_the_bounds_runs_alone():
    urgent = [request(0, rows=9), request(1)]
    (runs,) = in_order(urgent, policy=Policy(max_batch_size=4))
    assert ids(runs) == [[0], [1]]


@pytest.mark.parametrize("cost", [COST, CostModel(), learned(5e6)], ids=["warm", "cold", "flat"])
def test_row_costs_are_those_of_the_cost_model(cost):
    lengths = [1, 8, 300]
    expected = [cost.row_ns(length) for length in lengths]
    assert row_costs(lengths, cost) == pytest.approx(expected)


def test_runs_that_are_filled_up_are_cut_where_a_size_is_full():
    requests = [request(i, length=8) for i in range(9)]
    policy = Policy(row_sizes=(1, 8, 32), max_batch_size=32)
    runs, cost_ns = by_length(requests, [8], [9], policy=policy, cost=COST)
    assert sorted(len(run) for run in runs) == [1, 8]
    paid_ns = COST.predict_ns(rows=1, length=8) + COST.predict_ns(rows=8, length=8)
    assert cost_ns == pytest.approx(paid_ns, rel=1e-6)


def within(total):
    """So many padded elements fit in memory."""
    return lambda length: total // length


@pytest.mark.parametrize("total", [7, 24, 60, 1000])
def test_memory_bounds_runs_as_elements_do(total):
    lengths, counts = [4, 8, 12], [5, 4, 3]
    requests = [
        request(i, length=n)
        for i, n in enumerate(n for n, c in zip(lengths, counts, strict=True) for _ in range(c))
    ]
    found = by_length(requests, lengths, counts, policy=Policy(), cost=COST, fitting=within(total))
    bounded = Policy(elements_max=total)
    assert found == by_length(requests, lengths, counts, policy=bounded, cost=COST)


@pytest.mark.parametrize("total", [7, 24, 60, 1000])
def test_memory_bounds_first_come_runs(total):
    requests = [request(i, length=n) for i, n in enumerate((4, 12, 8, 4, 12, 8, 8))]
    policy = Policy(batching=Batching.FIRST_COME)
    (found,) = in_order(requests, policy=policy, fitting=within(total))
    for run in found:
        rows, longest = len(run), max(r.length for r in run)
        assert rows == 1 or rows * longest <= total
    assert [r for run in found for r in run] == requests


@pytest.mark.parametrize("batching", list(Batching))
@pytest.mark.parametrize("total", [300, 1200, 100_000])
def test_memory_bounds_runs_of_several_lengths_by_each_of_them(batching, total):
    """What a row takes is not told by the product: the square of the width is in it."""
    shapes = [(2, 50), (50, 2), (10, 10), (2, 50), (50, 2), (10, 10), (3, 40)]
    requests = sorted(
        (request(i, length=h * w, lengths=(h, w)) for i, (h, w) in enumerate(shapes)),
        key=lambda one: one.length,
    )
    policy = Policy(batching=batching)

    def fitting(lengths):
        height, width = lengths
        return total // (height + width * width // 10)

    runs, _ = by_length(
        requests, [r.length for r in requests], [1] * 7, policy=policy, cost=COST, fitting=fitting
    )
    (found,) = in_order(requests, policy=policy, fitting=fitting)
    for run in [*runs, *found]:
        target = tuple(max(r.lengths[axis] for r in run) for axis in (0, 1))
        assert len(run) == 1 or len(run) <= fitting(target)
