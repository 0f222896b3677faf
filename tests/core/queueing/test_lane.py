"""One queue in order of arrival, any of whose requests may leave."""

import pytest
from tests.support.core import MS, request

from xirang.core.queueing.lane import Lane
from xirang.core.queueing.shares import Share
from xirang.core.snapshot import LaneSnapshot


def filled():
    lane = Lane(priority=2, cost_class=5, share=Share())
    requests = [request(i, at_ms=i, rows=i + 1) for i in range(3)]
    for waiting in requests:
        lane.push(waiting)
        lane.check_integrity()
    return lane, requests


def test_requests_stand_in_order_of_arrival():
    lane, requests = filled()
    assert list(lane) == requests
    assert lane.oldest() is requests[0]
    assert (len(lane), lane.rows) == (3, 6)
    assert requests[1] in lane


@pytest.mark.parametrize("leaver", [0, 1, 2], ids=["oldest", "middle", "youngest"])
def test_any_request_may_leave(leaver):
    lane, requests = filled()
    gone = requests.pop(leaver)
    lane.remove(gone)
    lane.check_integrity()
    assert gone not in lane
    assert list(lane) == requests
    assert lane.rows == 6 - gone.rows
    assert lane.oldest() is requests[0]


def test_a_request_stands_in_a_lane_once():
    lane, requests = filled()
    with pytest.raises(AssertionError):
        lane.push(requests[0])


def test_snapshot():
    lane, requests = filled()
    lane.remove(requests[0])
    assert lane.snapshot() == LaneSnapshot(2, 5, depth=2, rows=5, oldest_arrival_ns=MS)
