"""Policies that never wait on an idle device: Clipper's AIMD, head-fit EDF, length buckets."""

from dataclasses import dataclass

from xirang.core.request import Request
from xirang.core.run import Run
from xirang.lab.policies.rule import Plan, Queue, Rule, at_once


@dataclass(slots=True, eq=False)
class Clipper(Rule):
    """The largest batch grows by one while runs keep the budget, and shrinks by a tenth if not.

    Clipper (Crankshaw et al., NSDI 2017), its AIMD variant, from memory: what is held against the
    latency objective is the time of the run; the time in the queue is nobody's business.
    """

    limit: float = 1.0

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """As many as the present limit, now."""
        return at_once(queue.first(queue.waiting[: int(self.limit)]), now_ns=now_ns)

    def on_end(self, run: Run, *, now_ns: int) -> None:
        """Learn from how long it took."""
        budget_ns = min(request.deadline_ns - request.arrival_ns for request in run.requests)
        if now_ns - run.start_ns > budget_ns:
            self.limit = max(1.0, self.limit * 0.9)
        elif len(run.requests) >= int(self.limit):
            self.limit += 1.0


class HeadFit(Rule):
    """Earliest deadline first, and the largest batch with which the first is still in time.

    The batching of AlpaServe's simulator (Li et al., OSDI 2023) without its powers of two. It looks
    reasonable and is metastable: when a slow run has made the first request nearly late, its
    batches are small, they serve fewer than come, and so the next first one is nearly late, too.
    """

    def key(self, request: Request) -> tuple[int, ...]:
        """By deadline."""
        return (request.deadline_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """All that fits before the first deadline, now."""
        fitting = head_fit(queue, now_ns=now_ns)
        return Plan(now_ns, fitting, fitting[0].deadline_ns)


class Buckets(Rule):
    """A queue for each power of two of the length; that of the earliest deadline runs at once.

    Length buckets as in BucketServe (arXiv 2507.17120) or Multi-Bin batching (arXiv 2412.04504),
    with fixed bounds. Rows are padded to the longest of the run, not to the bound of the bucket.
    """

    def key(self, request: Request) -> tuple[int, ...]:
        """By deadline."""
        return (request.deadline_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """As much of the most urgent bucket as a run holds, now."""
        bucket = _bucket(queue.waiting[0])
        taken = queue.first(request for request in queue.waiting if _bucket(request) == bucket)
        return Plan(now_ns, taken, taken[0].deadline_ns)


def head_fit(queue: Queue, *, now_ns: int) -> list[Request]:
    """As many as a run holds that ends before the first one's deadline; at least that one."""
    fitting = queue.first()
    left_ns = fitting[0].deadline_ns - now_ns
    rows, length = 0, 0
    for i, request in enumerate(fitting):
        rows, length = rows + request.rows, max(length, request.length)
        if i and queue.cost.predict_ns(rows=rows, length=length) > left_ns:
            return fitting[:i]
    return fitting


def _bucket(request: Request) -> int:
    return (request.length - 1).bit_length()
