"""Margins are quantiles of the latest ratios, against a naive twin."""

from math import ceil

import pytest
from hypothesis import given, strategies as st

from xirang.core.cost.margins import FEW, RATIOS, Margins

ratios = st.floats(0.0, 20.0)


def margins_of(values):
    margins = Margins()
    for value in values:
        margins.add(value)
    return margins


def test_before_enough_was_seen_there_are_defaults():
    margins = margins_of([9.0] * (FEW - 1))
    assert (margins.fit(), margins.wait()) == (0.1, 0.5)


def test_a_steady_machine_earns_the_smallest_margins():
    margins = margins_of([1.0] * 64)
    assert (margins.fit(), margins.wait()) == (0.0, 0.005)


def test_a_wild_machine_gets_bounded_ones():
    margins = margins_of([100.0] * 64)
    assert (margins.fit(), margins.wait()) == (1.0, 5.0)


@given(st.lists(ratios, min_size=FEW, max_size=600))
def test_margins_are_the_quantiles_of_the_latest(values):
    margins = margins_of(values)
    latest = values[-RATIOS:]
    assert margins.ratios == tuple(latest)
    ordered, count = sorted(latest), len(latest)
    at_three_quarters = ordered[ceil(0.75 * count) - 1] - 1
    assert margins.fit() == min(1.0, max(0.0, at_three_quarters))
    conformal = ordered[min(count, ceil((count + 1) * 0.995)) - 1] - 1
    assert margins.wait() == pytest.approx(min(5.0, max(0.005, conformal)))


@given(st.lists(ratios, max_size=600), st.lists(ratios, max_size=50))
def test_margins_that_were_kept_go_on_as_they_were(before, after):
    margins = margins_of(before)
    twin = Margins(margins.ratios)
    for value in after:
        margins.add(value)
        twin.add(value)
    assert (twin.ratios, twin.fit(), twin.wait()) == (margins.ratios, margins.fit(), margins.wait())
