"""The fast lane: never kept for company, held up by one short run at most, and never all of it."""

from heapq import merge
from itertools import takewhile

import pytest
from tests.support.simulated import GPU, GPU_CAPACITY, MINILM, MS

from xirang.core.policy import Policy
from xirang.core.run import Admitted, Trigger
from xirang.core.scheduling.fast import WAIT_CALLS
from xirang.lab.simulator import Service, Silent, Simulator
from xirang.lab.simulator_result import quantile
from xirang.lab.workload import Choice, Demands, Lognormal, Poisson, Workload

SECONDS = 8
TEXTS = Lognormal(30, 0.92, 3, 60)
"""Short enough for the shortest bound below: a text that is longer runs alone, uncut."""
TEXTS_CAPACITY = 190
LENGTHS = {GPU: Choice((1,)), MINILM: TEXTS}


class Seen(Silent):
    """What became of fast requests and of the others."""

    def __init__(self):
        self.fast_ns, self.fast_device_ns, self.normal = [], 0, 0
        self.first_waits, self.blocking_ns, self.running = [], [], {}
        self.turned_away = 0
        self.end_ns = 0

    def on_arrival(self, request, verdict):
        if request.fast:
            self.turned_away += not isinstance(verdict, Admitted)
            self.blocking_ns.append([run.predicted_ns for run in self.running.values()])

    def on_start(self, run):
        self.running[run.id] = run
        if run.trigger is Trigger.FAST:
            assert all(request.fast for request in run.requests)
            assert run.window_ns == 0

    def on_end(self, run, now_ns):
        del self.running[run.id]
        self.end_ns = now_ns
        if run.trigger is Trigger.FAST:
            self.fast_device_ns += now_ns - run.start_ns
        for request in run.requests:
            if request.fast:
                self.fast_ns.append(now_ns - request.arrival_ns)
            else:
                self.normal += request.length * (now_ns <= request.deadline_ns)


def stream(rate, *, seed, fast, **demands):
    workload = Workload(Poisson(rate), Demands(**demands))
    for request in takewhile(
        lambda each: each.arrival_ns < SECONDS * 1000 * MS, workload.requests(seed=seed)
    ):
        request.fast = fast
        yield request


def play(law, *, fast_rate, load=1.2, **policy):
    """Normal requests at more than the capacity, and some fast ones."""
    capacity = GPU_CAPACITY if law is GPU else TEXTS_CAPACITY
    budgets = {"budgets_ns": Choice((1000 * MS,)), "lengths": LENGTHS[law]}
    fast = {"budgets_ns": Choice((300 * MS,)), "lengths": Choice((1 if law is GPU else 16,))}
    streams = [stream(load * capacity, seed=1, fast=False, **budgets)]
    if fast_rate:
        streams.append(stream(fast_rate, seed=2, fast=True, **fast))
    requests = list(merge(*streams, key=lambda each: each.arrival_ns))
    for id, each in enumerate(requests, 1):
        each.id = id
    rows_max = 64 if law is GPU else 128
    made = Policy(
        can_pad=law is MINILM, elements_max=2048, max_batch_size=rows_max, depth_max=10**6, **policy
    )
    cost = law.learned(rows_max=rows_max, lengths=[1] if law is GPU else [8, 32, 128, 512])
    seen = Seen()
    simulator = Simulator(
        {"model": (made, cost, Service(law))}, devices={"cpu": 1}, watchers=(seen,)
    )
    simulator.run(iter(requests))
    simulator.scheduler.check_integrity()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("law", [GPU, MINILM], ids=["images", "texts"])
def test_a_fast_request_waits_for_one_sub_run_and_the_others_keep_nine_tenths(law):
    before = play(law, fast_rate=0)
    seen = play(law, fast_rate=8)
    sub_run_ns = max(WAIT_CALLS * law.call_ns, 21 * MS if law is GPU else 0)
    own_ns = law.run_ns(rows=1, length=1 if law is GPU else 16)
    assert len(seen.fast_ns) > 40
    assert quantile(sorted(seen.fast_ns), 0.99) <= sub_run_ns + own_ns + 3 * MS
    assert seen.normal >= 0.90 * before.normal
    assert seen.turned_away == 0


@pytest.mark.slow
def test_a_longest_wait_that_is_set_is_kept():
    seen = play(MINILM, fast_rate=8, fast_wait_ns=15 * MS)
    longest = [max(each, default=0) for each in seen.blocking_ns]
    # The first fast request comes before any was expected.
    assert max(longest[1:]) <= 15 * MS


@pytest.mark.slow
def test_beyond_its_share_the_fast_lane_waits_with_the_others():
    seen = play(GPU, fast_rate=2 * GPU_CAPACITY, load=0.5, fast_share=0.3)
    assert seen.fast_device_ns / seen.end_ns <= 0.4
    assert seen.normal > 0


def test_on_a_quiet_device_a_fast_request_is_answered_as_if_alone():
    seen = play(GPU, fast_rate=8, load=0.001, window_ns_max=100 * MS)
    assert quantile(sorted(seen.fast_ns), 0.5) == pytest.approx(GPU.run_ns(rows=1, length=1))
