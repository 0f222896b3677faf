"""The scheduler at literal instants: what it decides, when it wants to be polled, what it tells."""

import pytest
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.cost import CostModel
from xirang.core.event import (
    RequestCancelled,
    RequestExpired,
    RequestRejected,
    RunEnded,
)
from xirang.core.policy import Batching, Policy
from xirang.core.run import Admitted, Done, Expire, Failed, Rejected, Trigger
from xirang.core.scheduler import Scheduler


class Bench:
    """One scheduler, told and asked in milliseconds."""

    def __init__(self, *, devices=None, models=None, **policy):
        self.scheduler = Scheduler(devices=devices or {"cpu": 1})
        for name, (made, cost) in (models or {"m": (Policy(**policy), fixed_shape(5, 1))}).items():
            self.scheduler.add_model(name, made, cost)

    def submit(self, *requests):
        verdicts = [self.scheduler.submit(r, now_ns=r.arrival_ns) for r in requests]
        self.scheduler.check_integrity()
        return verdicts[-1]

    def poll(self, now_ms):
        actions = self.scheduler.poll(now_ns=int(now_ms * MS))
        self.scheduler.check_integrity()
        return actions

    def ids(self, now_ms):
        return [[r.id for r in run.requests] for run in self.poll(now_ms)]

    def complete(self, run, now_ms, outcome=None):
        now_ns = int(now_ms * MS)
        outcome = outcome or Done(now_ns - run.start_ns)
        ended = self.scheduler.complete(run.id, now_ns=now_ns, outcome=outcome)
        self.scheduler.check_integrity()
        return ended

    def wakeup_ms(self):
        wakeup_ns = self.scheduler.wakeup_ns()
        return None if wakeup_ns is None else wakeup_ns / MS


def test_an_idle_server_answers_a_lone_request_at_once():
    bench = Bench()
    assert bench.submit(request(1)) == Admitted()
    (run,) = bench.poll(0)
    assert (run.instance, run.rows, run.length, run.trigger) == (0, 1, 1, Trigger.ALONE)
    assert (run.start_ns, run.predicted_ns, run.depth) == (0, 6 * MS, 0)
    assert bench.wakeup_ms() is None


def test_requests_that_come_while_the_device_is_busy_form_the_next_run():
    bench = Bench(efficiency=0.0)
    bench.submit(request(1))
    (run,) = bench.poll(0)
    bench.submit(request(2, at_ms=1), request(3, at_ms=2), request(4, at_ms=3))
    assert bench.poll(3) == []
    bench.complete(run, 6)
    assert bench.ids(6) == [[2, 3, 4]]


def test_a_run_holds_at_most_the_configured_rows():
    bench = Bench(max_batch_size=4, efficiency=0.0)
    bench.submit(request(1, rows=2), request(2, rows=2), request(3))
    (run,) = bench.poll(0)
    assert ([r.id for r in run.requests], run.trigger, run.depth) == ([1, 2], Trigger.THRESHOLD, 1)
    bench.complete(run, 9)
    assert bench.ids(9) == [[3]]


def test_a_request_larger_than_the_maximum_runs_alone():
    bench = Bench(max_batch_size=4)
    bench.submit(request(1, rows=9), request(2))
    assert bench.ids(0) == [[1]]


def busy_stream(bench, *, count=120, gap_ms=4):
    """Teach it that company comes every few ms."""
    for i in range(count):
        bench.submit(request(1000 + i, at_ms=i * gap_ms, budget_ms=10_000))
    for (run,) in iter(lambda: bench.poll(2000), []):
        bench.complete(run, 2000, Done(run.predicted_ns))
    bench.scheduler.drain_events()


def test_with_company_expected_a_request_is_kept_for_the_window():
    bench = Bench(efficiency=1.0, window_ns_max=20 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=500))
    assert bench.poll(5000) == []
    assert bench.wakeup_ms() == 5020
    assert bench.poll(5019.9) == []
    (run,) = bench.poll(5020)
    assert (run.trigger, run.window_ns) == (Trigger.WINDOW, 20 * MS)


