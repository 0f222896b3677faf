"""The scheduler at literal instants: what it decides, when it wants to be polled, what it tells."""

from dataclasses import replace
from itertools import pairwise

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
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Admitted, Done, Expire, Failed, Rejected, Run, Trigger
from xirang.core.scheduler import Scheduler
from xirang.core.snapshot import MemorySnapshot, ShareSnapshot, Snapshot


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
    assert bench.poll(5019.4) == []
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


def test_after_a_run_that_found_no_room_later_ones_stay_below_it():
    bench = Bench(efficiency=0.0, max_batch_size=16)
    bench.submit(*(request(i, budget_ms=9000) for i in range(32)))
    sizes = []
    for _ in range(4):
        (run,) = bench.poll(0)
        sizes.append(run.rows)
        bench.complete(run, 0, Failed(is_out_of_memory=run.rows > 4))
    assert sizes == [16, 8, 4, 4]


def test_what_there_is_no_room_for_bounds_runs_however_they_are_formed():
    bench = Bench(batching=Batching.FIRST_COME, max_batch_size=16, elements_max=1)
    bench.submit(*(request(i, budget_ms=9000) for i in range(24)))
    (run,) = bench.poll(0)
    assert run.rows == 16, "what pays is a matter of the optimal batching alone"
    bench.complete(run, 0, Failed(is_out_of_memory=True))
    (run,) = bench.poll(0)
    assert run.rows == 1


def test_a_run_without_padding_is_as_large_as_its_rows_in_sum():
    bench = Bench(is_ragged=True, can_pad=False)
    cost = bench.scheduler._models["m"].cost
    bench.submit(*(request(i, length=n, rows=2, budget_ms=9000) for i, n in enumerate((8, 100))))
    (run,) = bench.poll(100)
    assert (run.rows, run.elements, run.padding) == (4, 216, 0)
    assert run.length == 54
    assert run.predicted_ns == cost.predict_ns(rows=4, length=54)


def test_a_run_that_is_filled_up_teaches_what_the_full_one_costs():
    bench = Bench(row_sizes=(1, 8), max_batch_size=8)
    cost = bench.scheduler._models["m"].cost
    bench.submit(*(request(i) for i in range(3)))
    (run,) = bench.poll(0)
    before = cost.predict_ns(rows=8, length=1)
    bench.complete(run, 0, Done(before))
    assert cost.predict_ns(rows=8, length=1) == pytest.approx(before, rel=1e-6)


def test_an_urgent_class_is_not_kept_waiting_unless_the_policy_says_so():
    for efficiencies, expected in ((((1, 0.0),), [[1, 2]]), (((1, 1.0),), [])):
        bench = Bench(efficiency=1.0, efficiencies=efficiencies, window_ns_max=20 * MS)
        busy_stream(bench)
        bench.submit(request(1, at_ms=5000, budget_ms=500))
        assert bench.poll(5000) == []
        bench.submit(request(2, at_ms=5005, budget_ms=500, priority=1))
        assert [sorted(ids) for ids in bench.ids(5005)] == expected


def test_a_request_without_a_budget_never_expires_and_is_served():
    bench = Bench(age_ns_max=50 * MS, window_ns_max=10**15, efficiency=1.0)
    busy_stream(bench)
    bench.submit(Request(1, "m", 5000 * MS, NEVER_NS))
    assert bench.poll(5000) == []
    assert 5000 < bench.wakeup_ms() < 5050
    assert bench.ids(bench.wakeup_ms()) == [[1]]


def test_a_slow_start_of_a_sizable_run_is_tried_with_time_to_spare():
    bench = Bench(models={"m": (Policy(efficiency=0.0), CostModel())})
    for i in range(8):
        bench.submit(request(i, at_ms=20 * i))
        (run,) = bench.poll(20 * i)
        bench.complete(run, 20 * i + 5)
    bench.submit(*(request(10 + i, at_ms=200, budget_ms=12) for i in range(9)))
    (tight,) = bench.poll(200)
    assert tight.rows < 9


LEVELS = {"step up": (50, 350), "step down": (350, 50), "to overload": (20, 500)}


@pytest.mark.parametrize(("before", "after"), LEVELS.values(), ids=LEVELS)
def test_window_and_threshold_move_once_from_level_to_level(before, after):
    windows, thresholds = courses(rate_at=lambda ms: before if ms < 10_000 else after)
    up = after < before
    for course in (windows[95:], thresholds[95:]):
        moved = [b - a for a, b in pairwise(course)]
        ripple = 0.02 * max(course)
        assert all(step >= -ripple if up else step <= ripple for step in moved)
        assert (course[-1] > course[0]) == up
        assert course[-1] != course[0]


