"""When a run starts: windows, latest starts, and several models that share a device."""

import pytest

from xirang.core.run import Trigger
from xirang.core.scheduling.launch import (
    EARLY_NS,
    Candidate,
    Launch,
    Waiting,
    next_launch,
    window_ns,
)

FAR = 10**9
PLENTY = 1.0  # company: one request a nanosecond


def candidate(model="m", **fields):
    values = {
        "deadline_ns": 1100,
        "run_ns": 200,
        "company": PLENTY,
        "is_full": False,
        "window_ns_max": FAR,
    }
    fields = values | fields
    oldest_arrival_ns, patience = fields.pop("oldest", 100), fields.pop("patience", 1.0)
    fields.setdefault("waiting", [Waiting(oldest_arrival_ns, patience)])
    return Candidate(model, **fields)


CASES = {
    # latest start 1100 − 200 = 900, slack 800
    "whole slack": ({}, Launch(900, "m", Trigger.DEADLINE, 800)),
    "half the slack": ({"patience": 0.5}, Launch(500, "m", Trigger.WINDOW, 400)),
    "configured window": ({"window_ns_max": 50}, Launch(150, "m", Trigger.WINDOW, 50)),
    "full": ({"is_full": True}, Launch(100, "m", Trigger.THRESHOLD, 800)),
    "nobody expected": ({"company": 0.0}, Launch(100, "m", Trigger.ALONE, 800)),
    "hope below its least": ({"company": 0.3 / 801}, Launch(100, "m", Trigger.ALONE, 800)),
    "hope just enough": ({"company": 0.31 / 800}, Launch(900, "m", Trigger.DEADLINE, 800)),
    "no patience": ({"patience": 0.0}, Launch(100, "m", Trigger.ALONE, 0)),
    "slack is gone": ({"deadline_ns": 250}, Launch(100, "m", Trigger.ALONE, 0)),
}


@pytest.mark.parametrize(("fields", "expected"), CASES.values(), ids=CASES)
def test_one_candidate(fields, expected):
    assert next_launch([candidate(**fields)], now_ns=100, parallelism=1, load=0.0) == expected


def test_two_models_are_deferred_jointly():
    first = candidate("first", deadline_ns=1000)
    second = candidate("second", deadline_ns=1100)
    # second may start at 900; first must be done by then: 900 − 200 = 700, not 1000 − 200.
    launch = next_launch([second, first], now_ns=100, parallelism=1, load=0.0)
    assert launch == Launch(700, "first", Trigger.DEADLINE, 600)


def test_two_instances_need_half_the_room():
    first = candidate("first", deadline_ns=1000)
    second = candidate("second", deadline_ns=1100)
    assert next_launch([first, second], now_ns=100, parallelism=2, load=0.0).at_ns == 800


def test_room_is_left_for_what_comes_while_others_run():
    first = candidate("first", deadline_ns=1000)
    second = candidate("second", deadline_ns=1100)
    # At a load of 0.4 what runs in between grows by a quarter: 900 − 200 · 1.25.
    launch = next_launch([second, first], now_ns=100, parallelism=1, load=0.4)
    assert launch.at_ns == 650


def test_the_least_patient_decides():
    kinds = [Waiting(100, 1.0), Waiting(150, 0.2)]
    # 100 + 800 · 1.0, or 150 + 750 · 0.2.
    launch = next_launch([candidate(waiting=kinds)], now_ns=100, parallelism=1, load=0.0)
    assert launch == Launch(300, "m", Trigger.WINDOW, 150)


def test_a_far_deadline_does_not_hasten_a_near_one():
    near, far = candidate("near", deadline_ns=1000), candidate("far", deadline_ns=9000)
    assert next_launch([near, far], now_ns=100, parallelism=1, load=0.0).at_ns == 800


def test_of_those_that_are_due_the_most_urgent_goes():
    near = candidate("near", deadline_ns=1000, is_full=True)
    far = candidate("far", deadline_ns=2000, is_full=True, oldest=50)
    assert next_launch([far, near], now_ns=100, parallelism=1, load=0.0).model == "near"


def test_the_one_whose_time_comes_first_goes_even_if_it_is_less_urgent():
    near = candidate("near", deadline_ns=5000)
    far = candidate("far", deadline_ns=9000, window_ns_max=10)
    assert next_launch([near, far], now_ns=100, parallelism=1, load=0.0).at_ns == 110
    assert next_launch([near, far], now_ns=120, parallelism=1, load=0.0).model == "far"


@pytest.mark.parametrize(
    ("patience", "slack_ns", "window_ns_max", "expected"),
    [(0.5, 100, 80, 50), (1.0, 100, 80, 80), (1.0, -5, 80, 0), (0.0, 100, 80, 0)],
    ids=["share", "bound", "late", "never"],
)
def test_window(patience, slack_ns, window_ns_max, expected):
    window = window_ns(patience=patience, slack_ns=slack_ns, window_ns_max=window_ns_max)
    assert window == expected


@pytest.mark.parametrize(
    ("trigger", "wait_ns", "early_ns"),
    [
        (Trigger.WINDOW, 100 * EARLY_NS, EARLY_NS),
        (Trigger.WINDOW, 80, 10),  # of a short window only a part
        (Trigger.WINDOW, 0, 0),
        (Trigger.DEADLINE, 100 * EARLY_NS, 0),  # whoever is waited for here needs every instant
    ],
)
def test_only_the_last_bit_of_a_window_is_not_waited_for(trigger, wait_ns, early_ns):
    launch = Launch(10**9, "m", trigger, wait_ns)
    assert launch.is_due(10**9 - early_ns)
    assert not launch.is_due(10**9 - early_ns - 1)
