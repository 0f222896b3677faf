"""Counts by bound, and the percentiles they give."""

import pytest

from xirang.observe.histogram import SPANS_NS, Histogram, quantile, spans


def test_a_value_counts_at_the_first_bound_that_is_not_below_it():
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 2, 3, 4, 5, 100):
        histogram.add(value)
    assert histogram.counts == [2, 2, 2, 2]
    assert histogram.count == 8
    assert histogram.total == 117.0


def test_a_value_may_count_several_times():
    histogram = Histogram((1, 2))
    histogram.add(2, 3)
    assert (histogram.counts, histogram.total) == ([0, 3, 0], 6)


@pytest.mark.parametrize("times", [1, 2, 7, 64])
@pytest.mark.parametrize("last", [0.5, 1, 3, 4, 9, 1000])
def test_values_at_even_distances_are_counted_as_if_one_by_one(last, times):
    even, single = Histogram((1, 2, 4, 8)), Histogram((1, 2, 4, 8))
    even.add_even(last, times)
    for number in range(1, times + 1):
        single.add(number * last / times)
    assert even.counts == single.counts
    assert even.total == pytest.approx(single.total)


def test_spans_are_counted_in_nanoseconds_and_read_in_seconds():
    assert spans().bounds == SPANS_NS
    assert list(SPANS_NS) == sorted(SPANS_NS)
    assert spans().bounds[-1] / spans().unit == 10.0


def test_a_percentile_lies_between_its_bounds_in_proportion():
    assert quantile(0.5, (10, 20), [0, 10, 0]) == 15
    assert quantile(0.5, (10, 20), [10, 0, 0]) == 5
    assert quantile(0.99, (10, 20), [0, 0, 4]) == 20, "beyond the last bound nothing is known"
    assert quantile(0.5, (10, 20), [0, 0, 0]) is None
