"""More than can be done: who is served, who is told no and when, and the way back."""

from collections import Counter
from random import Random

import pytest
from tests.support.core import MS, fixed_shape, request
from tests.support.simulated import GPU, GPU_BATCH, GPU_CAPACITY

from xirang.core.admission.levels import Thresholds
from xirang.core.admission.switches import ORDER
from xirang.core.admission.tenants import Allowance
from xirang.core.cost import CostModel
from xirang.core.event import OverloadChanged
from xirang.core.policy import Policy
from xirang.core.run import Cause, Done, Rejected
from xirang.core.scheduler import Scheduler
from xirang.lab.simulator import Service, Silent, Simulator
from xirang.lab.simulator_result import quantile
from xirang.lab.workload import Choice, Demands, Poisson

SECOND = 1000 * MS
BUDGET = 50 * MS
PRIORITIES = Choice((1, 2, 3), (0.2, 0.5, 0.3))


class Watched(Scheduler):
    """Keeps its changes of level for the test."""

    def __init__(self, **ground):
        super().__init__(**ground)
        self.changes = []

    def poll(self, *, now_ns):
        actions = super().poll(now_ns=now_ns)
        events = self.drain_events()
        self.changes += [event for event in events if isinstance(event, OverloadChanged)]
        return actions


class Span(Silent):
    """Counts what came, and what was answered, between two instants."""

    def __init__(self, begin_s, end_s):
        self.begin_ns, self.end_ns = begin_s * SECOND, end_s * SECOND
        self.came, self.on_time, self.late = Counter(), Counter(), Counter()
        self.causes, self.told_ns, self.answered = Counter(), [], 0
        self.retries_ns = []

    def is_in(self, now_ns):
        return self.begin_ns <= now_ns < self.end_ns

    def on_arrival(self, request, verdict):
        if self.is_in(request.arrival_ns):
            self.came[request.priority] += 1
            if isinstance(verdict, Rejected):
                self.causes[verdict.cause] += 1
                self.told_ns.append(0)
                self.retries_ns.append(verdict.retry_after_ns)

    def on_end(self, run, now_ns):
        for each in run.requests:
            is_on_time = now_ns <= each.deadline_ns
            self.answered += is_on_time and self.is_in(now_ns)
            if self.is_in(each.arrival_ns):
                (self.on_time if is_on_time else self.late)[each.priority] += 1

    def on_expire(self, request, now_ns):
        if self.is_in(request.arrival_ns):
            self.told_ns.append(now_ns - request.arrival_ns)

    def share(self, priority):
        return self.on_time[priority] / self.came[priority]

    def goodput(self):
        return self.answered * SECOND / (self.end_ns - self.begin_ns) / GPU_CAPACITY


def phased(*phases, seed=1, budget_ns=BUDGET):
    """Poisson arrivals at some loads, each for some seconds."""
    instants, begin_ns = [], 0
    for number, (load, seconds) in enumerate(phases):
        for at_ns in Poisson(load * GPU_CAPACITY).draws(Random(f"{seed}/{number}")):
            if at_ns >= seconds * SECOND:
                break
            instants.append(begin_ns + at_ns)
        begin_ns += seconds * SECOND
    demands = Demands(budgets_ns=Choice((budget_ns,)), priorities=PRIORITIES)
    return demands.requests(iter(instants), seed=seed)


def play(requests, *, span=(1, 5), noise=0.0, ground=None, **policy):
    """The fixed-shape model on one device."""
    watched = Watched(devices={"cpu": 1}, **(ground or {}))
    made = Policy(**({"max_batch_size": GPU_BATCH, "depth_max": 10**6} | policy))
    cost = GPU.learned(rows_max=GPU_BATCH, lengths=[1])
    seen = Span(*span)
    service = Service(GPU, noise=noise, random=Random(3))
    simulator = Simulator(
        {"model": (made, cost, service)}, devices={}, watchers=(seen,), scheduler=watched
    )
    simulator.run(requests)
    watched.check_integrity()
    assert watched.wakeup_ns() is None
    return seen, watched.changes


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_three_times_the_capacity(noise):
    requests = phased((0.7, 1), (3.0, 5), (0.5, 2))
    seen, changes = play(requests, span=(2, 6), noise=noise)
    assert seen.share(1) >= 0.97
    assert seen.share(1) > seen.share(2) > seen.share(3)
    assert seen.goodput() >= 0.97
    assert quantile(sorted(seen.told_ns), 0.99) < BUDGET
    assert changes
    assert (changes[-1].level, changes[-1].off) == (0, ())
    assert changes[-1].at_ns <= (6 + 5) * SECOND


@pytest.mark.slow
def test_eight_tenths_of_the_capacity_turns_nobody_away():
    seen, changes = play(phased((0.8, 6)), span=(0, 6), noise=0.1, efficiency=0.2)
    assert not seen.causes
    assert not seen.told_ns
    assert not changes
    assert seen.late.total() <= 0.001 * seen.came.total()


@pytest.mark.slow
def test_whoever_is_told_when_to_come_back_is_told_something_plausible():
    seen, _ = play(phased((3.0, 4)), span=(1, 4))
    assert seen.causes[Cause.BUDGET] + seen.causes[Cause.OVERLOAD] > 1000
    # A queue of a budget's length is drained in about a budget.
    assert all(0 <= retry_ns <= 4 * BUDGET for retry_ns in seen.retries_ns)
    assert quantile(sorted(seen.retries_ns), 0.5) > 0


