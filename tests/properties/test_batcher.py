"""Triton's batcher, which finds out late what was bound early, against one that binds at once."""

from dataclasses import dataclass, field

from hypothesis import given, settings, strategies as st
from tests.support.core import MS, request

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import NEVER_NS
from xirang.core.rules import BatcherRules, QueueRules
from xirang.core.run import Done, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.core.scheduling.reach import Held, reach
from xirang.lab.simulator import Law, Service, Silent, Simulator

ROWS_MAX = 6


@dataclass
class Eager:
    """A thread that looks at the queue whenever somebody comes, a run ends or a delay is over."""

    rules: BatcherRules
    instances: int
    run_ns: int
    queue: list = field(default_factory=list)
    bound: list = field(default_factory=list)
    open: list | None = None
    cut: list = field(default_factory=list)  # batches that were ended by another shape
    ends_ns: list = field(default_factory=list)
    again_ns: int = NEVER_NS
    runs: list = field(default_factory=list)

    def play(self, requests):
        coming = list(requests)
        while coming or self.queue or self.bound or self.ends_ns:
            arrival_ns = coming[0].arrival_ns if coming else NEVER_NS
            now_ns = min(arrival_ns, self.again_ns, *self.ends_ns, NEVER_NS)
            if self.again_ns <= now_ns:
                self.bind(now_ns)
            if arrival_ns == now_ns:
                self.queue.append(coming.pop(0))
                self.bind(now_ns)
            self.ends_ns = [end_ns for end_ns in self.ends_ns if end_ns > now_ns]
            self.start(now_ns)
        return self.runs

    def start(self, now_ns):
        self.bind(now_ns)
        while self.bound and len(self.ends_ns) < self.instances:
            batch = self.bound.pop(0)
            self.join(batch, now_ns)
            self.runs.append((now_ns, [each.id for each in batch]))
            self.ends_ns.append(now_ns + self.run_ns)
            self.bind(now_ns)

    def is_cut(self, batch):
        return any(batch is each for each in self.cut)

    def join(self, batch, now_ns):
        if batch is self.open:
            self.open = None
        while self.rules.delay_ns and self.bound and not self.is_cut(batch):
            behind = self.bound[0]
            oldest_ns = min(each.arrival_ns for each in behind)
            if self.is_cut(behind) or now_ns - oldest_ns <= self.rules.delay_ns:
                return
            if behind is self.open:
                self.open = None
            rows = sum(each.rows for each in batch + behind)
            if rows > ROWS_MAX or behind[0].group != batch[0].group:
                return
            batch += self.bound.pop(0)

    def bind(self, now_ns):
        self.again_ns = NEVER_NS
        most = 1 if len(self.ends_ns) < self.instances else 2 * self.instances
        while self.queue and len(self.bound) < most:
            held = Held()
            if self.open is not None:
                held = Held(sum(each.rows for each in self.open), self.open[0].group)
            found = reach(self.queue, self.rules, rows_max=ROWS_MAX, held=held, now_ns=now_ns)
            if found.again_ns is not None:
                self.again_ns = found.again_ns
                return
            if found.taken and self.open is None:
                self.open = []
                self.bound.append(self.open)
            if found.is_cut and self.open is not None:
                self.cut.append(self.open)
            if self.open is not None:
                self.open += self.queue[: found.taken]
            del self.queue[: found.taken]
            if found.is_closed:
                self.open = None
            elif not found.taken:
                return


class Starts(Silent):
    def __init__(self):
        self.runs = []

    def on_start(self, run):
        self.runs.append((run.start_ns, [each.id for each in run.requests]))


COMING = st.lists(
    st.tuples(st.integers(1, 12), st.integers(1, 4), st.sampled_from("aaab")), max_size=30
)
RULES = st.builds(
    BatcherRules,
    preferred=st.sets(st.integers(1, ROWS_MAX), max_size=3).map(sorted).map(tuple),
    delay_ns=st.sampled_from([0, 4, 11, 40]).map(lambda ms: ms * MS),
)


