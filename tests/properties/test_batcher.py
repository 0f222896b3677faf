"""Triton's batcher, which finds out late what was bound early, against one that binds at once."""

from dataclasses import dataclass, field

from hypothesis import given, settings, strategies as st
from tests.support.core import MS, request

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import NEVER_NS
from xirang.core.rules import BatcherRules
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
    cut: set = field(default_factory=set)  # batches that were ended by another shape
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

    def join(self, batch, now_ns):
        if batch is self.open:
            self.open = None
        while self.rules.delay_ns and self.bound and id(batch) not in self.cut:
            behind = self.bound[0]
            oldest_ns = min(each.arrival_ns for each in behind)
            if id(behind) in self.cut or now_ns - oldest_ns <= self.rules.delay_ns:
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
                self.cut.add(id(self.open))
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
