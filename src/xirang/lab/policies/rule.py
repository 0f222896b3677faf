"""What a comparison policy is: a rule that looks at one model's queue and plans its next run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Run


@dataclass(slots=True, eq=False)
class Queue:
    """One model's waiting requests, and what every policy may know of the model.

    Attributes:
        policy: Its bounds.
        cost: What is believed of its runs, learned as our own scheduler learns it.
        free: Instances that are idle, lowest first.
        waiting: In the order of the rule's key.
    """

    policy: Policy
    cost: CostModel
    free: list[int]
    waiting: list[Request] = field(default_factory=list)

    def run_ns(self, requests: Sequence[Request]) -> int:
        """How long these would take as one run."""
        rows = sum(request.rows for request in requests)
        return self.cost.predict_ns(rows=rows, length=max(r.length for r in requests))

    def first(self, requests: Iterable[Request] | None = None) -> list[Request]:
        """The longest run in the given order that the model's bounds allow; by default of all."""
        policy, taken = self.policy, list[Request]()
        rows, length = 0, 0
        for request in self.waiting if requests is None else requests:
            if taken and request.group != taken[0].group:
                continue
            rows, length = rows + request.rows, max(length, request.length)
            if taken and not _fits(policy, rows, length):
                break
            taken.append(request)
        return taken


def _fits(policy: Policy, rows: int, length: int) -> bool:
    elements_max = policy.elements_max
    return rows <= policy.rows_max and (elements_max is None or rows * length <= elements_max)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rule wants next.

    Attributes:
        at_ns: When; at once if it is not later than now.
        requests: Who makes the run.
        rank_ns: Of several models whose plans are due on one device the least goes first.
        drop: Who is given up now. The rest of the plan counts only if there is nobody.
        instance: Where; None for the lowest free one.
    """

    at_ns: int
    requests: Sequence[Request]
    rank_ns: int
    drop: Sequence[Request] = ()
    instance: int | None = None


class Rule:
    """A policy for one model, asked whenever an instance and the device are free.

    As it stands it is the eager one: whatever waits runs at once, as much of it as a run holds.
    That is what every dynamic batcher does without a delay, and the batch queue of Inoue (arXiv
    1912.06322). Other rules override what they do differently.
    """

    def key(self, request: Request) -> tuple[int, ...]:
        """What the queue is sorted by: arrival, unless a rule says otherwise."""
        return (request.arrival_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan | None:
        """The next run of a queue that is not empty, or None to wait for a fact."""
        return at_once(queue.first(), now_ns=now_ns)

    def on_arrival(self, queue: Queue, request: Request) -> None:
        """A request came."""

    def on_leave(self, request: Request) -> None:
        """A request was answered or given up."""

    def on_end(self, run: Run, *, now_ns: int) -> None:
        """A run ended."""


def at_once(requests: Sequence[Request], *, now_ns: int) -> Plan:
    """Run these now; who has waited longest goes first among the models."""
    return Plan(now_ns, requests, requests[0].arrival_ns)
