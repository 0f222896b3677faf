"""Which requests make the next run, from a backlog that goes on changing."""

import pytest
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.planner import Planner
from xirang.core.policy import Batching, Policy
from xirang.core.queueing.backlog import CONSIDERED_MAX, Backlog

TEXTS = learned(2e6, 0.0, 0.1e6)


class Bench:
    """A backlog with its planner."""

    def __init__(self, *requests, cost=TEXTS, **policy):
        made = Policy(**({"can_pad": True} | policy))
        self.backlog = Backlog(cost, age_ns_max=made.age_ns_max, is_shelved=made.is_shelved)
        self.planner = Planner(made, cost, self.backlog, parallelism=1)
        self.push(*requests)

    def push(self, *requests):
        for waiting in requests:
            self.backlog.push(waiting)
        self.planner.forget()

    def take(self, now_ms=0):
        group = self.planner.take(now_ns=int(now_ms * MS))
        self.backlog.check_integrity()
        return [r.id for r in group.requests]

    def take_all(self, now_ms=0):
        taken = []
        while len(self.backlog):
            taken.append(self.take(now_ms))
        return taken


def mixed(count, *, budget_ms=10_000):
    return [request(i, length=10 + 7 * (i % 40), budget_ms=budget_ms) for i in range(count)]


def test_the_run_of_the_most_urgent_goes_first():
    lengths = {0: 9, 1: 400, 2: 8, 3: 390}
    bench = Bench(*(request(i, length=n, budget_ms=1000 - i) for i, n in lengths.items()))
    assert bench.take_all() == [[3, 1], [2, 0]]


def test_runs_of_a_kept_plan_are_those_of_new_plans():
    kept, anew = Bench(*mixed(120)), Bench(*mixed(120))
    runs = []
    while len(anew.backlog):
        anew.planner.forget()
        runs.append(anew.take())
    assert kept.take_all() == runs


def test_who_comes_between_two_launches_is_in_the_next_plan():
    bench = Bench(request(0, length=10), request(1, length=300))
    assert bench.take() == [0]
    bench.push(request(2, length=300, at_ms=1))
    assert bench.take() == [1, 2]


def test_who_would_be_late_is_left_out_of_a_padded_run():
    # Three rows of 100 take 32 ms, two 22; the first is late in any of them.
    bench = Bench(*(request(i, length=100, budget_ms=ms) for i, ms in enumerate((13, 60, 60))))
    assert bench.take(now_ms=0.5) == [1, 2]


def test_a_full_line_of_the_late_does_not_hide_the_others():
    late = [request(i, budget_ms=20, length=1) for i in range(CONSIDERED_MAX)]
    young = [request(1000 + i, at_ms=12, budget_ms=20, length=1) for i in range(64)]
    bench = Bench(*late, *young, cost=fixed_shape(5, 0.25), can_pad=False, max_batch_size=64)
    # A full run ends at 12 + 21 ms: too late for all, but a smaller one is not for the young.
    taken = bench.take(now_ms=14.5)
    taken = bench.take(now_ms=14.5)
    assert all(id >= 1000 for id in taken)


def test_nobody_is_starved_for_being_long():
    bench = Bench()
    served_long, now_ms = 0, 0
    for turn in range(400):
        now_ms = turn * 10
        bench.push(
            request(10 * turn, at_ms=now_ms, budget_ms=200, length=400),
            *(request(10 * turn + i, at_ms=now_ms, budget_ms=200, length=10) for i in range(1, 9)),
        )
        served_long += any(id % 10 == 0 for id in bench.take(now_ms))
        while (pressing := bench.backlog.latest_start_ns()) < now_ms * MS:
            bench.backlog.remove(bench.backlog.most_pressing().id)
            bench.planner.forget()
            assert pressing > 0
            if not len(bench.backlog):
                break
    assert served_long > 0


@pytest.mark.parametrize("batching", [Batching.FIRST_COME, Batching.OFF])
def test_other_ways_of_batching_go_by_urgency(batching):
    bench = Bench(*(request(i, length=n) for i, n in enumerate((8, 400, 9))), batching=batching)
    expected = [[0], [1], [2]] if batching is Batching.OFF else [[0, 1, 2]]
    assert bench.take_all() == expected
