"""What the scheduler keeps of each device and of each model's lanes in front of it."""

from dataclasses import replace

from xirang.core.admission.forecast import ahead_ns, residual_ns
from xirang.core.admission.levels import Thresholds
from xirang.core.admission.overload import Overload
from xirang.core.batcher import Batcher
from xirang.core.batching.shaping import filled
from xirang.core.cost import CostModel
from xirang.core.memory.account import Account
from xirang.core.planner import Planner
from xirang.core.policy import Policy
from xirang.core.queueing import demand, window
from xirang.core.queueing.backlog import Backlog
from xirang.core.request import Request
from xirang.core.run import Rejected, Run
from xirang.core.scheduling.fast import FastShare, sub_run_elements
from xirang.core.scheduling.launch import Candidate, Waiting, window_ns
from xirang.core.snapshot import DeviceSnapshot, ModelSnapshot

LOADS_A_MEMORY = 100
"""So often is a device's load added up anew while the average over it forgets."""

FAMILIAR_LENGTH = 64
"""At this length an element is priced where runs are cut shorter for the fast lane."""


ROOMY = 0.25
"""Below this part of the budget, a rough prediction of the wait is good enough."""

CALM_NS = 1_000_000
"""So long does a look hold that found a queue far from all budgets, or full."""

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

    def snapshot(self, name: str, now_ns: int) -> DeviceSnapshot:
        """What is, under its name."""
        overload = self.overload
        return DeviceSnapshot(
            device=name,
            running=len(self.ends_ns),
            pressure=overload.pressure(now_ns),
            level=overload.level,
            shed=overload.shed,
            off=overload.off,
            fast_share=self.fast.at(now_ns, parallelism=self.parallelism),
        )

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
        batcher: Plans its runs by Triton's rules, if it asks for them; else None.
        fast: The fast lane beside it; None until somebody takes it.
        is_fast: Whether this is the fast lane.
        has_rules: Whether requests may be fast that do not say so.
        account: Its memory, if it has a part in a pool.
        short_at: What was free in the pool (`Pool.freed`) when there was no memory for it.
    """

    __slots__ = (
        "_calm_budget_ns",
        "_calm_until_ns",
        "_calm_work_ns",
        "_full_until_ns",
        "_refusal",
        "account",
        "backlog",
        "batcher",
        "candidate",
        "cost",
        "device",
        "fast",
        "free",
        "has_rules",
        "is_fast",
        "name",
        "planner",
        "policy",
        "short_at",
    )

    def __init__(
        self,
        name: str,
        policy: Policy,
        cost: CostModel,
        device: Device,
        account: Account | None = None,
    ) -> None:
        self.name = name
        self.policy = policy
        self.cost = cost
        self.device = device
        rules = policy.batcher
        self.backlog = Backlog(
            cost,
            age_ns_max=policy.age_ns_max,
            is_shelved=policy.is_shelved,
            rows_max=policy.rows_max,
            rules=rules,
        )
        self.account = account
        self.short_at = -1
        self.free = list(range(policy.instances))
        self.has_rules = bool(policy.fast_priority or policy.fast_budget_ns)
        self.batcher: Batcher | None = None
        if rules is not None:
            self.batcher = Batcher(
                policy, cost, self.backlog, rules, free=self.free, account=account
            )
        self.planner = self.batcher or Planner(
            policy, cost, self.backlog, parallelism=device.parallelism, account=account
        )
        self.candidate: Candidate | None = None
        self._refusal: Rejected | None = None
        self._full_until_ns = 0
        self._calm_until_ns = 0
        self._calm_budget_ns = 0
        self._calm_work_ns = 0.0
        self.fast: Lanes | None = None
        self.is_fast = False

    def fast_lane(self) -> "Lanes":
        """The fast lane beside it, opened for the first who takes it."""
        if self.fast is None:
            self.fast = Lanes(self.name, self.policy, self.cost, self.device, self.account)
            self.fast.free = self.free
            self.fast.is_fast = True
            self.device.add(self.fast)
        return self.fast

    def changed(self) -> None:
        """Somebody came, or left without running."""
        self.candidate = None
        self.planner.forget()

    def freed(self, instance: int, now_ns: int) -> None:
        """One of its instances has ended its run."""
        self.candidate = None
        self.free.append(instance)
        self.free.sort()
        if self.batcher is not None:
            self.batcher.on_free(now_ns)

    def room(self, request: Request) -> tuple[int, int]:
        """How many wait where a request would wait, and how many may."""
        if self.batcher is not None:
            depth_max = self.batcher.depth_max(request.priority)
            if depth_max:
                return self.backlog.depth_of(request.priority), depth_max
        return len(self.backlog), self.policy.depth_max

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

    def make_candidate(self, now_ns: int) -> Candidate:
        """What could run now."""
        if self.batcher is not None:
            return self.batcher.candidate(self.name, now_ns=now_ns)
        backlog, policy, cost = self.backlog, self.policy, self.cost
        call_ns, margin = cost.call_ns(), cost.margin_wait()
        pressing = backlog.most_pressing()
        budget_ns = min(pressing.deadline_ns - pressing.arrival_ns, policy.age_ns_max)
        load = self.device.load(now_ns)
        load = max(load, backlog.work_ns / (budget_ns * self.device.parallelism + 1))
        rows_load = backlog.demand.rows_load(parallelism=self.device.parallelism)
        room_ns = window.room_ns(
            budget_ns=budget_ns, call_ns=call_ns, load=rows_load, margin=margin
        )
        spare = window.spare(room_ns=room_ns, call_ns=call_ns, load=rows_load)
        waiting = [
            Waiting(
                arrival_ns,
                spare * window.patience(load=load, efficiency=policy.efficiency_of(priority)),
            )
            for priority, arrival_ns in backlog.oldest_arrivals_ns().items()
        ]
        threshold_ns = window.threshold_ns(
            call_ns=call_ns,
            patience=max([kind.patience for kind in waiting]),
            room_ns=room_ns,
        )
        batch_ns = call_ns + min(backlog.work_ns, threshold_ns)
        one_more_ns = backlog.work_ns / backlog.rows
        # Between two facts about a model only its load decays, too little to ask again.
        self.candidate = Candidate(
            model=self.name,
            waiting=waiting,
            deadline_ns=pressing.arrival_ns + budget_ns,
            run_ns=int((batch_ns + one_more_ns) * (1.0 + margin)),
            company=backlog.demand.company(),
            is_full=backlog.rows >= policy.rows_max or batch_ns >= threshold_ns,
            window_ns_max=policy.window_ns_max,
            threshold_ns=int(threshold_ns),
        )
        return self.candidate

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

    def is_calm(self, budget_ns: int, now_ns: int) -> bool:
        """Whether by a look of a moment ago nobody with such a budget is to be turned away."""
        return (
            now_ns < self._calm_until_ns
            and budget_ns >= self._calm_budget_ns
            and self.device.waiting_ns < self._calm_work_ns
            and self.backlog.rows < self.policy.depth_max
        )

    def look(self, budget_ns: int, *, now_ns: int) -> float:
        """Find out whether it is calm, and for how long.

        Args:
            budget_ns: Of a request that comes.
            now_ns: The time.

        Returns:
            A rough upper bound of the time until it would have run ÷ its budget.
        """
        device, backlog = self.device, self.backlog
        instances = min(device.parallelism, self.policy.instances)
        calls_ns = (2.0 + backlog.rows / self.policy.rows_max) * self.cost.call_ns()
        residual_ns = max(device.ends_ns.values()) - now_ns if device.ends_ns else 0
        ahead_ns = calls_ns / instances + max(0, residual_ns)
        ratio = (ahead_ns + device.waiting_ns * WITH_CALLS / instances) / max(1, budget_ns)
        if ratio < ROOMY:
            self._calm_until_ns = now_ns + CALM_NS
            self._calm_budget_ns = budget_ns // 2  # the next one's is a little smaller already
            room_ns = ROOMY * self._calm_budget_ns - ahead_ns
            self._calm_work_ns = room_ns * instances / WITH_CALLS
        return ratio

    def alarm(self) -> None:
        """The level of overload has changed: nothing is calm until it has been looked at again."""
        self._calm_until_ns = 0

    def filled(self, refusal: Rejected, now_ns: int) -> None:
        """As many wait as may, and somebody was told so."""
        self._refusal = refusal
        self._full_until_ns = now_ns + CALM_NS

    def refusal(self, now_ns: int) -> Rejected | None:
        """What was said a moment ago to somebody who found the queue full, if it still is."""
        is_full = len(self.backlog) >= self.policy.depth_max and self.batcher is None
        return self._refusal if is_full and now_ns < self._full_until_ns else None

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

    def too_large(self, request: Request) -> str:
        """Why there can be no memory for a request, for its client; empty if there can."""
        account = self.account
        if account is None:
            return ""
        rows, length = request.rows, request.lengths or request.length
        if self.policy.row_sizes:
            rows = filled(rows, self.policy.row_sizes)
        if rows <= account.rows_max(length):
            return ""
        return (
            f"it needs {account.need_bytes(rows, length)} bytes of memory, "
            f"model '{self.name}' may have {account.most_bytes()}"
        )

    def came(self, work_ns: float) -> None:
        """A request of so much work has come into its lanes."""
        self.candidate = None
        self.planner.forget()
        if not self.is_fast:
            self.device.waiting_ns += work_ns

    def entered(self, work_ns: float) -> None:
        """Work has come into its lanes (or, below zero, has left them)."""
        if not self.is_fast:
            self.device.waiting_ns += work_ns

    def learn(self, run: Run, ran_ns: int) -> None:
        """A run took so long."""
        rows = filled(run.rows, self.policy.row_sizes)
        self.cost.observe(rows=rows, length=run.length, ran_ns=ran_ns)

    def snapshot(self, now_ns: int) -> ModelSnapshot:
        """What is."""
        backlog, policy, device = self.backlog, self.policy, self.device
        load = device.load(now_ns)
        windows = {
            priority: window_ns(
                patience=window.patience(load=load, efficiency=efficiency),
                slack_ns=policy.window_ns_max,
                window_ns_max=policy.window_ns_max,
            )
            for priority, efficiency in ((0, policy.efficiency), *policy.efficiencies)
        }
        patience = window.patience(load=load, efficiency=policy.efficiency)
        return ModelSnapshot(
            model=self.name,
            waiting=len(backlog),
            running=policy.instances - len(self.free),
            work_ns=int(backlog.work_ns),
            demand=backlog.demand.load(now_ns=now_ns, parallelism=device.parallelism),
            window_ns=windows.pop(0),
            threshold_ns=int(
                window.threshold_ns(
                    call_ns=self.cost.call_ns(), patience=patience, room_ns=policy.age_ns_max
                )
            ),
            lanes=backlog.lanes(),
            windows_ns=tuple(windows.items()),
            fast_waiting=0 if self.fast is None else len(self.fast.backlog),
        )

    def check_integrity(self) -> None:
        """What must hold after every call."""
        self.backlog.check_integrity()
        if self.batcher is not None:
            self.batcher.check_integrity()
        assert self.free == sorted(set(self.free))
        if self.fast is not None:
            assert self.fast.free is self.free
