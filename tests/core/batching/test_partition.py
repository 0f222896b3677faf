"""The partition is exact: against all cuts, all set partitions, and the plain quadratic search."""

import random
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import cost_of, covers, fits

from xirang.core.batching.partition import Bounds, first_come, partition

LENGTHS = st.integers(1, 60)
CALL_NS = st.sampled_from([0.0, 10.0, 100.0, 1000.0])
WEIGHTS = st.sampled_from([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (3.0, 2.0, 0.05), (0.0, 0.0, 1.0)])
BOUNDS = st.sampled_from(
    [Bounds(99), Bounds(1), Bounds(3), Bounds(99, 60), Bounds(4, 100), Bounds(2, 30)]
)
ROWS = st.sampled_from([(1,), (1, 1, 1, 5), (1, 2, 3)])


def row_law(weights):
    w1, w2, w3 = weights
    return lambda length: w1 + length * (w2 + length * w3)


def allowed(cuts, lengths, rows, bounds):
    return all(fits(sum(rows[a:b]), max(lengths[a:b]), bounds, alone=b - a == 1) for a, b in cuts)


def all_cuts(count):
    for inner in range(count):
        for ends in combinations(range(1, count), inner):
            edges = (0, *ends, count)
            yield list(pairwise(edges))


def all_partitions(items):
    if not items:
        yield []
        return
    first, *rest = items
    for others in all_partitions(rest):
        yield [[first], *others]
        for i, group in enumerate(others):
            yield [*others[:i], [first, *group], *others[i + 1 :]]


def plain_search(lengths, rows, *, call_ns, row_ns, bounds):
    """The twin: O(n·B), no inequality used."""
    best = [0.0]
    for end in range(1, len(lengths) + 1):
        tried = []
        for start in range(end - 1, -1, -1):
            held = sum(rows[start:end])
            if not fits(held, lengths[end - 1], bounds, alone=end - start == 1):
                break
            tried.append(best[start] + call_ns + held * row_ns(lengths[end - 1]))
        best.append(min(tried))
    return best[-1]


@settings(max_examples=150)
@given(st.lists(LENGTHS, min_size=1, max_size=10), CALL_NS, WEIGHTS, BOUNDS, ROWS)
def test_no_contiguous_cut_is_cheaper(lengths, call_ns, weights, bounds, row_counts):
    lengths, row_ns = sorted(lengths), row_law(weights)
    rows = [row_counts[i % len(row_counts)] for i in range(len(lengths))]
    cuts = partition(lengths, rows, call_ns=call_ns, row_ns=row_ns, bounds=bounds)
    assert covers(cuts, len(lengths))
    assert allowed(cuts, lengths, rows, bounds)
    cheapest = min(
        cost_of(other, lengths, rows, call_ns=call_ns, row_ns=row_ns)
        for other in all_cuts(len(lengths))
        if allowed(other, lengths, rows, bounds)
    )
    assert cost_of(cuts, lengths, rows, call_ns=call_ns, row_ns=row_ns) == pytest.approx(cheapest)


@settings(max_examples=60)
@given(st.lists(LENGTHS, min_size=1, max_size=7), CALL_NS, WEIGHTS, BOUNDS)
def test_no_set_partition_is_cheaper(lengths, call_ns, weights, bounds):
    lengths, rows, row_ns = sorted(lengths), [1] * len(lengths), row_law(weights)
    cuts = partition(lengths, rows, call_ns=call_ns, row_ns=row_ns, bounds=bounds)
    cheapest = min(
        sum(call_ns + len(group) * row_ns(max(lengths[i] for i in group)) for group in groups)
        for groups in all_partitions(list(range(len(lengths))))
        if all(fits(len(g), max(lengths[i] for i in g), bounds, alone=len(g) == 1) for g in groups)
    )
    assert cost_of(cuts, lengths, rows, call_ns=call_ns, row_ns=row_ns) == pytest.approx(cheapest)


