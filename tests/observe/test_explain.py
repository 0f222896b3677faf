"""An explanation says what the scheduler decided: held against decisions on a virtual clock."""

import pytest

from xirang.core.cost import CostModel, Sample
from xirang.core.event import RunEnded
from xirang.core.policy import Batching, Policy
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Done, Failed, Run, Trigger
from xirang.core.scheduler import Scheduler
from xirang.observe.explain import explain, explain_id

MS = 1_000_000


def learned():
    cost = CostModel()
    grid = [(rows, length) for rows in (1, 8, 32) for length in (1, 8, 64)]
    cost.fit([Sample(r, n, 2 * MS + 20_000 * r * n) for r, n in grid])
    return cost


def decided():
    """Requests one after another: the runs as decided, the events about them, the lanes."""
    scheduler = Scheduler(devices={"cpu": 1})
    policy = Policy(can_pad=True, batching=Batching.OPTIMAL, max_batch_size=8)
    scheduler.add_model("m", policy, learned())
    arrivals = [(0, 9), (1, 3), (2, 5), (2, 8), (3, 2), (9, 4), (9, 4)]
    facts = [(at * MS, id, length) for id, (at, length) in enumerate(arrivals, 1)]
    now_ns, runs, events, running, filed = 0, [], [], None, {}
    while facts or running or scheduler.wakeup_ns() is not None:
        due = [facts[0][0]] if facts else []
        due += [running.start_ns + running.predicted_ns + MS] if running else []
        due += [scheduler.wakeup_ns()] if scheduler.wakeup_ns() is not None else []
        now_ns = max(now_ns, min(due))
        if running and running.start_ns + running.predicted_ns + MS <= now_ns:
            done = Done(running.predicted_ns + MS, assemble_ns=30_000, split_ns=20_000)
            scheduler.complete(running.id, now_ns=now_ns, outcome=done)
            running = None
        while facts and facts[0][0] <= now_ns:
            at_ns, id, length = facts.pop(0)
            request = Request(id, "m", at_ns, at_ns + 80 * MS, length=length)
            scheduler.submit(request, now_ns=now_ns)
            filed[id] = lane_of(scheduler, filed)
        for run in scheduler.poll(now_ns=now_ns):
            assert isinstance(run, Run)
            runs.append(run)
            running = run
        events += [e for e in scheduler.drain_events() if isinstance(e, RunEnded)]
    return runs, events, filed


def lane_of(scheduler, filed):
    """Priority and cost class of the lane that the latest request went into."""
    lanes = scheduler._models["m"].backlog._lanes
    (key,) = [key for key, lane in lanes.items() for each in lane if each.id not in filed]
    return key


def test_the_explanation_equals_the_decision():
    runs, events, filed = decided()
    assert [event.run for event in events] == runs
    assert sum(len(run.requests) for run in runs) == 7
    assert any(len(run.requests) > 1 for run in runs), "company is what there is to explain"
    assert any(run.threshold_ns for run in runs)
    for event in events:
        run = event.run
        for request in run.requests:
            told = explain(event, request)
            assert (told.run, told.trigger, told.instance) == (run.id, run.trigger.value, 0)
            assert told.window_ms == pytest.approx(run.window_ns / MS, abs=1e-4)
            assert told.threshold_ms == pytest.approx(run.threshold_ns / MS, abs=1e-4)
            assert told.level == run.level == 0
            assert (told.priority, told.cost_class) == filed[request.id]
            assert told.left_behind == run.depth
            queue_ns = run.start_ns - request.arrival_ns
            assert told.queue_ms == pytest.approx(queue_ns / MS, abs=1e-4)
            assert told.predicted_ms == pytest.approx(run.predicted_ns / MS, abs=1e-4)
            assert told.ran_ms == pytest.approx(run.predicted_ns / MS + 1, abs=1e-4)
            assert told.budget_ms == 80
            parts_ms = told.queue_ms + told.ran_ms + told.handover_ms
            assert told.total_ms == pytest.approx(parts_ms, abs=1e-3)
            slack_ns = request.deadline_ns - run.start_ns - run.predicted_ns
            assert told.slack_ms == pytest.approx(slack_ns / MS, abs=1e-4)
            assert (told.mates, told.batch_rows) == (len(run.requests) - 1, run.rows)
            assert (told.length, told.target_length) == (request.length, run.length)
            assert told.padding_share == pytest.approx(1 - request.length / run.length, abs=1e-4)


def test_shares_of_device_time_add_up_to_the_run():
    _, events, _ = decided()
    for event in events:
        told = [explain(event, request) for request in event.run.requests]
        assert sum(each.device_share for each in told) == pytest.approx(1, abs=1e-3)
        assert sum(each.device_ms for each in told) == pytest.approx(told[0].ran_ms, rel=1e-3)


def test_a_request_without_a_budget_has_no_slack():
    request = Request(1, "m", 0, NEVER_NS)
    run = Run(1, "m", 0, (request,), 1, 1, Trigger.ALONE, MS, MS, 0, 0)
    told = explain(RunEnded(run, Done(MS), 2 * MS), request)
    assert told.budget_ms is told.slack_ms is None


def test_a_run_without_padding_has_none_to_tell_of():
    requests = Request(1, "m", 0, 10 * MS, length=2), Request(2, "m", 0, 10 * MS, length=6)
    run = Run(1, "m", 0, requests, 2, 6, Trigger.ALONE, MS, MS, 0, 0, is_ragged=True)
    told = explain(RunEnded(run, Done(MS), 2 * MS), requests[0])
    assert (told.padding_share, told.device_share) == (0, 0.25)


def test_who_is_guilty_was_not_answered():
    requests = Request(1, "m", 0, 10 * MS), Request(2, "m", 0, 10 * MS)
    run = Run(1, "m", 0, requests, 2, 1, Trigger.ALONE, MS, MS, 0, 0)
    event = RunEnded(run, Failed((2,)), 5 * MS)
    assert [explain(event, request).is_answered for request in requests] == [True, False]
    assert explain(event, requests[0]).ran_ms == 4
    assert explain_id(event, 2) == explain(event, requests[1])
    assert explain_id(event, 3) is None


def test_a_request_has_its_share_of_the_memory_if_that_is_known():
    requests = Request(1, "m", 0, 10 * MS, length=2), Request(2, "m", 0, 10 * MS, length=6)
    run = Run(1, "m", 0, requests, 2, 6, Trigger.ALONE, MS, MS, 0, 0)
    known = RunEnded(run, Done(MS, memory_bytes=8 << 20), 2 * MS)
    assert [explain(known, each).memory_mib for each in requests] == [2, 6]
    assert explain(known, requests[0]).as_json()["memory_mib"] == 2
    unknown = explain(RunEnded(run, Done(MS), 2 * MS), requests[0])
    assert unknown.memory_mib is None
    assert "memory_mib" not in unknown.as_json()
