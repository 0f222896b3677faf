"""Whatever a server could do to the scheduler, in any order, checked at each step."""

from dataclasses import replace

from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.support.core import MS, learned

from xirang.core.admission.levels import Thresholds
from xirang.core.admission.switches import ORDER
from xirang.core.admission.tenants import Allowance
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Admitted, Done, Failed, Run
from xirang.core.scheduler import Scheduler
from xirang.lab.checkers import all_checkers

ALLOWANCES = {"rated": Allowance(rate=50), "shared": Allowance(share=0.1)}
DEVICES = {"one": 1, "two": 2}
POLICIES = {
    "pads": Policy(
        device="one", can_pad=True, max_batch_size=8, elements_max=300, efficiency=1.0, depth_max=20
    ),
    "fixed": Policy(device="one", max_batch_size=4, window_ns_max=30 * MS, depth_max=20),
    "first": Policy(
        device="two", instances=2, can_pad=True, batching=Batching.FIRST_COME, max_batch_size=6
    ),
    "alone": Policy(device="two", batching=Batching.OFF, efficiency=0.0, depth_max=20),
}


class SchedulerMachine(RuleBasedStateMachine):
    """Time goes on; requests come and go; runs end well or badly, in any order."""

    def __init__(self):
        super().__init__()
        self.now_ns = 0
        self.next_id = 1
        self.is_draining = False
        self.is_polled = True
        self.running = {}
        self.waiting = set()
        self.answered = set()
        costs = {name: learned(2e6, 1e5, 1e4) for name in POLICIES}
        costs["alone"] = CostModel()  # cold
        self.scheduler = Scheduler(
            devices=DEVICES, thresholds=Thresholds(depths=(4, 8, 12)), allowances=ALLOWANCES
        )
        for name, policy in POLICIES.items():
            self.scheduler.add_model(name, policy, costs[name])
        self.checkers = all_checkers(POLICIES, costs, DEVICES)

    def tell(self, what, *facts):
        for checker in self.checkers:
            getattr(checker, what)(*facts)

    @rule(
        model=st.sampled_from(sorted(POLICIES)),
        budget_ms=st.sampled_from([0, 1, 3, 10, 50, 1000]),
        priority=st.sampled_from([1, 2, 3]),
        rows=st.sampled_from([1, 1, 1, 2, 5, 12]),
        length=st.sampled_from([1, 8, 8, 30, 200, 400]),
        group=st.sampled_from(["x", "x", "x", "y"]),
        terms=st.tuples(
            st.sampled_from([0, 1, 2]),
            st.sampled_from(["", "", "rated", "shared"]),
            st.sampled_from([None, None, False, True]),
        ),
    )
    def submit(self, model, budget_ms, priority, rows, length, group, terms):
        deadline_ns = self.now_ns + budget_ms * MS
        request = Request(
            self.next_id, model, self.now_ns, deadline_ns, priority, rows, length, group
        )
        request.client, request.tenant, request.fast = terms
        self.next_id += 1
        verdict = self.scheduler.submit(request, now_ns=self.now_ns)
        self.tell("on_arrival", request, verdict)
        if isinstance(verdict, Admitted):
            assert not self.is_draining
            self.waiting.add(request.id)
        self.is_polled = False

    @precondition(lambda self: self.next_id > 1)
    @rule(draw=st.data())
    def cancel(self, draw):
        id = draw.draw(st.integers(1, self.next_id - 1))
        is_waiting = id in self.waiting
        assert self.scheduler.cancel(id, now_ns=self.now_ns) == is_waiting
        if is_waiting:
            self.waiting.remove(id)
            self.forget(id)
        self.is_polled = False

    def forget(self, id):
        once, _, _, in_vain, expiry = self.checkers
        once._waiting.remove(id)
        expiry._latest_ns.pop(id)
        for waiting in in_vain._waiting.values():
            waiting.pop(id, None)

    @rule(passed_us=st.sampled_from([0, 1, 300, 2_000, 9_000, 60_000]))
    def advance(self, passed_us):
        self.now_ns += passed_us * 1000
        self.is_polled = False

    @rule()
    def poll(self):
        for action in self.scheduler.poll(now_ns=self.now_ns):
            if isinstance(action, Run):
                self.tell("on_start", action)
                self.running[action.id] = action
                self.waiting -= {request.id for request in action.requests}
            else:
                self.tell("on_expire", action.request, self.now_ns)
                self.waiting.remove(action.request.id)
                self.answered.add(action.request.id)
        self.tell("on_poll", self.now_ns)
        self.is_polled = True

    @rule()
    def wake(self):
        wakeup_ns = self.scheduler.wakeup_ns()
        if wakeup_ns is not None:
            self.now_ns = max(self.now_ns, wakeup_ns)
        self.poll()

    @precondition(lambda self: self.running)
    @rule(draw=st.data(), outcome=st.sampled_from([Done(2 * MS), Done(40 * MS), Failed()]))
    def complete(self, draw, outcome):
        run_id = draw.draw(st.sampled_from(sorted(self.running)))
        run = self.running.pop(run_id)
        assert self.scheduler.complete(run_id, now_ns=self.now_ns, outcome=outcome) is run
        self.tell("on_end", run, self.now_ns)
        for request in run.requests:
            assert request.id not in self.answered
            self.answered.add(request.id)
        self.is_polled = False

    @precondition(lambda self: not self.is_draining)
    @rule(is_time=st.sampled_from([False] * 9 + [True]))
    def drain(self, is_time):
        if is_time:
            self.scheduler.drain()
            self.is_draining = True
            self.is_polled = False

    @invariant()
    def is_sound(self):
        self.scheduler.check_integrity()
        snapshot = self.scheduler.snapshot(now_ns=self.now_ns)
        waiting = sum(model.waiting + model.fast_waiting for model in snapshot.models)
        assert waiting == len(self.waiting)
        for device in snapshot.devices:
            assert 0 <= device.level <= 3
            assert 0 <= device.shed <= 1
            assert device.off == ORDER[: len(device.off)]
            assert device.fast_share >= 0
        assert sum(model.running for model in snapshot.models) == len(self.running)
        assert all(model.window_ns >= 0 and model.demand >= 0 for model in snapshot.models)

    @invariant()
    def wakes_in_the_future_after_a_poll(self):
        if self.is_polled:
            wakeup_ns = self.scheduler.wakeup_ns()
            assert wakeup_ns is None or wakeup_ns > self.now_ns
            assert wakeup_ns is not None or not self.waiting

    def teardown(self):
        self.scheduler.drain()
        for _ in range(10 * self.next_id):
            self.wake()
            for run in list(self.running.values()):
                self.running.pop(run.id)
                self.now_ns += MS
                self.scheduler.complete(run.id, now_ns=self.now_ns, outcome=Done(MS))
                self.tell("on_end", run, self.now_ns)
            if not self.waiting and not self.running:
                break
        assert not self.waiting
        self.checkers[0].finish()
        self.scheduler.check_integrity()


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)


