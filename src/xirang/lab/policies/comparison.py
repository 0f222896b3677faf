"""The frame around a rule: queues, instances, devices and expiry, behind the scheduler's calls.

All rules live in the same world as our own scheduler. They know the same cost model, which learns
from their runs; a queue has the same bound; and a request that could not be on time even if it ran
alone now is given up, whether or not the original does that, so that what is compared is how runs
are formed.
"""

import heapq
from bisect import insort
from collections.abc import Callable

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import (
    Action,
    Admitted,
    Done,
    Expire,
    Outcome,
    Rejected,
    Run,
    Trigger,
    Verdict,
)
from xirang.lab.policies.rule import Plan, Queue, Rule


class Comparison:
    """A scheduler that asks a rule for each of its models."""

    def __init__(self, make_rule: Callable[[], Rule], *, devices: dict[str, int]) -> None:
        """Start with no models.

        Args:
            make_rule: A new rule for each model.
            devices: Name to the number of runs that it holds at once.
        """
        self._make_rule = make_rule
        self._room = dict(devices)
        self._rules: dict[str, Rule] = {}
        self._queues: dict[str, Queue] = {}
        self._waiting: dict[int, Request] = {}
        self._latest: list[tuple[int, int]] = []
        self._running: dict[int, Run] = {}
        self._runs = 0
        self._due_ns: int | None = None

    def add_model(self, name: str, policy: Policy, cost: CostModel) -> None:
        """Take requests for one more model."""
        self._rules[name] = self._make_rule()
        self._queues[name] = Queue(policy, cost, list(range(policy.instances)))

    def submit(self, request: Request, *, now_ns: int) -> Verdict:
        """A request came: it waits, unless too many do."""
        rule, queue = self._rules[request.model], self._queues[request.model]
        if len(queue.waiting) >= queue.policy.depth_max:
            return Rejected("the queue is full", retry_after_ns=queue.run_ns(queue.first()))
        insort(queue.waiting, request, key=rule.key)
        self._waiting[request.id] = request
        alone_ns = 0 if queue.cost.is_cold else queue.run_ns((request,))
        heapq.heappush(self._latest, (request.deadline_ns - alone_ns, request.id))
        rule.on_arrival(queue, request)
        return Admitted()

    def complete(self, run_id: int, *, now_ns: int, outcome: Outcome) -> Run:
        """A run ended: its instance is free, and its time teaches the cost model."""
        run = self._running.pop(run_id)
        rule, queue = self._rules[run.model], self._queues[run.model]
        insort(queue.free, run.instance)
        self._room[queue.policy.device] += 1
        if isinstance(outcome, Done):
            queue.cost.observe(rows=run.rows, length=run.length, ran_ns=outcome.ran_ns)
        rule.on_end(run, now_ns=now_ns)
        for request in run.requests:
            rule.on_leave(request)
        return run

    def poll(self, *, now_ns: int) -> list[Action]:
        """What must happen now: requests to give up, runs to start."""
        actions: list[Action] = []
        while (first := self._first_latest()) is not None and first[0] < now_ns:
            actions.append(self._give_up(self._waiting[first[1]]))
        self._due_ns = None
        for device in self._room:
            while (plan := self._next_plan(device, now_ns)) is not None:
                if plan.drop:
                    actions.extend(self._give_up(request) for request in plan.drop)
                elif plan.at_ns > now_ns:
                    self._due_ns = min(plan.at_ns, self._due_ns or plan.at_ns)
                    break
                else:
                    actions.append(self._start(plan, now_ns))
        return actions

    def wakeup_ns(self) -> int | None:
        """When to poll next if nothing else happens; None if nothing waits for a time."""
        first = self._first_latest()
        times = [] if first is None else [first[0] + 1]
        if self._due_ns is not None:
            times.append(self._due_ns)
        return min(times, default=None)

    def _next_plan(self, device: str, now_ns: int) -> Plan | None:
        """A plan that drops somebody; else, of those that are due, the first; else the next due."""
        if not self._room[device]:
            return None
        plans = [
            plan
            for name, queue in self._queues.items()
            if queue.policy.device == device and queue.waiting and queue.free
            if (plan := self._rules[name].plan(queue, now_ns=now_ns)) is not None
        ]
        dropping = next((plan for plan in plans if plan.drop), None)
        if dropping is not None or not plans:
            return dropping
        due = [plan for plan in plans if plan.at_ns <= now_ns]
        if due:
            return min(due, key=lambda plan: plan.rank_ns)
        return min(plans, key=lambda plan: plan.at_ns)

    def _start(self, plan: Plan, now_ns: int) -> Run:
        requests = tuple(plan.requests)
        queue = self._queues[requests[0].model]
        instance = queue.free[0] if plan.instance is None else plan.instance
        queue.free.remove(instance)
        self._room[queue.policy.device] -= 1
        for request in requests:
            del self._waiting[request.id]
        queue.waiting = [request for request in queue.waiting if request.id in self._waiting]
        rows = sum(request.rows for request in requests)
        self._runs += 1
        run = Run(
            id=self._runs,
            model=requests[0].model,
            instance=instance,
            requests=requests,
            rows=rows,
            length=max(request.length for request in requests),
            trigger=Trigger.THRESHOLD if rows >= queue.policy.rows_max else Trigger.WINDOW,
            start_ns=now_ns,
            predicted_ns=queue.run_ns(requests),
            window_ns=max(0, now_ns - requests[0].arrival_ns),
            depth=len(queue.waiting),
        )
        self._running[run.id] = run
        return run

    def _give_up(self, request: Request) -> Expire:
        del self._waiting[request.id]
        self._queues[request.model].waiting.remove(request)
        self._rules[request.model].on_leave(request)
        return Expire(request)

    def _first_latest(self) -> tuple[int, int] | None:
        latest = self._latest
        while latest and latest[0][1] not in self._waiting:
            heapq.heappop(latest)
        return latest[0] if latest else None
