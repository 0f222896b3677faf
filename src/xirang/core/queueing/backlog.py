"""All that waits for one model: its lanes, who is most urgent, who must leave."""

from bisect import bisect_left, insort
from collections.abc import Sequence

from xirang.core.cost import CostModel
from xirang.core.queueing.demand import Demand
from xirang.core.queueing.lane import Lane
from xirang.core.queueing.latest_starts import LatestStarts
from xirang.core.queueing.routing import cost_class, urgency_ns
from xirang.core.request import Request
from xirang.core.snapshot import LaneSnapshot

CONSIDERED_MAX = 256
"""Planning looks at this many of the most urgent requests, which bounds its time."""

SEARCHED_SHARE = 8
"""A run that takes more than one in so many is left out of the order in one pass, not by search."""


class Backlog:
    """Requests of one model, filed by priority and cost class."""

    def __init__(self, cost: CostModel) -> None:
        self.cost = cost
        self.demand = Demand()
        self.rows = 0
        self.work_ns = 0.0  # predicted row costs of all that wait, without the calls
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._filed: dict[int, tuple[Request, Lane, float]] = {}
        self._urgent: list[tuple[int, int, Request]] = []  # by virtual deadline, then id
        self._latest = LatestStarts(self._filed)

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._filed

    def push(self, request: Request) -> int:
        """File an admitted request.

        Returns:
            Its latest start: the instant at which its slack is gone.
        """
        request_id, rows = request.id, request.rows
        work_ns = rows * self.cost.row_ns(request.length)
        key = (request.priority, cost_class(work_ns))
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(priority=key[0], cost_class=key[1])
        lane.push(request)
        self._filed[request_id] = (request, lane, work_ns)
        insort(self._urgent, (urgency_ns(request), request_id, request))
        self.rows += rows
        self.work_ns += work_ns
        # A cold model's prediction expires nobody: only the deadline itself does.
        alone_ns = 0 if self.cost.is_cold else round(self.cost.call_ns() + work_ns)
        latest_ns = request.deadline_ns - alone_ns
        self._latest.push(latest_ns, request_id)
        return latest_ns

    def remove(self, request_id: int) -> Request:
        """Take out a request that expires or is cancelled."""
        request = self._filed[request_id][0]
        self.take((request,))
        return request

    def take(self, requests: Sequence[Request]) -> None:
        """Take out requests that leave together, as those of a run do."""
        filed, rows, work_ns = self._filed, self.rows, self.work_ns
        for request in requests:
            _, lane, own_ns = filed.pop(request.id)
            if lane.remove(request) == 0:
                del self._lanes[lane.priority, lane.cost_class]
            rows -= request.rows
            work_ns -= own_ns
        self.rows, self.work_ns = rows, max(0.0, work_ns) if filed else 0.0
        if len(requests) * SEARCHED_SHARE > len(self._urgent):
            self._urgent = [entry for entry in self._urgent if entry[1] in filed]
            return
        for request in requests:
            del self._urgent[bisect_left(self._urgent, (urgency_ns(request), request.id))]

    def oldest_arrival_ns(self) -> int:
        """Arrival of the request that has waited longest; there must be one."""
        return min(lane.oldest().arrival_ns for lane in self._lanes.values())

    def most_pressing(self) -> Request:
        """The request whose slack ends first; there must be one."""
        first = self._latest.first()
        assert first is not None
        return self._filed[first[1]][0]

    def urgent(self, limit: int = CONSIDERED_MAX) -> list[Request]:
        """Up to `limit` requests by virtual deadline, the most urgent first."""
        return [request for _, _, request in self._urgent[:limit]]

    def lanes(self) -> tuple[LaneSnapshot, ...]:
        """What each lane holds, by priority and cost."""
        return tuple(self._lanes[key].snapshot() for key in sorted(self._lanes))

    def check_integrity(self) -> None:
        """Counts are sums, no lane is empty, everybody filed stands in one lane and the heap."""
        for lane in self._lanes.values():
            assert len(lane) > 0
            lane.check_integrity()
        assert self.rows == sum(lane.rows for lane in self._lanes.values())
        assert len(self._filed) == sum(len(lane) for lane in self._lanes.values())
        self._latest.check_integrity()
        assert self._urgent == sorted(self._urgent, key=lambda entry: entry[:2])
        assert {id for _, id, _ in self._urgent} == set(self._filed)
        assert abs(self.work_ns - sum(w for _, _, w in self._filed.values())) < 1e-3 * (
            1 + self.work_ns
        )
