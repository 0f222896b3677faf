"""Each comparison rule at literal instants."""

import pytest
from tests.support.core import MS, fixed_shape, request

from xirang.core.policy import Policy
from xirang.core.run import Run, Trigger
from xirang.lab.policies.deadlines import Nexus, Symphony
from xirang.lab.policies.delayed import EarlyBinding, FixedWindow, MeanLatency
from xirang.lab.policies.immediate import Buckets, Clipper, HeadFit
from xirang.lab.policies.rule import Queue, Rule


def queue(*requests, rule=None, instances=1, **fields):
    """A queue of a model whose runs take 5 ms and 1 ms a row."""
    policy = Policy(**({"max_batch_size": 8, "instances": instances} | fields))
    made = Queue(policy, fixed_shape(5, 1), list(range(instances)))
    rule = rule or Rule()
    made.waiting = sorted(requests, key=rule.key)
    for each in requests:
        rule.on_arrival(made, each)
    return made


def ids(plan):
    return [each.id for each in plan.requests]


def ended(requests, *, start_ms):
    return Run(
        id=1,
        model="m",
        instance=0,
        requests=tuple(requests),
        rows=len(requests),
        length=1,
        trigger=Trigger.WINDOW,
        start_ns=start_ms * MS,
        predicted_ns=0,
        window_ns=0,
        depth=0,
    )


def some(count, **fields):
    return [request(i, at_ms=i, **fields) for i in range(1, count + 1)]


def test_eager_takes_all_that_a_run_holds():
    plan = Rule().plan(queue(*some(12)), now_ns=20 * MS)
    assert plan.at_ns == 20 * MS
    assert ids(plan) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_run_keeps_rows_elements_and_group():
    mixed = [request(1, rows=3), request(2, rows=3, group="x"), request(3, rows=3, length=9)]
    assert ids(Rule().plan(queue(*mixed), now_ns=0)) == [1, 3]
    assert ids(Rule().plan(queue(*mixed, elements_max=20), now_ns=0)) == [1]
    assert ids(Rule().plan(queue(request(1, rows=30)), now_ns=0)) == [1]


def test_clipper_adds_one_and_takes_a_tenth():
    rule = Clipper(limit=4.0)
    run = ended(some(4, budget_ms=30), start_ms=10)
    rule.on_end(run, now_ns=20 * MS)
    assert rule.limit == 5.0
    rule.on_end(run, now_ns=41 * MS)
    assert rule.limit == pytest.approx(4.5)
    assert len(rule.plan(queue(*some(12)), now_ns=20 * MS).requests) == 4


def test_head_fit_shrinks_to_the_first_deadline():
    rule = HeadFit()
    waiting = queue(request(1, budget_ms=30), *some(7)[1:], rule=rule)
    assert len(rule.plan(waiting, now_ns=10 * MS).requests) == 7
    assert len(rule.plan(waiting, now_ns=22 * MS).requests) == 3
    assert len(rule.plan(waiting, now_ns=25 * MS).requests) == 1


def test_buckets_take_the_most_urgent_power_of_two():
    rule = Buckets()
    lengths = {1: 9, 2: 100, 3: 16, 4: 17, 5: 8}
    waiting = [request(id, at_ms=id, length=length) for id, length in lengths.items()]
    assert ids(rule.plan(queue(*waiting, rule=rule), now_ns=9 * MS)) == [1, 3]


def test_the_fixed_window_waits_its_delay_unless_a_preferred_size_is_there():
    rule = FixedWindow(delay_ns=5 * MS, preferred=(4, 2))
    assert rule.plan(queue(request(1, at_ms=3)), now_ns=4 * MS).at_ns == 8 * MS
    assert ids(rule.plan(queue(*some(3)), now_ns=4 * MS)) == [1, 2]
    plain = FixedWindow(delay_ns=5 * MS)
    assert plain.plan(queue(*some(3)), now_ns=4 * MS).at_ns == 6 * MS
    assert plain.plan(queue(*some(8)), now_ns=8 * MS).at_ns == 8 * MS


