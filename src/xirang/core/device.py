"""What the scheduler keeps of each device and of each model's lanes in front of it."""

from dataclasses import replace

from xirang.core.admission.forecast import ahead_ns, residual_ns
from xirang.core.admission.levels import Thresholds
from xirang.core.admission.overload import Overload
from xirang.core.batching.shaping import filled
from xirang.core.cost import CostModel
from xirang.core.planner import Planner
from xirang.core.policy import Policy
from xirang.core.queueing import demand
from xirang.core.queueing.backlog import Backlog
from xirang.core.request import Request
from xirang.core.run import Run
from xirang.core.scheduling.fast import FastShare, sub_run_elements
from xirang.core.scheduling.launch import Candidate

LOADS_A_MEMORY = 100
"""So often is a device's load added up anew while the average over it forgets."""

FAMILIAR_LENGTH = 64
"""At this length an element is priced where runs are cut shorter for the fast lane."""


SHARES_KEPT_MAX = 1024
"""Requests of one size and budget come again and again; what they cost is kept until it changes."""

WITH_CALLS = 1.1
"""Device time of work by its row costs, where runs are as full as is worth while."""


class Device:
    """Something with time to share: how many runs it holds at once and who may use it.

    Attributes:
        ends_ns: When each of its runs will end, by prediction.
        line: The lanes of all its models, fast ones included.
        wakeup_ns: When its next launch is due, if that is later.
        overload: How pressed it is.
        fast: What its fast lanes were given.
        waiting_ns: Row costs of all that wait in its lanes, but for the fast ones.
    """

    __slots__ = (
        "_load",
        "_load_until_ns",
        "ends_ns",
        "fast",
        "line",
        "overload",
        "parallelism",
        "waiting_ns",
        "wakeup_ns",
    )

    def __init__(self, parallelism: int, thresholds: Thresholds) -> None:
        self.parallelism = parallelism
        self.ends_ns: dict[int, int] = {}
        self.line: list[Lanes] = []
        self.wakeup_ns: int | None = None
        self.overload = Overload(thresholds)
        self.fast = FastShare()
        self.waiting_ns = 0.0
        self._load = 0.0  # until the instant below
        self._load_until_ns = 0

    def load(self, now_ns: int) -> float:
        """ρ̂ of all its models, which changes too slowly to be added up at each decision."""
        if now_ns >= self._load_until_ns:
            self._load_until_ns = now_ns + demand.MEMORY_NS // LOADS_A_MEMORY
            parallelism = self.parallelism
            self._load = sum(
                [
                    lanes.backlog.demand.load(now_ns=now_ns, parallelism=parallelism)
                    for lanes in self.line
                ]
            )
        return self._load

    def add(self, lanes: "Lanes") -> None:
        """One more model shares its time, or one more has a fast lane."""
        self.line.append(lanes)

    def remove(self, lanes: "Lanes") -> None:
        """One fewer."""
        self.line.remove(lanes)
        self._load_until_ns = 0

    def residual_ns(self, now_ns: int) -> float:
        """Time until it is done with what it runs, shared among its instances."""
        return residual_ns(self.ends_ns.values(), now_ns=now_ns, parallelism=self.parallelism)


