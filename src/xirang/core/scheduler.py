"""Every decision between the door and the device, composed from the rooms of the core.

The scheduler does no I/O and never reads a clock. A shell feeds it facts, each with the time at
which it happened, and carries out what `poll` returns:

    verdict = scheduler.submit(request, now_ns=now)
    scheduler.complete(run_id, now_ns=now, outcome=Done(ran_ns))
    for action in scheduler.poll(now_ns=now): ...   # start a Run, answer an Expire
    sleep_until(scheduler.wakeup_ns())

The same calls in the same order give the same decisions, whatever the clock behind `now_ns` is;
that is how the simulator runs this very class. Batches are bound late: while all instances are
busy the lanes keep filling, and a run is formed only when an instance is free to take it.
"""

from collections import deque
from collections.abc import Mapping

from xirang.core.admission import gate
from xirang.core.admission.gate import Queue
from xirang.core.admission.levels import Thresholds
from xirang.core.admission.overload import Arrival
from xirang.core.admission.tenants import Allowance, Tenant
from xirang.core.cost import CostModel
from xirang.core.device import ROOMY, Device, Lanes
from xirang.core.event import (
    Event,
    OverloadChanged,
    RequestCancelled,
    RequestExpired,
    RequestRejected,
    RunEnded,
)
from xirang.core.memory.account import Claim
from xirang.core.memory.arena import Resize
from xirang.core.memory.ledger import Ledger
from xirang.core.memory.pool import PoolSettings
from xirang.core.planner import Short
from xirang.core.policy import Policy
from xirang.core.queueing.latest_starts import LatestStarts
from xirang.core.request import Request
from xirang.core.run import Action, Cause, Done, Expire, Outcome, Rejected, Run, Trigger, Verdict
from xirang.core.scheduling.launch import Launch, next_launch
from xirang.core.snapshot import Snapshot

EVENTS_MAX = 65_536

OVERLOAD_STEP_NS = 10_000_000
"""So often are the levels of overload looked at; an idle device's only until they have settled."""


