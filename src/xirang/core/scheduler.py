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

from xirang.core.admission import gate
from xirang.core.batching.grouping import runs_of
from xirang.core.cost import CostModel
from xirang.core.event import (
    Event,
    RequestCancelled,
    RequestExpired,
    RequestRejected,
    RunEnded,
)
from xirang.core.policy import Batching, Policy
from xirang.core.queueing import window
from xirang.core.queueing.backlog import Backlog
from xirang.core.queueing.latest_starts import LatestStarts
from xirang.core.request import Request
from xirang.core.run import Action, Done, Expire, Outcome, Rejected, Run, Trigger, Verdict
from xirang.core.scheduling.launch import Candidate, Launch, next_launch, window_ns
from xirang.core.scheduling.selection import Group, choose, group_of, in_time
from xirang.core.snapshot import ModelSnapshot, Snapshot

EVENTS_MAX = 65_536

_IN_COMPANY = 1 + window.MARGINAL_SAVING_MIN
"""Device time of a request in good company, by its own: a little of the call comes on top."""


class _Device:
    """Something with time to share: how many runs it holds at once and who may use it."""

    __slots__ = ("models", "parallelism", "running", "wakeup_ns")

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism
        self.running = 0
        self.models: list[_Model] = []
        self.wakeup_ns: int | None = None  # when its next launch is due, if that is later


class _Model:
    """One model's policy, its backlog and which of its instances are free."""

    __slots__ = ("backlog", "candidate", "cost", "device", "free", "name", "policy")

    def __init__(self, name: str, policy: Policy, cost: CostModel, device: _Device) -> None:
        self.name = name
        self.policy = policy
        self.cost = cost
        self.device = device
        self.backlog = Backlog(cost)
        self.free = list(range(policy.instances))  # ascending: the lowest number goes first
        self.candidate: Candidate | None = None  # made anew after whatever changes it


