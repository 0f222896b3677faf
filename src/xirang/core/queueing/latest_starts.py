"""Who has to start first: latest starts of those that wait, any of whom may leave unannounced."""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

STALE_MAX = 64


class LatestStarts:
    """A heap that looks up who still waits instead of being told who left."""

    __slots__ = ("_heap", "_waiting")

    def __init__(self, waiting: Mapping[int, object]) -> None:
        """Start empty.

        Args:
            waiting: By the id of a request; whoever is missing in it has left.
        """
        self._waiting = waiting
        self._heap: list[tuple[int, int]] = []

    def push(self, latest_ns: int, request_id: int) -> None:
        """Note the latest start of a request that waits already."""
        heappush(self._heap, (latest_ns, request_id))

    def trim(self) -> None:
        """Some have left: forget them if they are many.

        Short budgets may stand for ever in front of long ones that have left.
        """
        if len(self._heap) > 2 * len(self._waiting) + STALE_MAX:
            self._forget_who_left()

    def first(self) -> tuple[int, int] | None:
        """The earliest latest start and whose it is; None if nobody waits."""
        waiting = self._waiting
        if not waiting:
            self._heap.clear()
            return None
        if self._heap[0][1] not in waiting and len(self._heap) > 2 * len(waiting):
            self._forget_who_left()  # a run has taken most: one pass instead of so many pops
        heap = self._heap
        while heap[0][1] not in waiting:
            heappop(heap)
        return heap[0]

    def _forget_who_left(self) -> None:
        self._heap = [entry for entry in self._heap if entry[1] in self._waiting]
        heapify(self._heap)

    def check_integrity(self) -> None:
        """Whoever waits is in it, and it is no longer than twice what it must be."""
        assert self._waiting.keys() <= {id for _, id in self._heap}
        assert len(self._heap) <= 2 * len(self._waiting) + STALE_MAX + 1 or not self._waiting
