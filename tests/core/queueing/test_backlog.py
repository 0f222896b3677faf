"""What waits for one model: lanes, sums, urgency and the latest start."""

import pytest
from tests.support.core import MS, learned, request

from xirang.core.cost import CostModel
from xirang.core.queueing.backlog import CONSIDERED_MAX, Backlog
from xirang.core.request import NEVER_NS, Request


def empty(cost=None, *, age_ms=10_000, is_shelved=True):
    return Backlog(cost or learned(2e6, 0.0, 1e5), age_ns_max=age_ms * MS, is_shelved=is_shelved)


def filled(*requests):
    backlog = empty()
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
    assert empty(CostModel()).push(request(1, budget_ms=100, length=500)) == 100 * MS


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


def test_oldest_arrivals_are_over_all_lanes_of_a_priority():
    backlog = filled(
        request(1, at_ms=3, priority=1), request(2, at_ms=4), request(3, at_ms=5, length=400)
    )
    assert backlog.oldest_arrivals_ns() == {1: 3 * MS, 2: 4 * MS}
    backlog.remove(1)
    assert backlog.oldest_arrivals_ns() == {2: 4 * MS}


def test_an_emptied_backlog_holds_nothing():
    backlog = filled(request(1, length=7), request(2, rows=4))
    for id in (1, 2):
        assert id in backlog
        assert backlog.remove(id).id == id
        backlog.check_integrity()
    assert (len(backlog), backlog.rows, backlog.work_ns, backlog.lanes()) == (0, 0, 0.0, ())
    assert backlog.urgent() == []


def test_planning_sees_the_most_urgent_by_length():
    backlog = filled(*(request(i, length=20 - i, group=i % 2) for i in range(4)))
    shelved = [shelves.ordered() for shelves in backlog.shelves()]
    assert [(ids(requests), lengths) for requests, lengths, _ in shelved] == [
        ([2, 0], [18, 20]),
        ([3, 1], [17, 19]),
    ]


@pytest.mark.parametrize("leaver", [3, CONSIDERED_MAX + 3], ids=["seen", "unseen"])
def test_only_so_many_are_seen_and_others_move_up(leaver):
    backlog = empty()
    for i in range(CONSIDERED_MAX + 5):
        backlog.push(request(i, budget_ms=2000 - i, length=1 + i % 7))
        if i % 50 == 0:
            backlog.check_integrity()
    (shelves,) = backlog.shelves()
    assert len(shelves) == CONSIDERED_MAX
    backlog.remove(CONSIDERED_MAX + 4 - leaver)
    backlog.check_integrity()
    assert len(shelves) == CONSIDERED_MAX


def test_a_run_says_whether_others_are_looked_at_now():
    backlog = empty()
    requests = [request(i) for i in range(CONSIDERED_MAX + 1)]
    for waiting in requests:
        backlog.push(waiting)
    assert not backlog.take_run(requests[:1])
    assert backlog.take_run(requests[1:3])


def test_who_is_demoted_lets_all_others_go_first():
    backlog = filled(*(request(i, budget_ms=10 + i) for i in range(4)))
    first, second, *_ = backlog.urgent()
    backlog.demote([first, second])
    backlog.check_integrity()
    assert ids(backlog.urgent()) == [2, 3, 0, 1]
    assert backlog.most_pressing() is first


def test_without_a_budget_age_makes_urgent():
    backlog = empty(age_ms=500)
    backlog.push(Request(1, "m", 0, NEVER_NS, priority=3))
    backlog.push(request(2, at_ms=100, budget_ms=300, priority=3))
    backlog.push(request(3, at_ms=100, budget_ms=10**6, priority=3))
    assert ids(backlog.urgent()) == [2, 1, 3]


def test_a_lane_that_gets_nothing_is_starved():
    backlog = filled(request(1), request(2, length=400))
    assert backlog.starved(now_ns=0) is None
    backlog.take_run([backlog.urgent()[0]])
    backlog.push(request(3))
    lane = backlog.starved(now_ns=0)
    assert lane is not None
    assert ids(lane) == [2]
