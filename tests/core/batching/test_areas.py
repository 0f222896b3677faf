"""Images by area: exact among contiguous runs, whatever the bounds."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import covers, fits, learned, request

from xirang.core.batching.areas import partition_areas
from xirang.core.batching.partition import Bounds

COST = learned(100e3, 10e3, 1e3)
SIZE = st.tuples(st.integers(1, 12), st.integers(1, 12))
BOUNDS = st.sampled_from([Bounds(99), Bounds(2), Bounds(99, 100), Bounds(3, 30)])


def images(sizes):
    made = [request(i, length=h * w, lengths=(h, w)) for i, (h, w) in enumerate(sizes)]
    return sorted(made, key=lambda image: image.length)


def price(run):
    height = max(image.lengths[0] for image in run)
    width = max(image.lengths[1] for image in run)
    return COST.call_ns() + len(run) * COST.row_ns(height * width), height * width


def total(runs, bounds):
    if not all(fits(len(run), price(run)[1], bounds, alone=len(run) == 1) for run in runs):
        return float("inf")
    return sum(price(run)[0] for run in runs)


@settings(max_examples=60)
@given(st.lists(SIZE, min_size=1, max_size=8), BOUNDS)
def test_no_cut_in_order_of_area_is_cheaper(sizes, bounds):
    requests = images(sizes)
    cuts, cost_ns = partition_areas(requests, cost=COST, bounds=bounds)
    assert covers(cuts, len(requests))
    found = total([requests[a:b] for a, b in cuts], bounds)
    assert found == pytest.approx(cost_ns)
    cheapest = min(
        total([requests[a:b] for a, b in pairwise((0, *inner, len(requests)))], bounds)
        for count in range(len(requests))
        for inner in combinations(range(1, len(requests)), count)
    )
    assert found == pytest.approx(cheapest)


def test_tall_and_wide_ones_of_one_area_stay_apart_where_the_call_is_cheap():
    cuts, _ = partition_areas(
        images([(2, 50), (2, 50), (50, 2), (50, 2)]), cost=COST, bounds=Bounds(99)
    )
    assert cuts == [(0, 2), (2, 4)]
