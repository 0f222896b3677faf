"""The decision at the door."""

import pytest

from xirang.core.admission.gate import ADMITTED, Queue, decide
from xirang.core.admission.overload import Arrival, Overload
from xirang.core.run import Cause, Rejected

MS = 1_000_000
SECOND = 1000 * MS


def arrival(*, queued_ms=0, budget_ms=100, priority=2, client=7):
    return Arrival(priority, client, budget_ms * MS, queued_ms * MS, 1.0 * MS)


def verdict(arriving, *, depth=0, is_trusted=True, overload=None, now_ns=0, run_ms=10):
    queue = Queue(depth, 4, 77, is_trusted)
    overload = overload or Overload()
    return decide(arriving, queue, overload, run_ns=run_ms * MS, now_ns=now_ns)


def pressed(queued_ms, *, for_ns=SECOND):
    """A device under such a queue."""
    overload = Overload()
    for now_ns in range(0, for_ns, MS):
        priority = 1 + now_ns // MS % 3
        overload.note(arrival(queued_ms=queued_ms, priority=priority), now_ns=now_ns)
        overload.advance(now_ns)
    return overload


def test_a_short_queue_lets_everybody_in():
    assert verdict(arrival(), depth=3) is ADMITTED


def test_a_full_queue_lets_nobody_in_trusted_or_not():
    for is_trusted in (True, False):
        found = verdict(arrival(), depth=4, is_trusted=is_trusted)
        reason = "Exceeds maximum queue size: 4 requests wait, at most 4 may"
        assert found == Rejected(reason, 77, Cause.QUEUE_FULL)


@pytest.mark.parametrize(("most_ns", "is_in"), [(0, True), (78, True), (77, True), (76, False)])
def test_a_queue_may_be_bounded_by_its_work(most_ns, is_in):
    queue = Queue(1, 4, 77, is_trusted=False, drained_ns_max=most_ns)
    found = decide(arrival(), queue, Overload(), run_ns=MS, now_ns=0)
    if is_in:
        assert found is ADMITTED
    else:
        assert (found.cause, found.retry_after_ns) == (Cause.QUEUE_FULL, 1)
        assert "work for 0 ms waits" in found.reason


@pytest.mark.parametrize(("queued_ms", "is_in"), [(0, True), (90, True), (91, False), (500, False)])
def test_a_budget_that_cannot_be_kept_is_refused_with_the_time_to_come_back(queued_ms, is_in):
    found = verdict(arrival(queued_ms=queued_ms))
    if is_in:
        assert found is ADMITTED
    else:
        assert found.cause is Cause.BUDGET
        assert found.retry_after_ns == (queued_ms + 10 - 100) * MS
        assert f"would take {queued_ms + 10} ms, the budget is 100 ms" in found.reason


def test_a_prediction_that_is_not_trusted_refuses_nobody():
    assert verdict(arrival(queued_ms=500), is_trusted=False) is ADMITTED
    low = arrival(priority=3)
    overload = pressed(300)
    assert overload.level == 3
    assert verdict(low, is_trusted=False, overload=overload, now_ns=SECOND) is ADMITTED


def test_a_level_of_overload_costs_the_low_class_its_place_and_the_high_one_next_to_nothing():
    overload = pressed(300)
    causes = {1: [], 3: []}
    for priority, seen in causes.items():
        for client in range(200):
            found = verdict(
                arrival(priority=priority, client=client), overload=overload, now_ns=SECOND
            )
            seen.append(None if found is ADMITTED else found.cause)
    assert causes[3].count(Cause.OVERLOAD) == 200
    assert set(causes[1]) <= {None, Cause.OVERLOAD}
