"""Patience by load, threshold by the price of a call."""

import pytest

from xirang.core.queueing.window import openness, patience, threshold_ns


@pytest.mark.parametrize(
    ("load", "expected"),
    [(0.0, 1.0), (0.4, 1.0), (0.575, 0.5), (0.75, 0.0), (3.0, 0.0)],
    ids=["idle", "light", "between", "heavy", "overload"],
)
def test_openness_falls_from_light_to_heavy_load(load, expected):
    assert openness(load) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("load", "efficiency", "expected"),
    [(0.1, 1.0, 1.0), (0.1, 0.5, 0.5), (0.575, 0.5, 0.25), (0.1, 0.0, 0.0)],
    ids=["all", "half", "half of half", "none"],
)
def test_efficiency_scales_patience(load, efficiency, expected):
    assert patience(load=load, efficiency=efficiency) == pytest.approx(expected)


def test_threshold_is_where_doubling_saves_a_twentieth():
    call_ns = 5e6
    run_ns = threshold_ns(call_ns=call_ns)
    assert run_ns == pytest.approx(50e6)
    # t(k)/k − t(2k)/2k = call/2k is the twentieth of t(k)/k.
    assert call_ns / 2 == pytest.approx(run_ns / 20)
