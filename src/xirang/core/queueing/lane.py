"""One queue: requests of one model, priority and cost class, oldest first."""

from collections.abc import Iterable, Iterator

from xirang.core.queueing.shares import Share
from xirang.core.request import Request
from xirang.core.snapshot import LaneSnapshot


class Lane:
    """Requests in order of arrival, any of which may leave.

    Attributes:
        priority: Of all of them.
        cost_class: Of all of them.
        share: What lanes of this kind brought and were given.
        rows: Of all that wait.
        work_ns: Their predicted row costs, counted by the backlog.
    """

    __slots__ = ("_waiting", "cost_class", "priority", "rows", "share", "work_ns")

    def __init__(self, *, priority: int, cost_class: int, share: Share) -> None:
        self.priority = priority
        self.cost_class = cost_class
        self.share = share
        self.rows = 0
        self.work_ns = 0.0
        self._waiting: dict[int, Request] = {}  # insertion order is arrival order

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._waiting.values())

    def __contains__(self, request: Request) -> bool:
        return request.id in self._waiting

    def push(self, request: Request) -> None:
        """Queue a request behind the others."""
        assert request.id not in self._waiting
        self._waiting[request.id] = request
        self.rows += request.rows

    def remove(self, request: Request) -> int:
        """Take out one request, wherever it stands; returns how many stay."""
        del self._waiting[request.id]
        self.rows -= request.rows
        return len(self._waiting)

    def oldest(self) -> Request:
        """The request that has waited longest; the lane must not be empty."""
        return next(iter(self._waiting.values()))

    def snapshot(self) -> LaneSnapshot:
        """What it holds."""
        return LaneSnapshot(
            priority=self.priority,
            cost_class=self.cost_class,
            depth=len(self),
            rows=self.rows,
            oldest_arrival_ns=self.oldest().arrival_ns,
        )

    def check_integrity(self) -> None:
        """The count of rows is the sum over the requests."""
        assert self.rows == _sum_rows(self)


def _sum_rows(requests: Iterable[Request]) -> int:
    return sum(request.rows for request in requests)