def test_the_window_is_counted_from_the_oldest_arrival():
    bench = Bench(efficiency=1.0, window_ns_max=20 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=500), request(2, at_ms=5015, budget_ms=500))
    bench.poll(5015)
    assert bench.wakeup_ms() == 5020
    assert bench.ids(5020) == [[1, 2]]


def test_a_cancelled_oldest_request_takes_its_window_with_it():
    bench = Bench(efficiency=1.0, window_ns_max=20 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=500), request(2, at_ms=5015, budget_ms=500))
    assert bench.scheduler.cancel(1, now_ns=5016 * MS)
    bench.poll(5016)
    assert bench.wakeup_ms() == 5035


def test_a_deadline_ends_the_wait_before_the_window_does():
    bench = Bench(efficiency=1.0, window_ns_max=500 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=50))
    bench.poll(5000)
    margin = 1 + bench.scheduler._models["m"].cost.margin_wait()
    # Two rows take 7 ms; they must be done at 5050, slow as they may be.
    assert bench.wakeup_ms() == pytest.approx(5050 - 7 * margin, abs=0.6)
    (run,) = bench.poll(bench.wakeup_ms())
    assert run.trigger is Trigger.DEADLINE


def test_efficiency_zero_never_waits_on_an_idle_device():
    bench = Bench(efficiency=0.0, window_ns_max=500 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=500))
    assert bench.ids(5000) == [[1]]


def test_an_expired_request_leaves_while_the_device_is_busy():
    bench = Bench()
    bench.submit(request(1))
    bench.poll(0)
    late = request(2, at_ms=1, budget_ms=20)
    bench.submit(late)
    # Alone it takes 6 ms, so at 15 its slack is gone and at the next instant it expires.
    assert bench.wakeup_ms() == pytest.approx(15, abs=0.01)
    assert bench.poll(14.9) == []
    assert bench.poll(15.1) == [Expire(late)]
    assert bench.wakeup_ms() is None


def test_a_cold_model_expires_nobody_before_the_deadline():
    bench = Bench(models={"m": (Policy(), CostModel())})
    bench.submit(request(1))
    bench.poll(0)
    late = request(2, at_ms=0, budget_ms=20)
    bench.submit(late)
    assert bench.poll(20) == []
    assert bench.scheduler.wakeup_ns() == 20 * MS + 1
    assert bench.scheduler.poll(now_ns=20 * MS + 1) == [Expire(late)]


def test_a_cancelled_request_never_runs():
    bench = Bench()
    bench.submit(request(1))
    assert bench.scheduler.cancel(1, now_ns=MS)
    assert bench.poll(1) == []
    assert not bench.scheduler.cancel(1, now_ns=MS)
    assert bench.wakeup_ms() is None


def test_a_running_request_cannot_be_cancelled():
    bench = Bench()
    bench.submit(request(1))
    bench.poll(0)
    assert not bench.scheduler.cancel(1, now_ns=MS)


def test_the_queue_has_a_bound():
    bench = Bench(depth_max=2)
    bench.submit(request(1), request(2))
    verdict = bench.submit(request(3))
    assert isinstance(verdict, Rejected)
    assert "2 requests wait, at most 2 may" in verdict.reason
    assert verdict.retry_after_ns == pytest.approx(2 * MS, abs=10)  # two rows of 1 ms


def test_draining_admits_nobody_and_keeps_nobody_waiting():
    bench = Bench(efficiency=1.0, window_ns_max=500 * MS)
    busy_stream(bench)
    bench.submit(request(1, at_ms=5000, budget_ms=900))
    assert bench.poll(5000) == []
    bench.scheduler.drain()
    assert isinstance(bench.submit(request(2, at_ms=5001)), Rejected)
    (run,) = bench.poll(5001)
    assert run.trigger is Trigger.DRAIN


