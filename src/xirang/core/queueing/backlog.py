"""All that waits for one model: its lanes, who is most urgent, who must leave."""

from bisect import bisect, bisect_left
from collections.abc import Hashable, Iterable, Sequence

from xirang.core.cost import CostModel
from xirang.core.queueing.demand import Demand
from xirang.core.queueing.lane import Lane
from xirang.core.queueing.latest_starts import LatestStarts
from xirang.core.queueing.prices import Price, Prices
from xirang.core.queueing.routing import urgency_ns, weight
from xirang.core.queueing.shares import Shares
from xirang.core.queueing.shelves import Shelves
from xirang.core.request import Request
from xirang.core.rules import BatcherRules
from xirang.core.snapshot import LaneSnapshot

CONSIDERED_MAX = 128
"""Planning looks at this many of the most urgent requests, which bounds its time."""

DEMOTED_NS = 1 << 62
"""Added to the virtual deadline of those who let others go first."""

SEARCHED_SHARE = 8
"""A run that takes more than one in so many is left out of the order in one pass, not by search."""


class Backlog:
    """Requests of one model, filed by priority and cost class."""

    def __init__(
        self,
        cost: CostModel,
        *,
        age_ns_max: int,
        is_shelved: bool,
        rows_max: int = 1,
        rules: BatcherRules | None = None,
    ) -> None:
        """Start empty.

        Args:
            cost: The model's.
            age_ns_max: Longer budgets are no less urgent than this one.
            is_shelved: Whether those that planning looks at are kept by length.
            rows_max: Most rows of a run.
            rules: Of another batcher, by which they are sorted and given up.
        """
        self.cost = cost
        self.prices = Prices(cost, rows_max=rows_max)
        self.demand = Demand()
        self.rows = 0
        self.work_ns = 0.0  # predicted row costs of all that wait, without the calls
        self._lanes: dict[tuple[int, int], Lane] = {}
        self._age_ns_max = age_ns_max
        self._rules = rules
        self._filed: dict[int, tuple[Request, Lane, float]] = {}
        self._urgent: list[tuple[int, int, Request]] = []  # by virtual deadline, then id
        self._is_shelved = is_shelved
        self._shelves: dict[Hashable, Shelves] = {}  # of the first of the urgent, by group
        self._shelved = 0
        self._shares = Shares()
        self._latest = LatestStarts(self._filed)

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._filed

    def push(self, request: Request, price: Price | None = None) -> int:
        """File an admitted request.

        Args:
            request: It.
            price: Its price, where that is at hand.

        Returns:
            Its latest start: the instant at which its slack is gone.
        """
        request_id, rows = request.id, request.rows
        price = price or self.prices.of(rows, request.length)
        work_ns = price.work_ns
        key = (request.priority, price.cost_class)
        lane = self._lanes.get(key)
        if lane is None:
            lane = Lane(priority=key[0], cost_class=key[1], share=self._shares.of(key))
            self._lanes[key] = lane
        lane.push(request)
        request.cost_class = key[1]
        lane.work_ns += work_ns
        lane.share.brought_ns += work_ns
        self._filed[request_id] = (request, lane, work_ns)
        if self._rules is None:
            request.urgency_ns = urgency_ns(request, age_ns_max=self._age_ns_max)
            latest_ns = request.deadline_ns - price.alone_ns
        else:
            request.urgency_ns = self._rules.urgency_ns(request)
            latest_ns = self._rules.latest_ns(request)
        self._stand_in_line(request)
        self.rows += rows
        self.work_ns += work_ns
        self._latest.push(latest_ns, request_id)
        return latest_ns

    def remove(self, request_id: int) -> Request:
        """Take out a request that expires or is cancelled."""
        request = self._filed[request_id][0]
        self._take((request,))
        return request

    def take_run(self, requests: Sequence[Request]) -> bool:
        """Take out those of a run; returns whether planning looks at nobody new instead."""
        is_all = len(self._urgent) <= CONSIDERED_MAX
        self._take(requests, is_given=True)
        return is_all

    def demote(self, requests: Sequence[Request]) -> None:
        """Let others go first: these would be late in any full run."""
        self.move(requests, [max(r.urgency_ns, DEMOTED_NS + r.deadline_ns) for r in requests])

    def move(self, requests: Sequence[Request], urgencies_ns: Sequence[int]) -> None:
        """Let them stand elsewhere in line, by other virtual deadlines."""
        self._leave_line(requests)
        for request, urgency in zip(requests, urgencies_ns, strict=True):
            request.urgency_ns = urgency
            self._stand_in_line(request)

    def depth_of(self, priority: int) -> int:
        """How many of a priority wait."""
        return sum([len(lane) for lane in self._lanes.values() if lane.priority == priority])

    def _urgency_ns(self, request: Request) -> int:
        if self._rules is not None:
            return self._rules.urgency_ns(request)
        return urgency_ns(request, age_ns_max=self._age_ns_max)

    def _take(self, requests: Sequence[Request], *, is_given: bool = False) -> None:
        self._leave_line(requests)
        filed, rows, work_ns = self._filed, self.rows, self.work_ns
        for request in requests:
            _, lane, own_ns = filed.pop(request.id)
            lane.work_ns -= own_ns
            if is_given:
                lane.share.given_ns += own_ns
            if lane.remove(request) == 0:
                del self._lanes[lane.priority, lane.cost_class]
            rows -= request.rows
            work_ns -= own_ns
        self.rows, self.work_ns = rows, max(0.0, work_ns) if filed else 0.0
        self._latest.trim()

    def _stand_in_line(self, request: Request) -> None:
        entry = (request.urgency_ns, request.id, request)
        index = bisect(self._urgent, entry)
        self._urgent.insert(index, entry)
        if self._is_shelved and index < CONSIDERED_MAX:
            self._shelve((request,))
            if self._shelved > CONSIDERED_MAX:
                self._unshelve((self._urgent[CONSIDERED_MAX][2],))

    def _leave_line(self, requests: Sequence[Request]) -> None:
        urgent = self._urgent
        if self._is_shelved:
            near: Sequence[Request] = requests
            if len(urgent) > CONSIDERED_MAX:
                last = urgent[CONSIDERED_MAX - 1][:2]
                near = [each for each in requests if (each.urgency_ns, each.id) <= last]
            self._unshelve(near)
        if len(requests) * SEARCHED_SHARE > len(urgent):
            gone = {request.id for request in requests}
            self._urgent = urgent = [entry for entry in urgent if entry[1] not in gone]
        else:
            for request in requests:
                del urgent[bisect_left(urgent, (request.urgency_ns, request.id))]
        if self._is_shelved:
            self._shelve([request for _, _, request in urgent[self._shelved : CONSIDERED_MAX]])

    def _shelve(self, requests: Sequence[Request]) -> None:
        for request in requests:
            shelves = self._shelves.get(request.group)
            if shelves is None:
                shelves = self._shelves[request.group] = Shelves()
            shelves.add(request)
        self._shelved += len(requests)

    def _unshelve(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if not self._shelves[request.group].remove(request):
                del self._shelves[request.group]
        self._shelved -= len(requests)

    def oldest_arrivals_ns(self) -> dict[int, int]:
        """Arrival of the request that has waited longest, by priority."""
        oldest: dict[int, int] = {}
        for lane in self._lanes.values():
            arrival_ns = lane.oldest().arrival_ns
            if arrival_ns < oldest.get(lane.priority, arrival_ns + 1):
                oldest[lane.priority] = arrival_ns
        return oldest

    def share_ahead_of(self, request: Request) -> float:
        """The part of those that wait who are more urgent than a request that comes, 0…1."""
        if not self._urgent:
            return 0.0
        urgency = self._urgency_ns(request)
        return bisect(self._urgent, (urgency, request.id)) / len(self._urgent)

    def rival_share(self, request: Request) -> float:
        """The part of the work that waits which is worth as much for its device time, 0…1.

        If not all can be on time, it is this that goes before a request, and nothing else.
        """
        own = weight(request.priority) / (request.rows * self.cost.row_ns(request.length))
        work_ns = sum(
            [
                lane.work_ns
                for lane in self._lanes.values()
                if weight(lane.priority) * len(lane) >= own * lane.work_ns
            ]
        )
        return min(1.0, work_ns / self.work_ns) if self.work_ns else 0.0

    def most_urgent(self) -> Request:
        """The first by virtual deadline; there must be one."""
        return self._urgent[0][2]

    def most_pressing(self) -> Request:
        """The request whose slack ends first; there must be one."""
        first = self._latest.first()
        assert first is not None
        return self._filed[first[1]][0]

    def latest_start_ns(self) -> int:
        """When the slack of that one ends."""
        first = self._latest.first()
        assert first is not None
        return first[0]

    def starved(self, *, now_ns: int) -> Lane | None:
        """A lane that has been given far too little, if there is one."""
        key = self._shares.starved(self._lanes.keys(), now_ns=now_ns)
        return None if key is None else self._lanes[key]

    def urgent(self, limit: int = CONSIDERED_MAX) -> list[Request]:
        """Up to `limit` requests by virtual deadline, the most urgent first."""
        return [request for _, _, request in self._urgent[:limit]]

    def shelves(self) -> Iterable[Shelves]:
        """The most urgent `CONSIDERED_MAX` by length; those that may share a run together."""
        return self._shelves.values()

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
        assert abs(self.work_ns - sum(filed[2] for filed in self._filed.values())) < 1e-3 * (
            1 + self.work_ns
        )
        near = self._urgent[:CONSIDERED_MAX] if self._is_shelved else []
        assert self._shelved == len(near) == sum(map(len, self._shelves.values()))
        shelved = {id(r) for shelves in self._shelves.values() for r in shelves.ordered()[0]}
        assert shelved == {id(request) for _, _, request in near}
        for shelves in self._shelves.values():
            shelves.check_integrity()
