"""Levels: entered at once, left one by one and late."""

import pytest

from xirang.core.admission.levels import (
    EXIT_SHARE,
    HOLD_NS,
    SHED_LITTLE,
    SHED_LONG_NS,
    SHED_MUCH,
    Levels,
    Thresholds,
)


@pytest.mark.parametrize(
    ("pressure", "level"), [(0.0, 0), (0.8, 0), (0.81, 1), (0.95, 1), (0.96, 2), (1.1, 2), (1.2, 3)]
)
def test_a_level_is_entered_at_once(pressure, level):
    assert Levels(Thresholds()).step(now_ns=0, pressure=pressure, shed=0.0) == level


def test_a_level_is_held_before_it_is_left_and_then_only_for_the_one_below():
    levels = Levels(Thresholds())
    levels.step(now_ns=0, pressure=2.0, shed=0.0)
    seen = [levels.step(now_ns=i * HOLD_NS // 2, pressure=0.0, shed=0.0) for i in range(8)]
    assert seen == [3, 3, 2, 2, 1, 1, 0, 0]


def test_near_its_threshold_a_level_stays():
    levels = Levels(Thresholds())
    levels.step(now_ns=0, pressure=0.9, shed=0.0)
    for i in range(1, 50):
        assert levels.step(now_ns=i * HOLD_NS, pressure=EXIT_SHARE * 0.8 + 0.01, shed=0.0) == 1
    assert levels.step(now_ns=50 * HOLD_NS, pressure=EXIT_SHARE * 0.8 - 0.01, shed=0.0) == 0


def test_shedding_much_for_long_is_the_third_level():
    levels = Levels(Thresholds())
    much = SHED_MUCH + 0.1
    assert levels.step(now_ns=0, pressure=1.0, shed=much) == 2
    assert levels.step(now_ns=SHED_LONG_NS - 1, pressure=1.0, shed=much) == 2
    assert levels.step(now_ns=SHED_LONG_NS, pressure=1.0, shed=much) == 3


def test_shedding_much_now_and_then_is_not():
    levels = Levels(Thresholds())
    for i in range(20):
        shed = SHED_MUCH + 0.1 if i % 2 else 0.1
        assert levels.step(now_ns=i * SHED_LONG_NS // 2, pressure=1.0, shed=shed) == 2


def test_thresholds_stand_in_order():
    with pytest.raises(AssertionError):
        Thresholds(low=1.0, all=0.9)


def test_the_second_level_stays_while_it_is_shedding_that_keeps_the_pressure_low():
    levels = Levels(Thresholds())
    assert levels.step(now_ns=0, pressure=1.0, shed=0.0) == 2
    assert levels.step(now_ns=10 * HOLD_NS, pressure=0.1, shed=0.4) == 2
    assert levels.step(now_ns=11 * HOLD_NS, pressure=0.1, shed=SHED_LITTLE) == 1
    assert levels.step(now_ns=12 * HOLD_NS, pressure=0.1, shed=SHED_LITTLE) == 0