class Scheduler:
    """Lanes in front of models, models in front of devices."""

    def __init__(self, *, devices: dict[str, int]) -> None:
        """Start with no models.

        Args:
            devices: Name to the number of runs that it holds at once.
        """
        assert all(parallelism >= 1 for parallelism in devices.values())
        self._devices = {name: _Device(parallelism) for name, parallelism in devices.items()}
        self._models: dict[str, _Model] = {}
        self._model_of: dict[int, _Model] = {}  # where each waiting request waits
        self._latest = LatestStarts(self._model_of)
        self._running: dict[int, Run] = {}
        self._events: deque[Event] = deque(maxlen=EVENTS_MAX)
        self._next_run_id = 1
        self._is_draining = False

    # ------------------------------------------------------------------ models

    def add_model(self, name: str, policy: Policy, cost: CostModel) -> None:
        """Take requests for one more model."""
        assert name not in self._models
        model = _Model(name, policy, cost, self._devices[policy.device])
        self._models[name] = model
        model.device.models.append(model)

    # ------------------------------------------------------------------ facts

    def submit(self, request: Request, *, now_ns: int) -> Verdict:
        """A request came: admit it into its lane, or say why not."""
        model = self._models[request.model]
        backlog, device = model.backlog, model.device
        verdict = gate.decide(
            depth=len(backlog),
            depth_max=model.policy.depth_max,
            drained_ns=int(backlog.work_ns) // device.parallelism,
            is_draining=self._is_draining,
        )
        if isinstance(verdict, Rejected):
            self._events.append(RequestRejected(request, verdict.reason))
            return verdict
        model.candidate = None
        latest_ns = backlog.push(request)
        share_ns = request.rows * model.cost.row_ns(request.length) * _IN_COMPANY
        backlog.demand.on_arrival(now_ns=now_ns, work_ns=share_ns)
        self._model_of[request.id] = model
        self._latest.push(latest_ns, request.id)
        return verdict

    def cancel(self, request_id: int, *, now_ns: int) -> bool:
        """The client went away: take its request out of its lane.

        Returns:
            False if it no longer waits (it runs, or was answered).
        """
        model = self._model_of.pop(request_id, None)
        if model is None:
            return False
        model.candidate = None
        request = model.backlog.remove(request_id)
        model.backlog.demand.on_departure(now_ns=now_ns)
        self._events.append(RequestCancelled(request, now_ns))
        return True

    def complete(self, run_id: int, *, now_ns: int, outcome: Outcome) -> Run:
        """A run ended: its instance is free, and its time teaches the cost model."""
        run = self._running.pop(run_id)
        model = self._models[run.model]
        model.candidate = None
        model.device.running -= 1
        model.free.append(run.instance)
        model.free.sort()
        model.backlog.demand.on_departure(now_ns=now_ns, count=len(run.requests))
        if isinstance(outcome, Done):
            model.cost.observe(rows=run.rows, length=run.length, ran_ns=outcome.ran_ns)
        self._events.append(RunEnded(run, outcome, now_ns))
        return run

    def drain(self) -> None:
        """Admit nobody any more and keep nobody waiting for company."""
        self._is_draining = True

    # ------------------------------------------------------------------ decisions

    def poll(self, *, now_ns: int) -> list[Action]:
        """What must happen now: requests to give up, runs to start."""
        actions: list[Action] = []
        while (first := self._latest.first()) is not None and first[0] < now_ns:
            actions.append(self._expire(first[1], now_ns))
        for device in self._devices.values():
            device.wakeup_ns = None
            while device.running < device.parallelism:
                launch = self._next_launch(device, now_ns)
                if launch is None:
                    break
                if launch.at_ns > now_ns:
                    device.wakeup_ns = launch.at_ns
                    break
                actions.append(self._cut(launch, now_ns))
        return actions

    def wakeup_ns(self) -> int | None:
        """When to poll next if nothing else happens; None if nothing waits for a time."""
        times = [d.wakeup_ns for d in self._devices.values() if d.wakeup_ns is not None]
        first = self._latest.first()
        if first is not None:
            times.append(first[0] + 1)  # an instant later its slack is gone
        return min(times, default=None)

    def _expire(self, request_id: int, now_ns: int) -> Expire:
        model = self._model_of.pop(request_id)
        model.candidate = None
        request = model.backlog.remove(request_id)
        model.backlog.demand.on_departure(now_ns=now_ns)
        self._events.append(RequestExpired(request, now_ns))
        return Expire(request)

    def _next_launch(self, device: _Device, now_ns: int) -> Launch | None:
        ready = [model for model in device.models if model.backlog.rows and model.free]
        if not ready:
            return None
        candidates = [model.candidate or self._candidate(model, now_ns) for model in ready]
        launch = next_launch(candidates, now_ns=now_ns, parallelism=device.parallelism)
        if self._is_draining:
            return Launch(now_ns, launch.model, Trigger.DRAIN, 0)
        return launch

    def _candidate(self, model: _Model, now_ns: int) -> Candidate:
        backlog, policy, cost = model.backlog, model.policy, model.cost
        threshold_ns = window.threshold_ns(call_ns=cost.call_ns())
        batch_ns = cost.call_ns() + min(backlog.work_ns, threshold_ns)
        one_more_ns = backlog.work_ns / backlog.rows
        load = backlog.demand.load(now_ns=now_ns, parallelism=model.device.parallelism)
        # Between two facts about a model only its load decays, too little to ask again.
        model.candidate = Candidate(
            model=model.name,
            oldest_arrival_ns=backlog.oldest_arrival_ns(),
            deadline_ns=backlog.most_pressing().deadline_ns,
            run_ns=int((batch_ns + one_more_ns) * (1.0 + cost.margin_wait())),
            patience=window.patience(load=load, efficiency=policy.efficiency),
            company=backlog.demand.company(),
            is_full=backlog.rows >= policy.rows_max or batch_ns >= threshold_ns,
            window_ns_max=policy.window_ns_max,
        )
        return model.candidate

    def _cut(self, launch: Launch, now_ns: int) -> Run:
        """Form the run of a launch and take its requests out of their lanes."""
        model = self._models[launch.model]
        model.candidate = None
        group = self._choose(model, now_ns)
        model.backlog.take(group.requests)
        model_of = self._model_of
        for request in group.requests:
            del model_of[request.id]
        run = Run(
            id=self._next_run_id,
            model=model.name,
            instance=model.free.pop(0),
            requests=tuple(group.requests),
            rows=group.rows,
            length=group.length,
            trigger=launch.trigger,
            start_ns=now_ns,
            predicted_ns=group.run_ns,
            window_ns=launch.window_ns,
            depth=len(model.backlog),
        )
        self._next_run_id += 1
        model.device.running += 1
        self._running[run.id] = run
        return run

    def _choose(self, model: _Model, now_ns: int) -> Group:
        policy, urgent = model.policy, model.backlog.urgent()
        if policy.batching is Batching.OPTIMAL and not policy.can_pad:
            urgent = in_time(urgent, rows_max=policy.rows_max, cost=model.cost, now_ns=now_ns)
        runs = runs_of(urgent, policy=policy, cost=model.cost)
        groups = [group_of(requests, model.cost) for requests in runs]
        return choose(groups, now_ns=now_ns, parallelism=model.device.parallelism)

    # ------------------------------------------------------------------ observers

    def drain_events(self) -> list[Event]:
        """What happened since the last call (the oldest are lost if nobody asks for long)."""
        events = list(self._events)
        self._events.clear()
        return events

    def snapshot(self, *, now_ns: int) -> Snapshot:
        """What is now."""
        models = (self._snapshot(model, now_ns) for model in self._models.values())
        return Snapshot(models=tuple(models), is_draining=self._is_draining)

    def _snapshot(self, model: _Model, now_ns: int) -> ModelSnapshot:
        backlog, policy = model.backlog, model.policy
        load = backlog.demand.load(now_ns=now_ns, parallelism=model.device.parallelism)
        patience = window.patience(load=load, efficiency=policy.efficiency)
        return ModelSnapshot(
            model=model.name,
            waiting=len(backlog),
            running=policy.instances - len(model.free),
            work_ns=int(backlog.work_ns),
            demand=load,
            window_ns=window_ns(
                patience=patience, slack_ns=policy.window_ns_max, window_ns_max=policy.window_ns_max
            ),
            threshold_ns=int(window.threshold_ns(call_ns=model.cost.call_ns())),
            lanes=backlog.lanes(),
        )

    def check_integrity(self) -> None:
        """What must hold after every call; for tests, and for the driver when it is idle."""
        for model in self._models.values():
            model.backlog.check_integrity()
            running = [run for run in self._running.values() if run.model == model.name]
            assert sorted([*model.free, *(run.instance for run in running)]) == list(
                range(model.policy.instances)
            )
            in_flight = len(model.backlog) + sum(len(run.requests) for run in running)
            assert model.backlog.demand.in_flight == in_flight
        for device in self._devices.values():
            names = {model.name for model in device.models}
            running_count = sum(run.model in names for run in self._running.values())
            assert 0 <= device.running == running_count <= device.parallelism
        waiting = sum(len(model.backlog) for model in self._models.values())
        assert len(self._model_of) == waiting
        self._latest.check_integrity()