def test_the_fixed_window_has_strict_priorities():
    rule = FixedWindow(delay_ns=0)
    waiting = queue(request(1), request(2, at_ms=1, priority=1), rule=rule, max_batch_size=1)
    assert ids(rule.plan(waiting, now_ns=2 * MS)) == [2]


def test_early_binding_keeps_a_request_where_it_was_bound():
    rule = EarlyBinding(timeout_ns=5 * MS)
    waiting = queue(*some(4), rule=rule, instances=2)
    assert rule.held == {0: 2, 1: 2}
    waiting.free = [1]
    plan = rule.plan(waiting, now_ns=6 * MS)
    assert plan.instance == 1
    assert ids(plan) == [i for i in (1, 2, 3, 4) if rule.bound[i] == 1]
    rule.on_end(ended(some(1), start_ms=1), now_ns=9 * MS)
    assert rule.freed_ns == {0: 9 * MS}
    waiting.free = [0]
    assert rule.plan(waiting, now_ns=9 * MS).at_ns == 14 * MS  # the timeout begins anew


def test_early_binding_finds_nobody_for_a_replica_that_has_no_queue():
    rule = EarlyBinding(timeout_ns=5 * MS)
    waiting = queue(request(1), rule=rule, instances=2)
    waiting.free = [1 - rule.bound[1]]
    assert rule.plan(waiting, now_ns=6 * MS) is None


def test_mean_latency_waits_while_runs_have_waited_longer():
    rule = MeanLatency(wait_ns=20 * MS)
    plan = rule.plan(queue(*some(2, budget_ms=1000)), now_ns=3 * MS)
    # 2·(w + 1 + 1) ≤ 19 holds until the newest, of 2 ms, has waited 7.5 ms.
    assert plan.at_ns == pytest.approx(9.5 * MS, abs=1e5)
    assert rule.plan(queue(*some(8, budget_ms=1000)), now_ns=9 * MS).at_ns == 9 * MS


def test_mean_latency_gives_up_the_oldest_that_would_be_late():
    plan = MeanLatency().plan(queue(*some(3, budget_ms=10)), now_ns=4 * MS)
    assert [each.id for each in plan.drop] == [1]


def test_mean_latency_fits_its_line_to_runs():
    rule = MeanLatency()
    for count in (1, 2, 3, 4):
        rule.on_end(ended(some(count), start_ms=10), now_ns=(10 + 7 + 2 * count) * MS)
    row_ns, call_ns = rule.fitted
    assert row_ns == pytest.approx(2 * MS)
    assert call_ns == pytest.approx(7 * MS)
    assert rule.wait_ns == pytest.approx(8 * MS)  # of the newest of the first three runs


def test_nexus_gives_up_who_cannot_be_in_a_batch_of_the_target():
    rule = Nexus()
    # 2·(5 + b) ≤ 20 has b = 5, and a batch of five takes 10 ms.
    waiting = queue(*[request(i, at_ms=i / 2, budget_ms=20) for i in range(1, 12)], rule=rule)
    plan = rule.plan(waiting, now_ns=10 * MS)
    assert not plan.drop
    assert ids(plan) == [1, 2, 3, 4, 5]
    plan = rule.plan(waiting, now_ns=14 * MS)
    assert [each.id for each in plan.drop] == [1, 2, 3, 4, 5, 6, 7]
    assert ids(plan) == [8, 9, 10, 11]


def test_symphony_waits_for_the_frontrun():
    rule = Symphony()
    waiting = queue(*some(2, budget_ms=60), rule=rule)
    plan = rule.plan(waiting, now_ns=3 * MS)
    slower = 1 + waiting.cost.margin_wait()
    assert plan.at_ns == pytest.approx((61 - 8 * slower) * MS, abs=1e5)
    assert plan.rank_ns == pytest.approx((61 - 7 * slower) * MS, abs=1e5)
    full = queue(*some(8, budget_ms=60), rule=rule)
    assert rule.plan(full, now_ns=9 * MS).at_ns == 9 * MS