@settings(max_examples=300, deadline=None)
@given(COMING, RULES, st.integers(1, 3), st.integers(1, 60))
def test_runs_are_those_of_a_batcher_that_never_waits_to_look(coming, rules, instances, run_ms):
    requests, at_ms = [], 0
    for id, (gap_ms, rows, group) in enumerate(coming):
        at_ms += gap_ms
        requests.append(request(id, at_ms=at_ms + id / 1000, rows=rows, group=group))
        requests[-1].deadline_ns = NEVER_NS
    run_ns = run_ms * MS + MS // 2  # nothing ever happens at the same instant as another
    starts = Starts()
    policy = Policy(
        instances=instances, max_batch_size=ROWS_MAX, rejects_early=False, batcher=rules
    )
    model = (policy, CostModel(), Service(Law(call_ns=run_ns)))
    simulator = Simulator({"m": model}, devices={"cpu": instances}, watchers=[starts])
    simulator.run(requests)
    simulator.scheduler.check_integrity()
    assert starts.runs == Eager(rules, instances, run_ns).play(requests)


ALL_RULES = st.builds(
    BatcherRules,
    preferred=st.sampled_from([(), (2,), (2, 4)]),
    delay_ns=st.sampled_from([0, 7 * MS]),
    levels=st.sampled_from([0, 3]),
    level_default=st.just(2),
    queue=st.builds(
        QueueRules,
        timeout_ns=st.sampled_from([0, 9 * MS]),
        is_kept=st.booleans(),
        depth_max=st.sampled_from([0, 3]),
    ),
    held=st.sampled_from([0, 2]),
)


class House:
    """A model under rules and an ordinary one on one device; each call is a step of a test."""

    def __init__(self, rules):
        self.rules = rules
        self.scheduler = Scheduler(devices={"cpu": 1})
        policy = Policy(instances=2, max_batch_size=4, rejects_early=False, batcher=rules)
        self.scheduler.add_model("m", policy, CostModel())
        self.scheduler.add_model("other", Policy(max_batch_size=4), CostModel())
        self.now_ns = 0
        self.waiting, self.running, self.ended = {}, [], []

    def come(self, id, draw):
        # The head of one who comes in may have been there before that of one who is in already.
        came_ns = max(0, self.now_ns - draw(st.integers(0, 4)) * MS)
        came = request(
            id,
            model=draw(st.sampled_from(["m", "m", "other"])),
            priority=draw(st.integers(1, 3)),
            rows=draw(st.integers(1, 3)),
            group=draw(st.booleans()),
        )
        came.arrival_ns = came_ns
        came.deadline_ns = came_ns + (self.rules.queue.timeout_ns or NEVER_NS)
        if not isinstance(self.scheduler.submit(came, now_ns=self.now_ns), Rejected):
            self.waiting[id] = came

    def leave(self, draw):
        if self.waiting:
            gone = draw(st.sampled_from(sorted(self.waiting)))
            assert self.scheduler.cancel(gone, now_ns=self.now_ns)
            del self.waiting[gone]

    def end(self):
        if self.running:
            run = self.running.pop(0)
            self.scheduler.complete(run, now_ns=self.now_ns, outcome=Done(MS))

    def poll(self):
        for action in self.scheduler.poll(now_ns=self.now_ns):
            left = action.requests if isinstance(action, Run) else [action.request]
            if isinstance(action, Run):
                self.running.append(action.id)
            for each in left:
                self.ended.append(each.id)
                del self.waiting[each.id]
        self.scheduler.check_integrity()


@settings(max_examples=200, deadline=None)
@given(ALL_RULES, st.data())
def test_everybody_is_answered_once_whoever_comes_leaves_or_shares_the_device(rules, data):
    house, draw = House(rules), data.draw
    for id in range(draw(st.integers(1, 25))):
        house.now_ns += draw(st.integers(0, 5)) * MS
        step = draw(st.sampled_from(["come", "come", "come", "leave", "end"]))
        if step == "come":
            house.come(id, draw)
        elif step == "leave":
            house.leave(draw)
        else:
            house.end()
        if draw(st.booleans()):
            house.poll()
    house.scheduler.drain()
    while house.waiting or house.running:
        house.now_ns += MS
        house.poll()
        house.end()
    assert len(set(house.ended)) == len(house.ended)
