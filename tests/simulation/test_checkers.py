"""The checkers catch what they are there for: each is shown a world that breaks its rule."""

import pytest
from tests.support.core import MS, learned, request

from xirang.core.policy import Policy
from xirang.core.run import Admitted, Rejected, Run, Trigger
from xirang.lab.checkers import (
    AnswersOnce,
    Broken,
    ExpiresOnlyTheHopeless,
    InstancesRunOneAtATime,
    NobodyWaitsInVain,
    RunsAreWellFormed,
)

POLICY = Policy(instances=2, max_batch_size=2, elements_max=20, window_ns_max=5 * MS)
POLICIES, DEVICES = {"m": POLICY}, {"cpu": 2}


def run_of(*requests, id=1, start_ns=0, **fields):
    values = {
        "model": "m",
        "instance": 0,
        "rows": sum(r.rows for r in requests),
        "length": max((r.length for r in requests), default=1),
        "trigger": Trigger.ALONE,
        "predicted_ns": 1,
        "window_ns": 0,
        "depth": 0,
    }
    return Run(id=id, requests=requests, start_ns=start_ns, **(values | fields))


def test_an_answer_to_nobody_breaks():
    checker = AnswersOnce()
    with pytest.raises(Broken, match="ran without waiting"):
        checker.on_start(run_of(request(1)))


def test_a_second_answer_breaks():
    checker = AnswersOnce()
    checker.on_arrival(request(1), Admitted())
    checker.on_start(run_of(request(1)))
    checker.on_end(run_of(request(1)), 5)
    with pytest.raises(Broken, match="answered twice"):
        checker.on_end(run_of(request(1)), 6)


def test_a_forgotten_request_breaks_at_the_end():
    checker = AnswersOnce()
    checker.on_arrival(request(1), Rejected("full", 0))
    checker.finish()
    checker.on_arrival(request(2), Admitted())
    with pytest.raises(Broken, match="wait for ever"):
        checker.finish()


ILL_FORMED = {
    "rows": run_of(request(1, rows=2), request(2)),
    "elements": run_of(request(1, length=11), request(2)),
    "groups": run_of(request(1, group="x"), request(2, group="y")),
    "sum": run_of(request(1), rows=3),
    "target": run_of(request(1, length=9), length=8),
    "models": run_of(request(1, model="other")),
}


@pytest.mark.parametrize("run", ILL_FORMED.values(), ids=ILL_FORMED)
def test_ill_formed_runs_break(run):
    with pytest.raises(Broken):
        RunsAreWellFormed(POLICIES).on_start(run)


def test_answers_out_of_order_break():
    checker = RunsAreWellFormed(POLICIES)
    checker.on_start(run_of(request(1), request(2)))
    with pytest.raises(Broken, match="order of the rows"):
        checker.on_end(run_of(request(2), request(1)), 5)


def test_an_instance_that_is_busy_or_skipped_breaks():
    checker = InstancesRunOneAtATime(POLICIES, DEVICES)
    with pytest.raises(Broken, match="lowest"):
        checker.on_start(run_of(request(1), instance=1))
    checker.on_start(run_of(request(1)))
    with pytest.raises(Broken, match="one at a time"):
        checker.on_start(run_of(request(2)))


def test_waiting_beyond_the_window_with_an_idle_instance_breaks():
    checker = NobodyWaitsInVain(POLICIES, DEVICES)
    checker.on_arrival(request(1), Admitted())
    checker.on_poll(5 * MS - 1)
    with pytest.raises(Broken, match="beyond its window"):
        checker.on_poll(5 * MS)


def test_an_early_expiry_and_a_late_start_break():
    checker = ExpiresOnlyTheHopeless({"m": learned(4 * MS)})
    checker.on_arrival(request(1, budget_ms=10), Admitted())
    checker.on_arrival(request(2, budget_ms=10), Admitted())
    with pytest.raises(Broken, match="slack left"):
        checker.on_expire(request(1), 6 * MS)
    with pytest.raises(Broken, match="after its latest start"):
        checker.on_start(run_of(request(2), start_ns=6 * MS + 1))


def test_only_who_binds_late_must_take_the_lowest_free_instance():
    run = run_of(request(1), instance=1)
    with pytest.raises(Broken, match="lowest free instance"):
        InstancesRunOneAtATime(POLICIES, DEVICES).on_start(run)
    InstancesRunOneAtATime(POLICIES, DEVICES, binds_late=False).on_start(run)