WEIGHTS = st.sampled_from([0.0, 1.0, 1e4, 1e6])


@given(
    weights=st.tuples(WEIGHTS, WEIGHTS, WEIGHTS, WEIGHTS),
    policy=st.sampled_from(sorted(POLICIES)),
    asked=st.lists(
        st.tuples(
            st.sampled_from([0, 1_000, 5_000_000]),  # ns after the one before
            st.sampled_from([1, 1_000, 50_000_000, NEVER_NS]),  # budget
            st.sampled_from([1, 2, 3]),
            st.sampled_from([1, 3, 12]),
            st.sampled_from([1, 8, 400]),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_whatever_law_was_learned_every_decision_can_be_made(weights, policy, asked):
    """A law may find that calls, rows or elements cost nothing: no decision divides by them."""
    cost = CostModel.of(replace(learned(2e6, 1e5, 1e4).state(), weights=weights))
    scheduler = Scheduler(devices=DEVICES)
    scheduler.add_model("m", POLICIES[policy], cost)
    now_ns, running, answered = 0, {}, 0
    for id, (gap_ns, budget_ns, priority, rows, length) in enumerate(asked, 1):
        now_ns += gap_ns
        request = Request(id, "m", now_ns, now_ns + budget_ns, priority, rows, length)
        answered += not isinstance(scheduler.submit(request, now_ns=now_ns), Admitted)
        answered += _carry_out(scheduler.poll(now_ns=now_ns), running)
        scheduler.snapshot(now_ns=now_ns)
    while answered < len(asked):
        for run_id in list(running):
            del running[run_id]
            scheduler.complete(run_id, now_ns=now_ns, outcome=Done(1))
        answered += _carry_out(scheduler.poll(now_ns=now_ns), running)
        if not running:
            now_ns = max(now_ns, scheduler.wakeup_ns() or 0)
        scheduler.check_integrity()


def _carry_out(actions, running):
    """How many were answered or are about to be."""
    count = 0
    for action in actions:
        if isinstance(action, Run):
            running[action.id] = action
            count += len(action.requests)
        else:
            count += 1
    return count
