"""Policies that plan by deadlines and costs: Nexus' early drop and Symphony's deferred batches."""

from collections.abc import Callable, Sequence

from xirang.core.request import Request
from xirang.lab.policies.immediate import head_fit
from xirang.lab.policies.rule import Plan, Queue, Rule


class Nexus(Rule):
    """Work-conserving; whoever cannot be part of a batch of the target size is given up early.

    Nexus (Shen et al., SOSP 2019), the sliding window of its backend, from notes on its source. The
    target is the largest batch that a request can wait for and be in: 2·t(b) ≤ budget. A session
    of Nexus has one budget; here the first request's is meant.
    """

    def key(self, request: Request) -> tuple[int, ...]:
        """By deadline."""
        return (request.deadline_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """The window's batch, now."""
        taken, dropped = window_drop(queue, now_ns=now_ns)
        return Plan(now_ns, taken, queue.waiting[0].deadline_ns, drop=dropped)


class Symphony(Rule):
    """A batch starts at the last moment at which one more request could still have joined it.

    Symphony (arXiv 2308.07470), from memory: a candidate of k requests with the earliest deadline d
    may start from its frontrun, d − t(k + 1), on; of the models' candidates whose frontrun has come
    the one with the earliest latest start, d − t(k), takes the device. The head gives way as in
    Nexus. Times count with the margin that our own scheduler would wait by.
    """

    def key(self, request: Request) -> tuple[int, ...]:
        """By deadline."""
        return (request.deadline_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """The candidate and its frontrun."""
        _, dropped = window_drop(queue, now_ns=now_ns)
        if dropped:
            return Plan(now_ns, (), 0, drop=dropped)
        taken = head_fit(queue, now_ns=now_ns)
        slower = 1.0 + queue.cost.margin_wait()
        deadline_ns = taken[0].deadline_ns
        latest_ns = deadline_ns - int(queue.run_ns(taken) * slower)
        if len(taken) < len(queue.waiting) or len(taken) >= queue.policy.rows_max:
            return Plan(now_ns, taken, latest_ns)
        one_more_ns = queue.run_ns((*taken, taken[-1]))
        return Plan(deadline_ns - int(one_more_ns * slower), taken, latest_ns)


def window_drop(queue: Queue, *, now_ns: int) -> tuple[list[Request], list[Request]]:
    """Who makes the next batch of the target size, and who stands in its way.

    The size shrinks when fewer are left than were expected, and with it the time that is needed.
    """
    considered = queue.first()
    run_ns = _run_ns_of(queue, considered)
    head = queue.waiting[0]
    target = _target(run_ns, budget_ns=head.deadline_ns - head.arrival_ns, most=len(considered))
    taken: list[Request] = []
    dropped: list[Request] = []
    expected, left = target, len(queue.waiting)
    end_ns = now_ns + run_ns(expected)
    for request in queue.waiting:
        if len(taken) >= expected:
            break
        left -= 1
        if request.deadline_ns >= end_ns:
            taken.append(request)
            continue
        dropped.append(request)
        if expected > len(taken) + left:
            expected = len(taken) + left
            end_ns = now_ns + run_ns(expected)
    return queue.first(taken), dropped


def _run_ns_of(queue: Queue, requests: Sequence[Request]) -> Callable[[int], int]:
    """Time of a run of so many such requests."""
    length = max(request.length for request in requests)
    rows = sum(request.rows for request in requests) / len(requests)
    call_ns, row_ns = queue.cost.call_ns(), queue.cost.row_ns(length) * rows
    return lambda count: round(call_ns + count * row_ns)


def _target(run_ns: Callable[[int], int], *, budget_ns: int, most: int) -> int:
    """The largest b of at most so many with 2·t(b) ≤ budget; at least 1."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if 2 * run_ns(middle) <= budget_ns:
            low = middle
        else:
            high = middle - 1
    return low
