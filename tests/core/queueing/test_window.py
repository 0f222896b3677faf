"""Patience by load, threshold by the price of a call."""

import pytest

from xirang.core.queueing.window import openness, patience, room_ns, spare, threshold_ns


@pytest.mark.parametrize(
    ("load", "expected"),
    [(0.0, 1.0), (0.4, 1.0), (0.575, 0.5), (0.75, 0.0), (3.0, 0.0)],
    ids=["idle", "light", "between", "heavy", "overload"],
)
def test_openness_falls_from_light_to_heavy_load(load, expected):
    assert openness(load) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("load", "efficiency", "expected"),
    [
        (0.1, 1.0, 1.0),
        (0.1, 0.5, 0.5),
        (0.575, 0.5, 0.25),
        (0.1, 0.0, 0.0),
        (0.9, 0.5, 0.0),
        (0.9, 0.75, 0.375),
        (0.9, 1.0, 1.0),
    ],
    ids=["all", "half", "half of half", "none", "heavy", "heavy, patient", "heavy, most patient"],
)
def test_efficiency_scales_patience(load, efficiency, expected):
    assert patience(load=load, efficiency=efficiency) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("patience", "room_ms", "expected_ms"),
    [(0.5, 1e9, 50), (1.0, 1e9, 50), (0.25, 1e9, 30), (0.0, 1e9, 10), (1.0, 20, 20), (1.0, 0, 5)],
    ids=["default", "patient", "heavier load", "heavy load", "little room", "no room"],
)
def test_threshold(patience, room_ms, expected_ms):
    found = threshold_ns(call_ns=5e6, patience=patience, room_ns=room_ms * 1e6)
    assert found == pytest.approx(expected_ms * 1e6)


def test_threshold_is_where_doubling_saves_a_twentieth():
    call_ns = 5e6
    run_ns = threshold_ns(call_ns=call_ns, patience=1.0, room_ns=1e12)
    # t(k)/k − t(2k)/2k = call/2k is the twentieth of t(k)/k.
    assert call_ns / 2 == pytest.approx(run_ns / 20)


def test_after_the_longest_run_those_who_came_meanwhile_are_on_time():
    run_ns = room_ns(budget_ns=50, call_ns=5, load=0.5, margin=1.0)
    slow_ns = 2 * run_ns
    assert slow_ns + 5 + 0.5 * slow_ns == pytest.approx(50)


@pytest.mark.parametrize(
    ("room", "load", "expected"),
    [(100, 0.5, 1.0), (12.5, 0.5, 0.5), (10, 0.5, 0.0), (5, 0.5, 0.0), (100, 2.0, 0.0)],
    ids=["room enough", "some", "only for what comes by itself", "none", "overload"],
)
def test_what_gathers_by_itself_is_not_waited_for(room, load, expected):
    assert spare(room_ns=room, call_ns=5.0, load=load) == pytest.approx(expected)


def test_where_a_call_costs_nothing_there_is_always_room():
    assert spare(room_ns=100.0, call_ns=0.0, load=0.5) == 1.0


def test_where_calls_cost_nothing_nobody_is_held_back_by_them():
    assert spare(room_ns=100.0, call_ns=0.0, load=0.5) == 1.0
    assert threshold_ns(call_ns=0.0, patience=1.0, room_ns=0.0) == 0.0
