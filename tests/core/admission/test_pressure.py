"""Predicted queueing time ÷ budget, as a fading mean."""

import pytest

from xirang.core.admission.pressure import MEMORY_NS, Pressure

MS = 1_000_000


def steady(pressure, *, queued_ns, budget_ns, from_ns=0, for_ns=10 * MEMORY_NS):
    for now_ns in range(from_ns, from_ns + for_ns, MS):
        pressure.sample(queued_ns / budget_ns, now_ns=now_ns)
    return from_ns + for_ns


def test_a_steady_queue_is_known_by_its_ratio():
    pressure = Pressure()
    now_ns = steady(pressure, queued_ns=80 * MS, budget_ns=100 * MS)
    assert pressure.at(now_ns) == pytest.approx(0.8, rel=0.02)


def test_the_first_moments_do_not_alarm():
    pressure = Pressure()
    pressure.sample(1000 * MS / (100 * MS), now_ns=MS)
    assert pressure.at(MS) < 0.2


def test_without_arrivals_it_fades():
    pressure = Pressure()
    now_ns = steady(pressure, queued_ns=80 * MS, budget_ns=100 * MS)
    assert pressure.at(now_ns + MEMORY_NS) == pytest.approx(0.8 / 2.718, rel=0.05)
    assert pressure.at(now_ns + 100 * MEMORY_NS) < 1e-9


def test_a_clock_that_repeats_an_instant_changes_nothing():
    pressure = Pressure()
    now_ns = steady(pressure, queued_ns=50 * MS, budget_ns=100 * MS)
    pressure.sample(50 * MS / (100 * MS), now_ns=now_ns)
    before = pressure.at(now_ns)
    for _ in range(100):
        pressure.sample(10_000 * MS / (100 * MS), now_ns=now_ns)
    assert pressure.at(now_ns) == before