@pytest.mark.parametrize("total", [1, 50, 120, 500])
@given(st.lists(LENGTHS, min_size=1, max_size=30), CALL_NS, WEIGHTS)
def test_memory_for_so_many_elements_is_the_same_as_a_bound_on_them(
    total, lengths, call_ns, weights
):
    lengths, rows, law = sorted(lengths), [1] * len(lengths), row_law(weights)
    memory = Bounds(99, fitting=lambda length: total // length)
    cuts = partition(lengths, rows, call_ns=call_ns, row_ns=law, bounds=memory)
    assert allowed(cuts, lengths, rows, Bounds(99, total))
    assert cuts == partition(lengths, rows, call_ns=call_ns, row_ns=law, bounds=Bounds(99, total))


def test_a_bound_that_only_some_lengths_have_room_for_holds_for_each_run():
    lengths, rows, law = [1] * 20 + [10] * 4 + [30] * 2, [1] * 26, row_law((0.0, 1.0, 0.0))
    for elements_max in range(1, 61):
        bounds = Bounds(12, elements_max)
        cuts = partition(lengths, rows, call_ns=1e4, row_ns=law, bounds=bounds)
        assert allowed(cuts, lengths, rows, bounds)
        cheapest = plain_search(lengths, rows, call_ns=1e4, row_ns=law, bounds=bounds)
        assert cost_of(cuts, lengths, rows, call_ns=1e4, row_ns=law) == pytest.approx(cheapest)


@pytest.mark.parametrize(
    "bounds",
    [Bounds(1000), Bounds(16), Bounds(64, 512), Bounds(128, 2048)],
    ids=["free", "rows", "tight elements", "wide elements"],
)
@pytest.mark.parametrize("row_counts", [(1,), (1, 1, 3)], ids=["single rows", "several rows"])
@pytest.mark.parametrize("seed", range(3))
def test_256_requests_agree_with_the_plain_search(bounds, row_counts, seed):
    draw = random.Random(seed)
    lengths = sorted(min(512, max(3, round(draw.lognormvariate(3.4, 0.92)))) for _ in range(256))
    rows = [draw.choice(row_counts) for _ in lengths]
    law = {"call_ns": 2.07e6, "row_ns": row_law((0.0, 0.132e6, 120.0))}
    cuts = partition(lengths, rows, **law, bounds=bounds)
    assert covers(cuts, 256)
    assert allowed(cuts, lengths, rows, bounds)
    cheapest = plain_search(lengths, rows, **law, bounds=bounds)
    assert cost_of(cuts, lengths, rows, **law) == pytest.approx(cheapest, rel=1e-12)


@pytest.mark.parametrize(
    ("lengths", "call_ns", "cuts"),
    [
        ([], 10, []),
        ([5], 10, [(0, 1)]),
        ([5, 5, 5], 10, [(0, 3)]),
        ([5, 5, 100], 10, [(0, 2), (2, 3)]),
        ([5, 5, 100], 1000, [(0, 3)]),
        ([1, 2, 3, 4], 0, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ],
    ids=["nobody", "one", "equal", "outlier runs apart", "costly call", "free calls"],
)
def test_literal_cuts(lengths, call_ns, cuts):
    rows = [1] * len(lengths)
    found = partition(lengths, rows, call_ns=call_ns, row_ns=float, bounds=Bounds(64))
    assert found == cuts


def test_equal_rows_of_free_work_share_a_run():
    cuts = partition([1, 1, 1], [1, 1, 1], call_ns=5, row_ns=lambda _: 1e-9, bounds=Bounds(2))
    assert len(cuts) == 2


@pytest.mark.parametrize(
    ("lengths", "rows", "bounds", "cuts"),
    [
        ([3, 9, 2], [1, 1, 1], Bounds(2), [(0, 2), (2, 3)]),
        ([3, 9, 2], [1, 1, 1], Bounds(9, 18), [(0, 2), (2, 3)]),
        ([3, 9, 2], [1, 5, 1], Bounds(2), [(0, 1), (1, 2), (2, 3)]),
        ([], [], Bounds(2), []),
    ],
    ids=["rows", "elements", "too large runs alone", "nobody"],
)
def test_first_come_fills_in_the_given_order(lengths, rows, bounds, cuts):
    assert first_come(lengths, rows, bounds=bounds) == cuts


@given(st.integers(1, 40), LENGTHS, BOUNDS)
def test_first_come_is_the_same_where_all_are_alike(count, length, bounds):
    alike = first_come([length] * count, [1] * count, bounds=bounds)
    # The last is another length, so that there is something to weigh.
    other = first_come([*[length] * count, 61], [1] * (count + 1), bounds=bounds)
    assert alike[:-1] == other[: len(alike) - 1]
    assert alike[-1] in {(begin, min(end, count)) for begin, end in other}
    assert covers(alike, count)


@pytest.mark.parametrize(
    ("bounds", "length", "rows"),
    [(Bounds(8), 100, 8), (Bounds(8, 400), 100, 4), (Bounds(8, 400), 10, 8), (Bounds(8, 5), 9, 0)],
    ids=["no elements", "elements", "rows", "nothing fits"],
)
def test_bounds_in_rows(bounds, length, rows):
    assert bounds.rows_at(length) == rows
