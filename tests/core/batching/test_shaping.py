"""Sizes to freeze and filled-up runs are as cheap as brute force finds them."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, strategies as st

from xirang.core.batching.shaping import emptied, filled, partition_table, segment

HISTOGRAMS = st.dictionaries(st.integers(1, 60), st.integers(1, 50), min_size=1, max_size=9)


def attention(length):
    return 100 + 10 * length + length * length


def padded_cost(histogram, sizes, row_ns):
    return sum(
        count * row_ns(min(size for size in sizes if size >= length))
        for length, count in histogram.items()
    )


@given(HISTOGRAMS, st.integers(1, 6), st.sampled_from([attention, lambda n: n, lambda n: 7]))
def test_the_frozen_lengths_are_the_cheapest_of_all_choices(histogram, count, row_ns):
    sizes = segment(histogram, count, row_ns=row_ns)
    assert list(sizes) == sorted(set(sizes))
    assert len(sizes) <= count
    assert sizes[-1] == max(histogram)
    lengths = sorted(histogram)
    least = min(
        padded_cost(histogram, (*chosen, lengths[-1]), row_ns)
        for size in range(min(count, len(lengths)))
        for chosen in combinations(lengths[:-1], size)
    )
    assert padded_cost(histogram, sizes, row_ns) == pytest.approx(least)


def test_two_heaps_get_a_size_each():
    histogram = {8: 100, 9: 100, 10: 100, 200: 5, 210: 5}
    assert segment(histogram, 2, row_ns=attention) == (10, 210)
    assert segment(histogram, 1, row_ns=attention) == (210,)
    assert segment(histogram, 99, row_ns=attention) == (8, 9, 10, 200, 210)


def test_a_size_is_filled_up_to_the_next():
    assert [filled(n, (1, 8, 32)) for n in (1, 2, 8, 9, 32, 40)] == [1, 8, 8, 32, 32, 40]
    assert filled(5, ()) == 5


def cost_ns(rows, length):
    return 1000 + rows * attention(length)


def cost_of(cuts, lengths, rows, sizes):
    return sum(
        cost_ns(filled(sum(rows[start:stop]), sizes), lengths[stop - 1]) for start, stop in cuts
    )


def all_cuts(count):
    for size in range(count):
        for inner in combinations(range(1, count), size):
            ends = (0, *inner, count)
            yield list(pairwise(ends))


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5)), min_size=1, max_size=8),
    st.sets(st.integers(1, 12), min_size=1, max_size=4),
    st.sampled_from([None, 60, 200]),
)
def test_filled_up_runs_are_the_cheapest_of_all_cuts(requests, sizes, elements_max):
    requests = sorted(requests)
    lengths, rows = [n for n, _ in requests], [r for _, r in requests]
    sizes = sorted(sizes)

    def may(start, stop):
        size = filled(sum(rows[start:stop]), sizes)
        fits = size <= sizes[-1] and (
            elements_max is None or size * lengths[stop - 1] <= elements_max
        )
        return stop - start == 1 or fits

    cuts = partition_table(lengths, rows, cost_ns=cost_ns, sizes=sizes, elements_max=elements_max)
    assert [start for start, _ in cuts] == [0, *(stop for _, stop in cuts[:-1])]
    assert cuts[-1][1] == len(lengths)
    assert all(may(*cut) for cut in cuts)
    least = min(
        cost_of(other, lengths, rows, sizes)
        for other in all_cuts(len(lengths))
        if all(may(*cut) for cut in other)
    )
    assert cost_of(cuts, lengths, rows, sizes) == pytest.approx(least)


def test_nothing_waits_and_nothing_is_cut():
    assert partition_table([], [], cost_ns=cost_ns, sizes=(1, 8)) == []


def test_a_full_size_is_filled_before_another_is_begun():
    cuts = partition_table([5] * 9, [1] * 9, cost_ns=cost_ns, sizes=(1, 8))
    assert sorted(stop - start for start, stop in cuts) == [1, 8]


@given(st.integers(0, 40), st.lists(st.integers(1, 30), max_size=5).map(sorted))
def test_what_is_emptied_is_the_most_that_is_filled_up_within_a_size(size, sizes):
    most = emptied(size, sizes)
    fitting = [n for n in range(1, size + 1) if filled(n, sizes) <= size]
    assert most == max(fitting, default=0)