@pytest.mark.slow
def test_depths_may_stand_for_levels():
    thresholds = Thresholds(depths=(100, 200, 400))
    ground = {"thresholds": thresholds}
    requests = phased((3.0, 4), (0.2, 2), budget_ns=SECOND)
    _, changes = play(requests, ground=ground, rejects_early=True)
    assert max(change.level for change in changes) >= 1
    assert changes[-1].level == 0


def test_levels_are_left_one_by_one_and_their_functions_come_back_in_reverse():
    """Level 3 at once, from whoever would wait three budgets; then quiet."""
    thresholds = Thresholds(depths=(5, 10, 20))
    scheduler = Watched(devices={"cpu": 1}, thresholds=thresholds)
    scheduler.add_model("m", Policy(), fixed_shape(5, 1))
    for i in range(3000):
        now_ms = i
        scheduler.submit(
            request(i + 1, at_ms=now_ms, budget_ms=60_000, priority=1), now_ns=now_ms * MS
        )
        if i == 0:
            (run,) = scheduler.poll(now_ns=0)
    scheduler.poll(now_ns=3000 * MS)
    assert scheduler.changes[-1].level == 3
    assert scheduler.changes[-1].off == ORDER
    scheduler.complete(run.id, now_ns=3000 * MS, outcome=Done(3000 * MS))
    now_ns, levels = 3000 * MS, []
    scheduler.drain()
    while (wakeup_ns := scheduler.wakeup_ns()) is not None and wakeup_ns < 9 * SECOND:
        now_ns = max(now_ns, wakeup_ns)
        for run in scheduler.poll(now_ns=now_ns):
            scheduler.complete(run.id, now_ns=now_ns, outcome=Done(MS))
        levels = [change.level for change in scheduler.changes]
    ended = scheduler.changes[-1]
    assert (ended.level, ended.off) == (0, ())
    assert ended.at_ns <= 8 * SECOND
    down = levels[levels.index(3) :]
    assert down == sorted(down, reverse=True)
    sizes = [len(change.off) for change in scheduler.changes]
    assert max(sizes) == len(ORDER)
    assert all(change.off == ORDER[: len(change.off)] for change in scheduler.changes)


def test_while_nothing_runs_nobody_is_turned_away():
    scheduler = Scheduler(devices={"cpu": 1}, thresholds=Thresholds(depths=(1, 2, 3)))
    scheduler.add_model("m", Policy(), fixed_shape(50, 1))
    for i in range(200):
        each = request(i + 1, at_ms=i, budget_ms=51, priority=3)
        assert not isinstance(scheduler.submit(each, now_ns=i * MS), Rejected)


def test_a_cold_model_turns_nobody_away():
    scheduler = Scheduler(devices={"cpu": 1}, thresholds=Thresholds(depths=(1, 2, 3)))
    scheduler.add_model("m", Policy(), CostModel())
    scheduler.submit(request(1), now_ns=0)
    scheduler.poll(now_ns=0)
    for i in range(2, 200):
        each = request(i, at_ms=1, budget_ms=1, priority=3)
        assert not isinstance(scheduler.submit(each, now_ns=MS), Rejected)


def test_early_rejection_can_be_switched_off():
    seen, _ = play(phased((3.0, 2)), span=(0, 2), rejects_early=False)
    assert not seen.causes


def test_a_tenant_gets_its_rate_and_its_share_and_the_others_do_not_notice():
    allowances = {"rated": Allowance(rate=10), "shared": Allowance(share=0.1)}
    scheduler = Scheduler(devices={"cpu": 1}, allowances=allowances)
    scheduler.add_model("m", Policy(), fixed_shape(5, 1))
    causes = {"rated": Counter(), "shared": Counter(), "": Counter()}
    for i in range(300):
        for number, name in enumerate(causes):
            each = request(3 * i + number + 1, at_ms=i * 10, budget_ms=100, tenant=name)
            verdict = scheduler.submit(each, now_ns=each.arrival_ns)
            causes[name][getattr(verdict, "cause", None)] += 1
        for action in scheduler.poll(now_ns=i * 10 * MS):
            end_ns = i * 10 * MS + action.predicted_ns
            scheduler.complete(action.id, now_ns=end_ns, outcome=Done(action.predicted_ns))
    scheduler.check_integrity()
    assert causes[""][None] == 300
    assert causes["rated"][None] == pytest.approx(10 + 30, abs=2)  # a burst, and ten a second
    assert set(causes["rated"]) == {None, Cause.ALLOWANCE}
    assert causes["shared"][None] > 100


def test_a_tenant_that_fills_its_share_waits_until_its_own_work_is_done():
    scheduler = Scheduler(devices={"cpu": 1}, allowances={"a": Allowance(share=0.2)})
    scheduler.add_model("m", Policy(), fixed_shape(5, 1))
    verdicts = [
        scheduler.submit(request(i, budget_ms=100, tenant="a"), now_ns=0) for i in range(1, 40)
    ]
    refused = [each for each in verdicts if isinstance(each, Rejected)]
    assert 0 < len(refused) < 39
    assert {each.cause for each in refused} == {Cause.ALLOWANCE}
    (run,) = scheduler.poll(now_ns=0)
    scheduler.complete(run.id, now_ns=run.predicted_ns, outcome=Done(run.predicted_ns))
    again = request(99, at_ms=50, budget_ms=100, tenant="a")
    assert not isinstance(scheduler.submit(again, now_ns=50 * MS), Rejected)
    scheduler.check_integrity()