def test_instances_fill_from_the_lowest_number():
    bench = Bench(devices={"cpu": 3}, instances=3, batching=Batching.OFF)
    bench.submit(*(request(i) for i in range(4)))
    runs = bench.poll(0)
    assert [run.instance for run in runs] == [0, 1, 2]
    bench.complete(runs[1], 6)
    assert [run.instance for run in bench.poll(6)] == [1]


def test_models_on_one_device_take_turns_by_deadline():
    policy = Policy(efficiency=0.0)
    bench = Bench(models={name: (policy, fixed_shape(5, 1)) for name in "ab"})
    bench.submit(request(1, model="a", budget_ms=200), request(2, model="b", budget_ms=100))
    (run,) = bench.poll(0)
    assert run.model == "b"
    bench.complete(run, 6)
    assert [run.model for run in bench.poll(6)] == ["a"]


def test_devices_do_not_wait_for_each_other():
    models = {name: (Policy(device=name), fixed_shape(5, 1)) for name in ("one", "two")}
    bench = Bench(devices={"one": 1, "two": 1}, models=models)
    bench.submit(request(1, model="one"), request(2, model="two"))
    assert [run.model for run in bench.poll(0)] == ["one", "two"]


def test_groups_do_not_share_a_run():
    bench = Bench(efficiency=0.0)
    bench.submit(request(1, group="x"), request(2, group="y"), request(3, group="x"))
    (run,) = bench.poll(0)
    assert [r.id for r in run.requests] == [1, 3]
    bench.complete(run, 7)
    assert bench.ids(7) == [[2]]


def test_a_long_outlier_runs_apart_and_short_ones_together():
    cost = learned(2.07e6, 0.0, 0.132e6, 120.0)
    bench = Bench(models={"m": (Policy(can_pad=True, efficiency=0.0), cost)})
    lengths = (8, 400, 9, 8)
    bench.submit(*(request(i, length=n, budget_ms=1000) for i, n in enumerate(lengths)))
    (run,) = bench.poll(0)
    assert sorted(r.id for r in run.requests) == [0, 2, 3]
    assert (run.length, run.elements, run.padding) == (9, 27, 2)
    bench.complete(run, 10)
    assert bench.ids(10) == [[1]]


def test_a_done_run_teaches_and_a_failed_one_does_not():
    bench = Bench()
    cost = bench.scheduler._models["m"].cost
    seen = cost.observations
    for outcome, taught in ((Failed(), 0), (Done(6 * MS), 1)):
        bench.submit(request(taught))
        (run,) = bench.poll(0)
        assert bench.complete(run, 6, outcome) is run
        assert cost.observations == seen + taught


def test_events_tell_what_happened_once():
    bench = Bench(depth_max=2)
    first, second, third = request(1), request(2, budget_ms=15), request(3)
    bench.submit(first)
    (run,) = bench.poll(0)
    bench.submit(second, third)
    rejected = request(4)
    verdict = bench.submit(rejected)
    bench.scheduler.cancel(3, now_ns=2 * MS)
    bench.poll(12)
    bench.complete(run, 20, Failed())
    assert bench.scheduler.drain_events() == [
        RequestRejected(rejected, verdict.reason),
        RequestCancelled(third, 2 * MS),
        RequestExpired(second, 12 * MS),
        RunEnded(run, Failed(), 20 * MS),
    ]
    assert bench.scheduler.drain_events() == []


def test_snapshot_shows_what_waits_and_runs():
    bench = Bench()
    bench.submit(request(1))
    bench.poll(0)
    bench.submit(request(2, rows=2, priority=1), request(3))
    (model,) = bench.scheduler.snapshot(now_ns=0).models
    assert (model.model, model.waiting, model.running) == ("m", 2, 1)
    assert model.work_ns == pytest.approx(3 * MS, abs=10)
    assert [(lane.priority, lane.rows) for lane in model.lanes] == [(1, 2), (2, 1)]
    assert model.threshold_ns == pytest.approx(50 * MS, abs=100)
    assert 0 < model.demand < 1
    assert 0 <= model.window_ns <= 2_500_000
