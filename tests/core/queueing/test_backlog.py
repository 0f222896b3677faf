"""What waits for one model: lanes, sums, urgency and the latest start."""

import pytest
from tests.support.core import MS, learned, request

from xirang.core.cost import CostModel
from xirang.core.queueing.backlog import Backlog


def filled(*requests):
    backlog = Backlog(learned(2e6, 0.0, 1e5))
    for waiting in requests:
        backlog.push(waiting)
        backlog.check_integrity()
    return backlog


def ids(requests):
    return [waiting.id for waiting in requests]


def test_push_returns_the_latest_start():
    backlog = filled()
    # 2 ms a call + 3 rows × 10 elements × 0.1 ms
    latest_ns = backlog.push(request(1, at_ms=5, budget_ms=100, rows=3, length=10))
    assert latest_ns == pytest.approx(100 * MS, abs=10)


def test_a_cold_model_waits_for_the_deadline_itself():
    assert Backlog(CostModel()).push(request(1, budget_ms=100, length=500)) == 100 * MS


def test_requests_file_by_priority_and_cost():
    backlog = filled(
        request(1, priority=1, length=10),
        request(2, priority=2, length=12),
        request(3, priority=2, length=15),
        request(4, priority=2, length=400),
    )
    lanes = backlog.lanes()
    assert [(lane.priority, lane.depth) for lane in lanes] == [(1, 1), (2, 2), (2, 1)]
    assert lanes[1].cost_class < lanes[2].cost_class
    assert backlog.rows == 4
    assert backlog.work_ns == pytest.approx((10 + 12 + 15 + 400) * 1e5, rel=1e-6)


def test_urgent_orders_by_virtual_deadline():
    backlog = filled(
        request(1, budget_ms=100, priority=3),
        request(2, budget_ms=100, priority=1),
        request(3, budget_ms=40, priority=3),
        request(4, budget_ms=100, priority=2),
    )
    assert ids(backlog.urgent()) == [3, 2, 4, 1]
    assert ids(backlog.urgent(limit=2)) == [3, 2]


def test_most_pressing_is_the_one_whose_slack_ends_first():
    backlog = filled(
        request(1, budget_ms=100), request(2, budget_ms=120, length=400), request(3, budget_ms=110)
    )
    assert backlog.most_pressing().id == 2  # 40 ms of work
    backlog.remove(2)
    assert backlog.most_pressing().id == 1
    backlog.remove(1)
    assert backlog.most_pressing().id == 3


def test_oldest_arrival_is_over_all_lanes():
    backlog = filled(
        request(1, at_ms=3, priority=1), request(2, at_ms=4), request(3, at_ms=5, length=400)
    )
    assert backlog.oldest_arrival_ns() == 3 * MS
    backlog.remove(1)
    assert backlog.oldest_arrival_ns() == 4 * MS


def test_an_emptied_backlog_holds_nothing():
    backlog = filled(request(1, length=7), request(2, rows=4))
    for id in (1, 2):
        assert id in backlog
        assert backlog.remove(id).id == id
        backlog.check_integrity()
    assert (len(backlog), backlog.rows, backlog.work_ns, backlog.lanes()) == (0, 0, 0.0, ())
    assert backlog.urgent() == []
