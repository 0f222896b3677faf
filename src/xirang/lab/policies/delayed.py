"""Policies that wait by the clock: Triton's delay, Ray Serve's timeout, BentoML's mean latency."""

from collections import Counter, deque
from dataclasses import dataclass, field
from random import Random

import numpy as np

from xirang.core.request import Request
from xirang.core.rules import BatcherRules
from xirang.core.run import Run
from xirang.core.scheduling.reach import Held, reach
from xirang.lab.policies.rule import Plan, Queue, Rule, at_once

BENTO_DECAY = 0.95
BENTO_TICK_NS = 1_000_000
BENTO_KEPT = 50
BENTO_REFRESH_NS = 5_000_000_000


@dataclass(frozen=True, slots=True)
class FixedWindow(Rule):
    """A batch of a preferred size goes at once, any other when its oldest has waited the delay.

    Triton's dynamic batcher, by the function that our own scheduler asks where a configuration
    wants these rules (core/scheduling/reach.py); strict priorities, and nobody is bound early.
    Without preferred sizes only a full batch goes at once.
    """

    delay_ns: int
    preferred: tuple[int, ...] = ()

    def key(self, request: Request) -> tuple[int, ...]:
        """By priority, then arrival."""
        return (request.priority, request.arrival_ns, request.id)

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """The largest preferred size, or all when the delay is over."""
        ready = queue.first()
        is_all = len(ready) == len(queue.waiting)
        found = reach(
            queue.waiting[: len(ready) + 1],
            BatcherRules(tuple(sorted(self.preferred)), self.delay_ns),
            rows_max=queue.policy.rows_max,
            held=Held(),
            now_ns=now_ns,
        )
        if found.again_ns is not None and is_all:
            return Plan(found.again_ns, ready, ready[0].arrival_ns)
        return at_once(ready[: found.taken or len(ready)], now_ns=now_ns)


@dataclass(slots=True, eq=False)
class EarlyBinding(Rule):
    """Each request is bound to a replica when it comes; each replica batches its own queue.

    Ray Serve: the router takes the shorter of two replicas' queues, and `serve.batch` runs a batch
    when it is full or a timeout after it was begun, which is when the replica is free and somebody
    there (documentation, and python/ray/serve/batching.py as read).
    """

    timeout_ns: int
    random: Random = field(default_factory=lambda: Random("replicas"))
    bound: dict[int, int] = field(default_factory=dict)
    held: Counter[int] = field(default_factory=Counter)
    freed_ns: dict[int, int] = field(default_factory=dict)

    def on_arrival(self, queue: Queue, request: Request) -> None:
        """Bind it."""
        replicas = range(queue.policy.instances)
        pair = self.random.sample(replicas, min(2, len(replicas)))
        replica = min(pair, key=lambda each: self.held[each])
        self.bound[request.id] = replica
        self.held[replica] += 1

    def plan(self, queue: Queue, *, now_ns: int) -> Plan | None:
        """The first of the free replicas' plans."""
        plans = []
        for replica in queue.free:
            own = [request for request in queue.waiting if self.bound[request.id] == replica]
            if own:
                ready = queue.first(own)
                begun_ns = max(self.freed_ns.get(replica, 0), own[0].arrival_ns)
                is_full = len(ready) < len(own) or len(ready) >= queue.policy.rows_max
                at_ns = now_ns if is_full else begun_ns + self.timeout_ns
                plans.append(Plan(at_ns, ready, own[0].arrival_ns, instance=replica))
        return min(plans, key=lambda plan: plan.at_ns, default=None)

    def on_end(self, run: Run, *, now_ns: int) -> None:
        """The replica begins its next batch."""
        self.freed_ns[run.instance] = now_ns

    def on_leave(self, request: Request) -> None:
        """Its replica's queue is shorter."""
        self.held[self.bound.pop(request.id)] -= 1


@dataclass(slots=True, eq=False)
class MeanLatency(Rule):
    """Waits on while that would cost those who wait less than runs have been waiting on average.

    BentoML's dispatcher (_internal/marshal/dispatcher.py as read): n requests, the newest of which
    has waited w, are held while n·(w + tick + a) ≤ 0.95 · mean wait, where a·n + b was fitted to
    the last runs; whoever would miss the maximum latency, here the budget, is given up. Two things
    differ: a and b are those of the cost model until the first fit, and the oldest are taken first,
    while the version that was read takes the newest.
    """

    wait_ns: float = 10e6
    fitted: tuple[float, float] | None = None
    seen: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=BENTO_KEPT))
    refreshed_ns: int = -BENTO_REFRESH_NS

    def plan(self, queue: Queue, *, now_ns: int) -> Plan:
        """Give up the oldest, or go at once, or wait for another."""
        waiting = queue.waiting
        oldest, count = waiting[0], len(waiting)
        row_ns, call_ns = self.fitted or (queue.cost.row_ns(oldest.length), queue.cost.call_ns())
        if count > 1 and now_ns + row_ns * count + call_ns >= oldest.deadline_ns:
            return Plan(now_ns, (), oldest.arrival_ns, drop=(oldest,))
        ready = queue.first()
        if count >= queue.policy.rows_max:
            return at_once(ready, now_ns=now_ns)
        held_ns = self.wait_ns * BENTO_DECAY / count - BENTO_TICK_NS - row_ns
        return Plan(waiting[-1].arrival_ns + int(held_ns) + 1, ready, oldest.arrival_ns)

    def on_end(self, run: Run, *, now_ns: int) -> None:
        """Fit the line and the mean wait to the last runs, every five seconds."""
        wait_ns = run.start_ns - run.requests[-1].arrival_ns
        self.seen.append((len(run.requests), now_ns - run.start_ns, wait_ns))
        if now_ns - self.refreshed_ns < BENTO_REFRESH_NS or len(self.seen) < 3:
            return
        self.refreshed_ns = now_ns
        counts, spent, waits = zip(*self.seen, strict=True)
        lines = np.array([(count, 1.0) for count in counts])
        row_ns, call_ns = np.linalg.lstsq(lines, np.array(spent, dtype=float), rcond=None)[0]
        self.fitted = (max(1e3, float(row_ns)), max(0.0, float(call_ns)))
        self.wait_ns = sum(waits) / len(waits)