def test_a_square_wave_gives_a_wave_and_no_ping_pong():
    windows, _ = courses(rate_at=lambda ms: 300 if ms // 5000 % 2 else 60, until_ms=30_000)
    settled = windows[100:]
    turns, last = 0, 0
    for a, b in pairwise(settled):
        direction = (b - a > 0.02 * max(settled)) - (a - b > 0.02 * max(settled))
        if direction and direction != last:
            turns, last = turns + 1, direction
    assert turns <= 4  # one a half wave


def courses(*, rate_at, until_ms=20_000):
    """Window and threshold each 100 ms, under evenly spaced requests of 2 ms."""
    bench = Bench(models={"m": (Policy(window_ns_max=100 * MS), fixed_shape(5, 2))})
    scheduler, windows, thresholds = bench.scheduler, [], []
    now_ms, running, id = 0.0, None, 0
    while now_ms < until_ms:
        if running and running.start_ns + running.predicted_ns <= now_ms * MS:
            done = Done(running.predicted_ns)
            scheduler.complete(running.id, now_ns=int(now_ms * MS), outcome=done)
            running = None
        id += 1
        scheduler.submit(request(id, at_ms=now_ms, budget_ms=400), now_ns=int(now_ms * MS))
        for action in scheduler.poll(now_ns=int(now_ms * MS)):
            running = action if isinstance(action, Run) else running
        if now_ms >= 100 * len(windows):
            (model,) = scheduler.snapshot(now_ns=int(now_ms * MS)).models
            windows.append(model.window_ns)
            thresholds.append(model.threshold_ns)
        now_ms += 1000 / rate_at(now_ms)
    return windows, thresholds


def test_a_removed_model_leaves_its_name_and_its_device():
    bench = Bench()
    bench.submit(request(1))
    (run,) = bench.poll(0)
    bench.complete(run, 6)
    bench.scheduler.remove_model("m")
    assert bench.scheduler.snapshot(now_ns=0).models == ()
    bench.scheduler.add_model("m", Policy(), fixed_shape(5, 1))
    bench.submit(request(2))
    assert bench.ids(7) == [[2]]


def test_a_model_that_still_runs_cannot_be_removed():
    bench = Bench()
    bench.submit(request(1))
    bench.poll(0)
    with pytest.raises(AssertionError):
        bench.scheduler.remove_model("m")


def test_lanes_of_one_name_are_shown_as_one():
    models = {name: (Policy(), fixed_shape(5, 1)) for name in ("old", "new", "other")}
    bench = Bench(models=models)
    bench.submit(
        request(1, model="old"), request(2, model="new", rows=3), request(3, model="other")
    )
    snapshot = bench.scheduler.snapshot(now_ns=0)
    one, other = snapshot.named(lambda name: name if name == "other" else "m").models
    assert (one.model, one.waiting, other.model, other.waiting) == ("m", 2, "other", 1)
    assert one.work_ns == pytest.approx(4 * MS, abs=10)
    assert [lane.depth for lane in one.lanes] == [1, 1]


def test_a_suspended_run_leaves_its_device_to_others_and_keeps_its_instance():
    models = {name: (Policy(instances=1), fixed_shape(5, 1)) for name in ("m", "n")}
    bench = Bench(models=models)
    bench.submit(request(1, model="m"))
    (hanging,) = bench.poll(0)
    bench.submit(request(2, at_ms=1, model="n"), request(3, at_ms=1, model="m"))
    assert bench.poll(30) == []
    bench.scheduler.suspend(hanging.id)
    (other,) = bench.poll(31)
    assert (other.model, other.requests[0].id) == ("n", 2)
    bench.complete(other, 37)
    assert bench.ids(40) == [], "the instance of m is still taken"
    bench.complete(hanging, 50, Failed())
    assert bench.ids(50) == [[3]]


def test_memory_of_models_that_are_named_alike_is_added_up():
    one = ShareSnapshot("m", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, (("grow", 1), ("shrink", 2)))
    memory = MemorySnapshot(100, 50, (one, replace(one, model="m@2"), replace(one, model="n")))
    snapshot = Snapshot((), is_draining=False, memory=memory)
    named = snapshot.named(lambda name: name.partition("@")[0]).memory
    assert (named.capacity_bytes, named.held_bytes) == (100, 50)
    both, other = named.shares
    assert other == replace(one, model="n")
    assert both == ShareSnapshot(
        "m", 2, 4, 6, 8, 10, 12, 14, 16, 9, 10, (("grow", 2), ("shrink", 4))
    )
