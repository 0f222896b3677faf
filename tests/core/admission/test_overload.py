"""From arrivals to levels and to who is turned away."""

import pytest

from xirang.core.admission.overload import Arrival, Overload
from xirang.core.admission.shedding import FLOOR
from xirang.core.admission.switches import ORDER

MS = 1_000_000
SECOND = 1000 * MS


def press(overload, queued_ms, *, from_ns=0, for_ns=2 * SECOND, mix=(1, 2, 2, 3)):
    """Arrivals each millisecond that would wait so long of 100 ms; how many of each class went."""
    turned = {1: 0, 2: 0, 3: 0}
    came = {1: 0, 2: 0, 3: 0}
    for i, now_ns in enumerate(range(from_ns, from_ns + for_ns, MS)):
        priority = mix[i % len(mix)]
        arrival = Arrival(priority, i, 100 * MS, queued_ms * MS, 1.0 * MS)
        overload.note(arrival, now_ns=now_ns)
        overload.advance(now_ns)
        came[priority] += 1
        turned[priority] += overload.turns_away(arrival, now_ns=now_ns)
    return {key: turned[key] / came[key] if came[key] else 0.0 for key in came}, from_ns + for_ns


def test_a_short_queue_turns_nobody_away():
    overload = Overload()
    shares, _ = press(overload, 50)
    assert shares == {1: 0.0, 2: 0.0, 3: 0.0}
    assert overload.is_settled()


def test_the_first_level_costs_only_the_low_class():
    overload = Overload()
    shares, _ = press(overload, 88)
    assert overload.level == 1
    assert shares[1] == shares[2] == 0.0
    assert 0.5 < shares[3] < 0.95


def test_the_second_level_takes_from_the_lowest_first_and_a_little_from_all():
    overload = Overload()
    _, now_ns = press(overload, 100, for_ns=SECOND // 2)
    shares, _ = press(overload, 100, from_ns=now_ns, for_ns=SECOND // 4)
    assert overload.level >= 2
    assert shares[3] > shares[2]
    assert shares[1] == pytest.approx(FLOOR, abs=0.03)


def test_the_third_level_switches_functions_off_and_quiet_brings_all_back_within_five_seconds():
    overload = Overload()
    _, now_ns = press(overload, 300)
    assert overload.level == 3
    assert overload.off == ORDER
    end_ns = now_ns + 5 * SECOND
    while now_ns < end_ns:
        now_ns += 50 * MS
        overload.advance(now_ns)
    assert overload.level == 0
    assert overload.off == ()
    assert overload.shed == 0.0


def test_changes_are_told_once():
    overload = Overload()
    arrival = Arrival(2, 1, 100 * MS, 500 * MS, 1.0 * MS)
    for now_ns in range(0, SECOND, MS):
        overload.note(arrival, now_ns=now_ns)
    assert overload.advance(SECOND)
    assert not overload.advance(SECOND)


def test_the_fast_lane_shows_no_pressure_and_is_spared():
    overload = Overload()
    fast = Arrival(3, 1, 100 * MS, 500 * MS, 1.0 * MS, is_fast=True)
    for now_ns in range(0, SECOND, MS):
        overload.note(fast, now_ns=now_ns)
    assert overload.pressure(SECOND) == 0.0
    press(overload, 300, from_ns=SECOND)
    assert overload.level == 3
    assert not overload.turns_away(fast, now_ns=3 * SECOND)