class Scheduler:
    """Lanes in front of models, models in front of devices.

    Attributes:
        ledger: The memory that models share; None if nobody counts it.
    """

    def __init__(
        self,
        *,
        devices: Mapping[str, int],
        thresholds: Thresholds | None = None,
        allowances: Mapping[str, Allowance] | None = None,
        pool: PoolSettings | None = None,
    ) -> None:
        """Start with no models.

        Args:
            devices: Name to the number of runs that it holds at once.
            thresholds: When the levels of overload begin.
            allowances: Name to what that tenant may ask for.
            pool: The memory that models share; none if nobody counts it.
        """
        assert all(parallelism >= 1 for parallelism in devices.values())
        thresholds = thresholds or Thresholds()
        self._devices = {name: Device(count, thresholds) for name, count in devices.items()}
        self._tenants = {name: Tenant(name, own) for name, own in (allowances or {}).items()}
        self._drawn: dict[int, tuple[Tenant, float]] = {}  # who is in on whose allowance
        self.ledger = None if pool is None else Ledger(pool)
        self._models: dict[str, Lanes] = {}
        self._lanes_of: dict[int, Lanes] = {}  # where each waiting request waits
        self._latest = LatestStarts(self._lanes_of)
        self._running: dict[int, tuple[Run, Lanes]] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._overload_ns = 0  # when the levels are looked at next
        self._is_settled = True  # whether time alone would change none of them
        self._next_run_id = 1
        self._is_draining = False

    # ------------------------------------------------------------------ models

    def add_model(
        self, name: str, policy: Policy, cost: CostModel, memory: Claim | None = None
    ) -> None:
        """Take requests for one more model.

        Args:
            name: Its name.
            policy: How it is scheduled.
            cost: How long its runs take.
            memory: Its part in the pool; nothing counts for one that has none.
        """
        assert name not in self._models
        account = None
        if self.ledger is not None and memory is not None:
            account = self.ledger.open(name, memory, instances=policy.instances)
        lanes = Lanes(name, policy, cost, self._devices[policy.device], account)
        self._models[name] = lanes
        lanes.device.add(lanes)

    def remove_model(self, name: str) -> None:
        """Forget a model of which nothing waits and nothing runs; its name may be used again."""
        lanes = self._models.pop(name)
        assert len(lanes.free) == lanes.policy.instances
        for each in (lanes, lanes.fast):
            if each is not None:
                assert not len(each.backlog)
                lanes.device.remove(each)
        if self.ledger is not None:
            self.ledger.close(name)

    # ------------------------------------------------------------------ facts

    def submit(self, request: Request, *, now_ns: int) -> Verdict:
        """A request came: admit it into its lane, or say why not."""
        if self._is_draining:
            return self._reject(request, gate.GOING)
        lanes = self._models[request.model]
        if request.fast is not None or lanes.has_rules:
            lanes = self._lane_for(request, lanes, now_ns)
        if lanes.account is not None and (reason := lanes.too_large(request)):
            return self._reject(request, Rejected(reason, 0, Cause.MEMORY))
        backlog = lanes.backlog
        price = backlog.prices.of(request.rows, request.length)
        share_ns, budget_ns = price.share_ns, request.deadline_ns - request.arrival_ns
        if budget_ns < price.ample_ns:
            share_ns = price.share_within(budget_ns)
        verdict: Verdict = gate.ADMITTED
        if not lanes.is_calm(request.deadline_ns - now_ns, now_ns):
            verdict = self._verdict(request, lanes, share_ns, now_ns)
        if request.tenant in self._tenants and verdict is gate.ADMITTED:
            parallelism = lanes.device.parallelism
            verdict = self._draw(request, share_ns, parallelism, now_ns) or verdict
        if isinstance(verdict, Rejected):
            return self._reject(request, verdict)
        request.entered_ns = now_ns
        latest_ns = backlog.push(request, price)
        lanes.came(price.work_ns)
        backlog.demand.on_arrival(now_ns=now_ns, rows_ns=price.work_ns, share_ns=share_ns)
        self._lanes_of[request.id] = lanes
        self._latest.push(latest_ns, request.id)
        return verdict

    def _lane_for(self, request: Request, lanes: Lanes, now_ns: int) -> Lanes:
        policy, device = lanes.policy, lanes.device
        if not policy.is_fast(request):
            return lanes
        device.fast.on_arrival(now_ns)
        given = device.fast.at(now_ns, parallelism=device.parallelism)
        # Beyond its share the fast lane would starve those who wait: its next ones wait with them.
        return lanes if lanes.backlog.rows and given > policy.fast_share else lanes.fast_lane()

    def _verdict(self, request: Request, lanes: Lanes, share_ns: float, now_ns: int) -> Verdict:
        overload, policy = lanes.device.overload, lanes.policy
        is_plain = not (overload.level or policy.queue_ns_max or policy.batcher is not None)
        if is_plain and len(lanes.backlog) < policy.depth_max and not overload.goes_by_depth:
            budget_ns = request.deadline_ns - now_ns
            ratio = lanes.look(budget_ns, now_ns=now_ns)
            if ratio < ROOMY:  # most come to a queue that is far from their budget
                overload.note_ease(ratio, now_ns=now_ns)
                return gate.ADMITTED
        elif overload.level < 2 and (refusal := lanes.refusal(now_ns)) is not None:
            return refusal  # the queue was full a moment ago too, and nothing more is to be learned
        verdict = self._close_verdict(request, lanes, share_ns, now_ns)
        if isinstance(verdict, Rejected) and verdict.cause is Cause.QUEUE_FULL:
            lanes.filled(verdict, now_ns)
        return verdict

    def _close_verdict(
        self, request: Request, lanes: Lanes, share_ns: float, now_ns: int
    ) -> Verdict:
        device, cost, backlog = lanes.device, lanes.cost, lanes.backlog
        is_idle = not device.ends_ns
        queued_ns = 0.0 if is_idle and not backlog.rows else lanes.queued_ns(request, now_ns)
        arrival = Arrival(
            request.priority,
            request.client or request.id,
            request.deadline_ns - now_ns,
            queued_ns,
            share_ns,
            len(self._lanes_of),
            lanes.is_fast,
        )
        device.overload.note(arrival, now_ns=now_ns)
        if now_ns >= self._overload_ns:
            self._look_at_levels(now_ns)
        policy = lanes.policy
        depth, depth_max = lanes.room(request)
        queue = Queue(
            depth=depth,
            depth_max=depth_max,
            drained_ns=int(backlog.work_ns) // device.parallelism,
            is_trusted=policy.rejects_early and not is_idle and not cost.is_cold,
            drained_ns_max=policy.queue_ns_max,
        )
        run_ns = cost.call_ns() + request.rows * cost.row_ns(request.length)
        if queue.is_trusted and queued_ns + run_ns > arrival.budget_ns:
            queued_ns = lanes.pressed_ns(request, queued_ns, now_ns)
            arrival = Arrival(*arrival[:3], queued_ns, *arrival[4:])
        return gate.decide(arrival, queue, device.overload, run_ns=run_ns, now_ns=now_ns)

    def _draw(
        self, request: Request, share_ns: float, parallelism: int, now_ns: int
    ) -> Rejected | None:
        """Count a request against its tenant's allowance; a refusal if that is used up."""
        tenant = self._tenants[request.tenant]
        capacity_ns = (request.deadline_ns - now_ns) * parallelism
        refusal = tenant.refusal(now_ns=now_ns, work_ns=share_ns, capacity_ns=capacity_ns)
        if refusal is None:
            tenant.on_admitted(share_ns)
            self._drawn[request.id] = (tenant, share_ns)
        return refusal

    def _reject(self, request: Request, verdict: Rejected) -> Rejected:
        self._events.append(RequestRejected(request, verdict.reason, verdict.cause))
        return verdict

    def cancel(self, request_id: int, *, now_ns: int) -> bool:
        """The client went away: take its request out of its lane.

        Returns:
            False if it no longer waits (it runs, or was answered).
        """
        if request_id not in self._lanes_of:
            return False
        self._events.append(RequestCancelled(self._leave(request_id, now_ns), now_ns))
        return True

    def complete(self, run_id: int, *, now_ns: int, outcome: Outcome) -> Run:
        """A run ended: its instance is free, and its time teaches the cost model."""
        run, lanes = self._running.pop(run_id)
        lanes.device.ends_ns.pop(run_id, None)  # unless it was suspended
        lanes.freed(run.instance, now_ns)
        if lanes.account is not None:
            lanes.account.release(run.instance, now_ns=now_ns, real_bytes=outcome.memory_bytes)
        lanes.backlog.demand.on_departure(now_ns=now_ns, count=len(run.requests))
        if self._drawn:
            for request in run.requests:
                self._give_back(request.id)
        if isinstance(outcome, Done):
            lanes.learn(run, outcome.ran_ns)
        elif outcome.is_unforeseen(run) and len(run.requests) > 1:
            lanes.stay_within(run.elements // 2)
        self._events.append(RunEnded(run, outcome, now_ns))
        return run

    def suspend(self, run_id: int) -> None:
        """A run hangs, or waits for a process: its instance stays taken, its device is free."""
        _, lanes = self._running[run_id]
        lanes.device.ends_ns.pop(run_id, None)

    def extend(self, run_id: int, size_bytes: int) -> bool:
        """A run needs more memory than was expected; whether it has that from now on."""
        run, lanes = self._running[run_id]
        return lanes.account is not None and lanes.account.extend(run.instance, size_bytes)

    def resize_pool(self, capacity_bytes: int, *, is_pressed: bool = False) -> None:
        """There is more memory for the pool now, or less; or the system is short of it."""
        if self.ledger is not None:
            self.ledger.resize(capacity_bytes, is_pressed=is_pressed)

    def drain(self) -> None:
        """Admit nobody any more and keep nobody waiting for company."""
        self._is_draining = True

    # ------------------------------------------------------------------ decisions

    def poll(self, *, now_ns: int) -> list[Action]:
        """What must happen now: requests to give up, runs to start."""
        if now_ns >= self._overload_ns:
            self._look_at_levels(now_ns)
        if self.ledger is not None:
            self.ledger.tidy(now_ns)
        actions: list[Action] = []
        while (first := self._latest.first()) is not None and first[0] < now_ns:
            request = self._leave(first[1], now_ns)
            self._events.append(RequestExpired(request, now_ns))
            actions.append(Expire(request))
        for device in self._devices.values():
            device.wakeup_ns = None
            while len(device.ends_ns) < device.parallelism:
                launch = self._next_launch(device, now_ns)
                if launch is None:
                    break
                if not launch.is_due(now_ns):
                    device.wakeup_ns = launch.at_ns
                    break
                action = self._cut(launch, now_ns)
                if action is not None:
                    actions.append(action)
        return actions

    def wakeup_ns(self) -> int | None:
        """When to poll next if nothing else happens; None if nothing waits for a time."""
        times = [d.wakeup_ns for d in self._devices.values() if d.wakeup_ns is not None]
        first = self._latest.first()
        if first is not None:
            times.append(first[0] + 1)  # an instant later its slack is gone
        if not self._is_settled:
            times.append(self._overload_ns)
        if self.ledger is not None and (tidy_ns := self.ledger.tidy_ns) is not None:
            times.append(tidy_ns)
        return min(times, default=None)

    def drain_resizes(self) -> list[Resize]:
        """What has to be done with pages, in this order, before the runs of the last poll begin."""
        return [] if self.ledger is None else self.ledger.drain()

    def _leave(self, request_id: int, now_ns: int) -> Request:
        """Take out a request that will not run."""
        lanes = self._lanes_of.pop(request_id)
        self._latest.trim()
        lanes.changed()
        before_ns = lanes.backlog.work_ns
        request = lanes.backlog.remove(request_id)
        lanes.entered(lanes.backlog.work_ns - before_ns)
        lanes.backlog.demand.on_departure(now_ns=now_ns)
        if lanes.account is not None and not lanes.backlog.rows:
            lanes.account.leave_line()
        if self._drawn:
            self._give_back(request_id)
        return request

    def _give_back(self, request_id: int) -> None:
        """What a request drew on its tenant's allowance is free again."""
        drawn = self._drawn.pop(request_id, None)
        if drawn is not None:
            drawn[0].on_left(drawn[1])

    def _look_at_levels(self, now_ns: int) -> None:
        self._overload_ns = now_ns + OVERLOAD_STEP_NS
        self._is_settled = True
        for name, device in self._devices.items():
            overload = device.overload
            if overload.advance(now_ns):
                self._events.append(OverloadChanged(name, overload.level, overload.off, now_ns))
                for lanes in device.line:
                    lanes.alarm()
            self._is_settled = self._is_settled and overload.is_settled()

    def _next_launch(self, device: Device, now_ns: int) -> Launch | None:
        freed = 0 if self.ledger is None else self.ledger.freed
        ready = [
            lanes
            for lanes in device.line
            if lanes.backlog.rows and lanes.free and lanes.short_at != freed
        ]
        if not ready:
            return None
        if device.fast.last_ns is not None and (fast := [x for x in ready if x.is_fast]):
            first = min(fast, key=lambda lanes: lanes.backlog.latest_start_ns())
            return Launch(now_ns, first.name, Trigger.FAST, 0)
        candidates = [lanes.candidate or lanes.make_candidate(now_ns) for lanes in ready]
        launch = next_launch(
            candidates, now_ns=now_ns, parallelism=device.parallelism, load=device.load(now_ns)
        )
        if self._is_draining:
            return Launch(now_ns, launch.model, Trigger.DRAIN, 0)
        return launch

    def _cut(self, launch: Launch, now_ns: int) -> Action | None:
        """Form the run of a launch and take its requests out of their lanes.

        Returns:
            None if there is no memory for it now; an expiry if there will never be.
        """
        lanes, is_fast = self._models[launch.model], launch.trigger is Trigger.FAST
        if is_fast:
            lanes = lanes.fast_lane()
        candidate = lanes.candidate
        lanes.obey(lanes.policy_at(now_ns))
        lanes.candidate = None
        before_ns = lanes.backlog.work_ns
        instance = lanes.free[0]
        group = lanes.planner.take(now_ns=now_ns, instance=instance)
        if isinstance(group, Short):
            return self._wait(lanes, group, now_ns)
        del lanes.free[0]
        lanes.entered(lanes.backlog.work_ns - before_ns)
        lanes_of = self._lanes_of
        for request in group.requests:
            del lanes_of[request.id]
        self._latest.trim()
        run = Run(
            id=self._next_run_id,
            model=lanes.name,
            instance=instance,
            requests=tuple(group.requests),
            rows=group.rows,
            length=group.length,
            trigger=launch.trigger,
            start_ns=now_ns,
            predicted_ns=group.run_ns,
            window_ns=launch.window_ns,
            depth=len(lanes.backlog),
            is_ragged=lanes.policy.is_ragged,
            threshold_ns=0 if candidate is None else candidate.threshold_ns,
            level=lanes.device.overload.level,
            lease_bytes=0 if lanes.account is None else lanes.account.leased_bytes(instance),
        )
        self._next_run_id += 1
        lanes.device.ends_ns[run.id] = now_ns + group.run_ns
        if is_fast:
            lanes.device.fast.on_given(group.run_ns, now_ns)
        self._running[run.id] = (run, lanes)
        return run

    def _wait(self, lanes: Lanes, short: Short, now_ns: int) -> Expire | None:
        """A model waits for memory to come home, unless it can never be enough."""
        assert self.ledger is not None
        assert lanes.account is not None
        if reason := lanes.too_large(short.request):  # what it may have was less than now
            request = self._leave(short.request.id, now_ns)
            self._events.append(RequestExpired(request, now_ns))
            return Expire(request, reason)
        lanes.short_at = self.ledger.freed
        proposal = self.ledger.refused(lanes.account, short.refused, now_ns)
        if proposal is not None:
            self._events.append(proposal)
        return None

    # ------------------------------------------------------------------ observers

    def drain_events(self) -> list[Event]:
        """What happened since the last call (the oldest are lost if nobody asks for long)."""
        events = list(self._events)
        self._events.clear()
        return events

    def snapshot(self, *, now_ns: int) -> Snapshot:
        """What is now."""
        self._look_at_levels(now_ns)
        return Snapshot(
            models=tuple([lanes.snapshot(now_ns) for lanes in self._models.values()]),
            is_draining=self._is_draining,
            devices=tuple([each.snapshot(name, now_ns) for name, each in self._devices.items()]),
            memory=None if self.ledger is None else self.ledger.snapshot(),
        )

    def check_integrity(self) -> None:
        """What must hold after every call; for tests, and for the driver when it is idle."""
        for device in self._devices.values():
            for lanes in device.line:
                lanes.check_integrity()
                own = [run for run, of in self._running.values() if of is lanes]
                in_flight = len(lanes.backlog) + sum(len(run.requests) for run in own)
                assert lanes.backlog.demand.in_flight == in_flight
            assert len(device.ends_ns) <= device.parallelism
        for name, lanes in self._models.items():
            taken = [run.instance for run, _ in self._running.values() if run.model == name]
            assert sorted([*lanes.free, *taken]) == list(range(lanes.policy.instances))
        ends_ns = [id for device in self._devices.values() for id in device.ends_ns]
        assert set(ends_ns) <= self._running.keys()
        line = [lanes for device in self._devices.values() for lanes in device.line]
        waiting = sum(len(lanes.backlog) for lanes in line)
        assert len(self._lanes_of) == waiting
        if self.ledger is not None:
            self.ledger.check_integrity()
        assert self._drawn.keys() <= self._lanes_of.keys() | {
            request.id for run, _ in self._running.values() for request in run.requests
        }
        self._latest.check_integrity()