class Lanes:
    """One model's policy, its backlog and which of its instances are free.

    A model of which fast requests come has a second one of these, for them alone; the two share
    the instances and the cost model.

    Attributes:
        free: Numbers of the free instances, ascending: the lowest goes first.
        candidate: What could run now; made anew after whatever changes it.
        fast: The fast lane beside it; None until somebody takes it.
        is_fast: Whether this is the fast lane.
    """

    __slots__ = (
        "_shares_ns",
        "backlog",
        "candidate",
        "cost",
        "device",
        "fast",
        "free",
        "is_fast",
        "name",
        "planner",
        "policy",
    )

    def __init__(self, name: str, policy: Policy, cost: CostModel, device: Device) -> None:
        self.name = name
        self.policy = policy
        self.cost = cost
        self.device = device
        self.backlog = Backlog(cost, age_ns_max=policy.age_ns_max, is_shelved=policy.is_shelved)
        self.planner = Planner(policy, cost, self.backlog, parallelism=device.parallelism)
        self.free = list(range(policy.instances))
        self.candidate: Candidate | None = None
        self._shares_ns: dict[tuple[int, int, int], float] = {}
        self.fast: Lanes | None = None
        self.is_fast = False

    def fast_lane(self) -> "Lanes":
        """The fast lane beside it, opened for the first who takes it."""
        if self.fast is None:
            self.fast = Lanes(self.name, self.policy, self.cost, self.device)
            self.fast.free = self.free
            self.fast.is_fast = True
            self.device.add(self.fast)
        return self.fast

    def changed(self) -> None:
        """Somebody came, or left without running."""
        self.candidate = None
        self.planner.forget()

    def obey(self, policy: Policy) -> None:
        """Plan by another policy from now on."""
        if policy is not self.planner.policy:
            self.planner.policy = policy
            self.changed()

    def stay_within(self, elements: int) -> None:
        """The device had no room for more than this."""
        known = self.policy.elements_max
        elements = max(1, elements if known is None else min(known, elements))
        self.policy = replace(self.policy, elements_max=elements, elements_room=elements)
        self.obey(self.policy)

    def policy_at(self, now_ns: int) -> Policy:
        """Its policy, with shorter runs while somebody's fast requests are to be expected."""
        fast, policy = self.device.fast, self.policy
        if self.is_fast or not fast.is_expected(now_ns):
            return policy
        bound = sub_run_elements(
            call_ns=self.cost.call_ns(),
            element_ns=self.cost.row_ns(FAMILIAR_LENGTH) / FAMILIAR_LENGTH,
            wait_ns=policy.fast_wait_ns,
        )
        if policy.elements_max is not None and policy.elements_max <= bound:
            return policy
        known = self.planner.policy
        if known.elements_max == bound:
            return known
        return replace(policy, elements_max=bound)

    def share_ns(self, request: Request) -> float:
        """Device time of a request in good company."""
        budget_ns = request.deadline_ns - request.arrival_ns
        key = (request.rows, request.length, budget_ns)
        share_ns = self._shares_ns.get(key)
        if share_ns is None:
            if len(self._shares_ns) >= SHARES_KEPT_MAX:
                self._shares_ns.clear()
            share_ns = self._shares_ns[key] = self._share_ns(request, budget_ns)
        return share_ns

    def _share_ns(self, request: Request, budget_ns: int) -> float:
        call_ns, row_ns = self.cost.call_ns(), self.cost.row_ns(request.length)
        gathered_ns = min(
            self.policy.rows_max * row_ns,
            budget_ns / 2 - call_ns,
            9 * call_ns,
        )
        return request.rows * demand.share_ns(
            row_ns=row_ns, call_ns=call_ns, gathered_ns=gathered_ns
        )

    def roughly_queued_ns(self, now_ns: int) -> float:
        """An upper bound of the time until a request that comes now would have run, if small."""
        device, backlog = self.device, self.backlog
        calls = 2.0 + backlog.rows / self.policy.rows_max
        work_ns = device.waiting_ns * WITH_CALLS + calls * self.cost.call_ns()
        ends_ns = device.ends_ns
        residual_ns = max(ends_ns.values()) - now_ns if ends_ns else 0
        return work_ns / min(device.parallelism, self.policy.instances) + max(0, residual_ns)

    def queued_ns(self, request: Request, now_ns: int) -> float:
        """How long a request that comes now, but is not in yet, would wait for its run to start."""
        device, backlog = self.device, self.backlog
        share = backlog.share_ahead_of(request)
        ahead = ahead_ns(
            work_ns=backlog.work_ns,
            rows=backlog.rows,
            share=share,
            call_ns=self.cost.call_ns(),
            rows_max=self.policy.rows_max,
        )
        queued_ns = ahead / min(device.parallelism, self.policy.instances)
        # Of other models only the sum is known: to look at each would take too long.
        others_ns = device.waiting_ns - backlog.work_ns
        if not self.is_fast and others_ns > 0.0:
            others_ns *= (share if backlog.rows else 1.0) * WITH_CALLS
            queued_ns += others_ns / device.parallelism
        return self._residual_ns(now_ns) + queued_ns

    def pressed_ns(self, request: Request, queued_ns: float, now_ns: int) -> float:
        """The same where not all can be on time, if all together it would be `queued_ns`.

        Then only those go first that are worth as much for their device time.
        """
        residual_ns = self._residual_ns(now_ns)
        return residual_ns + (queued_ns - residual_ns) * self.backlog.rival_share(request)

    def _residual_ns(self, now_ns: int) -> float:
        """Time until what runs leaves room: the device's, but not before an instance is free."""
        device = self.device
        residual_ns = device.residual_ns(now_ns)
        if not self.free and device.ends_ns:
            return max(residual_ns, min(device.ends_ns.values()) - now_ns)
        return residual_ns

    def entered(self, work_ns: float) -> None:
        """Work has come into its lanes (or, below zero, has left them)."""
        if not self.is_fast:
            self.device.waiting_ns += work_ns

    def learn(self, run: Run, ran_ns: int) -> None:
        """A run took so long."""
        rows = filled(run.rows, self.policy.row_sizes)
        self.cost.observe(rows=rows, length=run.length, ran_ns=ran_ns)
        self._shares_ns.clear()  # what a request costs is known better now

    def check_integrity(self) -> None:
        """What must hold after every call."""
        self.backlog.check_integrity()
        assert self.free == sorted(set(self.free))
        if self.fast is not None:
            assert self.fast.free is self.free
