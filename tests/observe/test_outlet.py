"""What is left at an outlet comes out, in order, or is counted as dropped."""

import threading

import pytest

from xirang.observe.outlet import Outlet, Tally


class Slow:
    """Takes nothing until it is told to."""

    def __init__(self):
        self.taken = []
        self.entered, self.gate = threading.Event(), threading.Event()

    def __call__(self, items):
        self.entered.set()
        assert self.gate.wait(10)
        self.taken += items


def test_everything_comes_out_in_order_and_the_end_is_told():
    taken, tally = [], Tally()
    outlet = Outlet(taken.append, tally, name="test", interval_s=0.001)
    for number in range(1000):
        outlet.put(number)
    outlet.close()
    assert [number for items in taken for number in items] == list(range(1000))
    assert taken[-1] == [], "who holds something back is told that there will be no more"
    assert tally.dropped == 0


def test_what_is_too_much_is_dropped_and_nobody_waits():
    slow, tally = Slow(), Tally()
    outlet = Outlet(slow, tally, name="test", room=3, interval_s=0.001)
    outlet.put("first")
    assert slow.entered.wait(10)
    for number in range(5):
        outlet.put(number)
    assert tally.dropped == 2
    slow.gate.set()
    outlet.close()
    assert slow.taken == ["first", 0, 1, 2]


def test_who_is_in_a_hurry_does_not_wait_for_the_interval():
    slow = Slow()
    slow.gate.set()
    outlet = Outlet(slow, Tally(), name="test", interval_s=1e6)
    outlet.put("now")
    outlet.hurry()
    assert slow.entered.wait(10)
    outlet.close()


@pytest.mark.parametrize("count", [0, 1])
def test_the_thread_is_gone_at_the_end(count):
    outlet = Outlet(lambda _: None, Tally(), name="test-thread", interval_s=1e6)
    for number in range(count):
        outlet.put(number)
    assert "test-thread" in [thread.name for thread in threading.enumerate()]
    outlet.close()
    assert "test-thread" not in [thread.name for thread in threading.enumerate()]


def test_who_fails_at_some_gets_the_next_ones_all_the_same():
    taken, tally = [], Tally()

    def take(items):
        if "bad" in items:
            raise ValueError(items)
        taken.extend(items)

    outlet = Outlet(take, tally, name="test", interval_s=1e6)
    outlet.put("bad")
    outlet._empty()
    outlet.put("good")
    outlet.close()
    assert (taken, tally.failed) == (["good"], 1)
