"""Rules that every simulation must keep, each checked by the most obvious means.

A checker watches what goes into and comes out of the scheduler and never looks inside it. A
broken rule raises `Broken` at the event that broke it.
"""

from collections import Counter
from collections.abc import Mapping

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Admitted, Run, Verdict
from xirang.lab.simulator import Silent


class Broken(AssertionError):
    """A rule does not hold."""


def require(condition: object, message: str) -> None:
    """Raise Broken unless the condition holds."""
    if not condition:
        raise Broken(message)


class AnswersOnce(Silent):
    """Every admitted request leaves exactly once, answered or given up; nobody is invented."""

    def __init__(self) -> None:
        self._waiting: set[int] = set()
        self._running: set[int] = set()
        self._seen: set[int] = set()

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """It begins to wait, if it was admitted."""
        require(request.id not in self._seen, f"request {request.id} came twice")
        self._seen.add(request.id)
        if isinstance(verdict, Admitted):
            self._waiting.add(request.id)

    def on_start(self, run: Run) -> None:
        """Those in the run wait no longer."""
        for request in run.requests:
            require(request.id in self._waiting, f"request {request.id} ran without waiting")
            self._waiting.remove(request.id)
            self._running.add(request.id)

    def on_end(self, run: Run, now_ns: int) -> None:
        """Those in the run are answered."""
        for request in run.requests:
            require(request.id in self._running, f"request {request.id} was answered twice")
            self._running.remove(request.id)

    def on_expire(self, request: Request, now_ns: int) -> None:
        """It leaves without an answer."""
        require(request.id in self._waiting, f"request {request.id} expired without waiting")
        self._waiting.remove(request.id)

    def finish(self) -> None:
        """At the end nobody is left."""
        require(not self._waiting, f"{len(self._waiting)} requests wait for ever")
        require(not self._running, f"{len(self._running)} requests run for ever")


class RunsAreWellFormed(Silent):
    """A run keeps its model's bounds, mixes no groups and answers in the order of its rows."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._policies = policies
        self._started: dict[int, tuple[int, ...]] = {}

    def on_start(self, run: Run) -> None:
        """Its rows, elements, groups and predicted numbers are right."""
        policy, requests = self._policies[run.model], run.requests
        require(requests, "a run holds somebody")
        require(run.rows == sum(r.rows for r in requests), "rows are a sum")
        require(run.length == max(r.length for r in requests), "the target length is the longest")
        require({r.model for r in requests} == {run.model}, "a run has one model")
        require(len({r.group for r in requests}) == 1, "a run has one group")
        if len(requests) > 1:
            require(run.rows <= policy.rows_max, f"{run.rows} rows exceed {policy.rows_max}")
            if policy.elements_max is not None and policy.batching.value == "optimal":
                require(run.elements <= policy.elements_max, f"{run.elements} elements are many")
        require(run.id not in self._started, "a run's number is its own")
        self._started[run.id] = tuple(request.id for request in requests)

    def on_end(self, run: Run, now_ns: int) -> None:
        """The answers belong to the rows that went in."""
        ids = tuple(request.id for request in run.requests)
        require(self._started.pop(run.id) == ids, "answers are in the order of the rows")


class InstancesRunOneAtATime(Silent):
    """An instance never holds two runs, nor a device more than it can."""

    def __init__(
        self, policies: Mapping[str, Policy], devices: Mapping[str, int], *, binds_late: bool = True
    ) -> None:
        self._policies = policies
        self._devices = devices
        self._binds_late = binds_late
        self._busy: set[tuple[str, int]] = set()
        self._on_device: Counter[str] = Counter()

    def on_start(self, run: Run) -> None:
        """The instance was free, and so was the device."""
        policy = self._policies[run.model]
        require(0 <= run.instance < policy.instances, f"there is no instance {run.instance}")
        lower_busy = all((run.model, i) in self._busy for i in range(run.instance))
        require(lower_busy or not self._binds_late, "the lowest free instance goes first")
        require((run.model, run.instance) not in self._busy, "an instance runs one at a time")
        self._busy.add((run.model, run.instance))
        self._on_device[policy.device] += 1
        held = self._on_device[policy.device]
        require(held <= self._devices[policy.device], f"{policy.device} holds {held} runs")

    def on_end(self, run: Run, now_ns: int) -> None:
        """It is free again."""
        self._busy.remove((run.model, run.instance))
        self._on_device[self._policies[run.model].device] -= 1


class NobodyWaitsInVain(Silent):
    """With an idle instance nobody waits longer than the configured window."""

    def __init__(self, policies: Mapping[str, Policy], devices: Mapping[str, int]) -> None:
        self._policies = policies
        self._idle = Counter({model: policy.instances for model, policy in policies.items()})
        self._room = Counter(devices)
        # Insertion order is arrival order, so the first has waited longest.
        self._waiting: dict[str, dict[int, Request]] = {model: {} for model in policies}

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """It begins to wait."""
        if isinstance(verdict, Admitted):
            self._waiting[request.model][request.id] = request

    def on_start(self, run: Run) -> None:
        """Those in the run wait no longer."""
        self._move(run, -1)
        for request in run.requests:
            del self._waiting[run.model][request.id]

    def on_end(self, run: Run, now_ns: int) -> None:
        """One more instance is idle."""
        self._move(run, 1)

    def on_expire(self, request: Request, now_ns: int) -> None:
        """It waits no longer."""
        del self._waiting[request.model][request.id]

    def on_poll(self, now_ns: int) -> None:
        """Nobody who could run has waited a whole window."""
        for model, waiting in self._waiting.items():
            policy = self._policies[model]
            if not waiting or not self._idle[model] or not self._room[policy.device]:
                continue
            oldest = next(iter(waiting.values()))
            due_ns = oldest.arrival_ns + policy.window_ns_max
            require(now_ns < due_ns, f"request {oldest.id} waits beyond its window, idle instance")

    def _move(self, run: Run, idle: int) -> None:
        self._idle[run.model] += idle
        self._room[self._policies[run.model].device] += idle


class ExpiresOnlyTheHopeless(Silent):
    """Nobody is given up before the latest start, nor started after it."""

    def __init__(self, costs: Mapping[str, CostModel]) -> None:
        self._costs = costs
        self._latest_ns: dict[int, int] = {}

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """Note when its slack will be gone, by what is believed now."""
        cost = self._costs[request.model]
        alone_ns = cost.predict_ns(rows=request.rows, length=request.length)
        self._latest_ns[request.id] = request.deadline_ns - (0 if cost.is_cold else alone_ns)

    def on_start(self, run: Run) -> None:
        """Everybody in it still had slack."""
        for request in run.requests:
            latest_ns = self._latest_ns.pop(request.id)
            require(run.start_ns <= latest_ns, f"request {request.id} ran after its latest start")

    def on_expire(self, request: Request, now_ns: int) -> None:
        """Its slack is gone."""
        latest_ns = self._latest_ns.pop(request.id)
        require(now_ns > latest_ns, f"request {request.id} expired with slack left")


Checker = (
    AnswersOnce
    | RunsAreWellFormed
    | InstancesRunOneAtATime
    | NobodyWaitsInVain
    | ExpiresOnlyTheHopeless
)


def all_checkers(
    policies: Mapping[str, Policy], costs: Mapping[str, CostModel], devices: Mapping[str, int]
) -> tuple[Checker, ...]:
    """One of each."""
    return (
        *checkers_of_any(policies, devices),
        NobodyWaitsInVain(policies, devices),
        ExpiresOnlyTheHopeless(costs),
    )


def checkers_of_any(
    policies: Mapping[str, Policy], devices: Mapping[str, int], *, binds_late: bool = True
) -> tuple[AnswersOnce, RunsAreWellFormed, InstancesRunOneAtATime]:
    """Those that hold for any scheduler, not only for ours.

    Args:
        policies: Of each model.
        devices: Name to the number of runs that it holds at once.
        binds_late: Whether a request may go to whichever instance is free.
    """
    return (
        AnswersOnce(),
        RunsAreWellFormed(policies),
        InstancesRunOneAtATime(policies, devices, binds_late=binds_late),
    )
