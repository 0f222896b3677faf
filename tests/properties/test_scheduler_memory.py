"""The scheduler with a memory pool: no run beyond its lease, nobody starves, all comes home."""

from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import MS, fixed_shape, learned, request

from xirang.core.event import EvictionProposed, RequestExpired
from xirang.core.memory import ledger
from xirang.core.memory.account import Claim
from xirang.core.memory.arena import Refused
from xirang.core.memory.polynomial import Polynomial
from xirang.core.memory.pool import TIDY_NS, Pool, PoolSettings
from xirang.core.policy import Batching, Policy
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Admitted, Cause, Done, Expire, Failed, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.lab.replay import ended_runs, verify
from xirang.observe.recorder import RecordedScheduler, Recorder
from xirang.observe.recording import Ground, Recording

SLAB = 100 << 10
ROWS = (Polynomial((0, SLAB, 0, 0, 0, 0)),)
"""A slab a row."""


class Bench:
    """One device of two runs, models of a slab a row, told and asked in milliseconds."""

    def __init__(self, capacity, *, devices=2, policy=None, **claims):
        self.scheduler = Scheduler(
            devices={"cpu": devices}, pool=PoolSettings(capacity * SLAB, slab_bytes=SLAB)
        )
        for name, claim in claims.items():
            made = policy or Policy(instances=devices, efficiency=0.0, rejects_early=False)
            self.scheduler.add_model(name, made, fixed_shape(5, 1), Claim(ROWS, **claim))

    def submit(self, *requests):
        return [self.scheduler.submit(r, now_ns=r.arrival_ns) for r in requests][-1]

    def poll(self, now_ms):
        actions = self.scheduler.poll(now_ns=int(now_ms * MS))
        self.scheduler.check_integrity()
        return actions

    def complete(self, run, now_ms, memory_bytes=0):
        outcome = Done(MS, memory_bytes=memory_bytes)
        self.scheduler.complete(run.id, now_ns=int(now_ms * MS), outcome=outcome)
        self.scheduler.check_integrity()

    def share(self, model):
        shares = self.scheduler.snapshot(now_ns=0).memory.shares
        return next(each for each in shares if each.model == model)


def asked(first, count, *, model="m", rows=1, at_ms=0, budget_ms=1000):
    return [
        request(first + i, model=model, rows=rows, at_ms=at_ms, budget_ms=budget_ms)
        for i in range(count)
    ]


def test_a_run_has_a_lease_of_what_it_is_expected_to_take():
    bench = Bench(50, m={})
    bench.submit(*asked(1, 8))
    (run,) = bench.poll(0)
    assert (run.rows, run.lease_bytes) == (8, 8 * SLAB)
    assert [(r.before_bytes, r.after_bytes) for r in bench.scheduler.drain_resizes()] == [
        (0, 8 * SLAB)
    ]
    bench.complete(run, 5)
    assert bench.share("m").surplus_bytes == 8 * SLAB


def test_a_limit_bounds_every_run():
    bench = Bench(50, devices=1, m={"limit_bytes": 3 * SLAB})
    bench.submit(*asked(1, 8))
    rows = []
    for now_ms in range(0, 40, 10):
        for run in bench.poll(now_ms):
            rows.append(run.rows)
            assert run.lease_bytes <= 3 * SLAB
            bench.complete(run, now_ms + 5)
    assert sum(rows) == 8
    assert max(rows) <= 3


@pytest.mark.parametrize("batching", [Batching.OPTIMAL, Batching.FIRST_COME])
@pytest.mark.parametrize("can_pad", [False, True])
def test_what_others_use_makes_a_batch_smaller_and_fails_nobody(batching, can_pad):
    policy = Policy(efficiency=0.0, can_pad=can_pad, batching=batching, rejects_early=False)
    bench = Bench(10, policy=policy, a={}, b={})
    bench.submit(*asked(1, 7, model="a"), *asked(11, 7, model="b", at_ms=0.1))
    a, b = bench.poll(0.2)
    assert (a.rows, b.rows) == (7, 3)
    assert b.depth == 4
    bench.complete(a, 10)
    assert [r.id for r in b.requests] == [11, 12, 13], "the most urgent go first"


def test_whoever_fits_not_even_once_waits_until_memory_comes_home():
    bench = Bench(10, a={}, b={})
    bench.submit(*asked(1, 9, model="a"), *asked(11, 1, model="b", rows=2, at_ms=1))
    (a,) = bench.poll(1)
    assert (a.model, a.rows) == ("a", 9)
    bench.submit(*asked(21, 1, model="a", at_ms=2))
    assert bench.poll(3) == [], "nobody borrows before b has had its turn"
    bench.complete(a, 10)
    runs = bench.poll(10)
    assert [(run.model, run.rows) for run in runs] == [("b", 2), ("a", 1)]


def test_a_guarantee_never_waits():
    bench = Bench(10, a={}, b={"guarantee_bytes": 3 * SLAB})
    bench.submit(*asked(1, 30, model="a"), *asked(41, 3, model="b", at_ms=1))
    (a,) = bench.poll(0)
    assert a.rows == 7
    (b,) = bench.poll(1)
    assert (b.model, b.rows) == ("b", 3)


def test_a_request_beyond_its_models_limit_is_refused_with_the_numbers():
    bench = Bench(10, m={"limit_bytes": 4 * SLAB})
    verdict = bench.submit(request(1, rows=5))
    assert isinstance(verdict, Rejected)
    assert verdict.cause is Cause.MEMORY
    assert f"{5 * SLAB} bytes" in verdict.reason
    assert f"{4 * SLAB}" in verdict.reason
    assert bench.submit(request(2, rows=4)) == Admitted()


def test_a_run_that_is_filled_up_is_counted_as_large_as_that():
    policy = Policy(row_sizes=(1, 4, 16), max_batch_size=16, efficiency=0.0, rejects_early=False)
    bench = Bench(10, devices=1, policy=policy, m={})
    assert isinstance(bench.submit(request(1, rows=5)), Rejected), "it would be filled up to 16"
    bench.submit(*asked(2, 7))
    rows = []
    for now_ms in (0, 10, 20, 30):
        for run in bench.poll(now_ms):
            rows.append((run.rows, run.lease_bytes))
            bench.complete(run, now_ms + 5)
    assert sum(count for count, _ in rows) == 7
    assert {(count, size) for count, size in rows} <= {
        (4, 4 * SLAB),
        (3, 4 * SLAB),
        (1, SLAB),
        (2, 4 * SLAB),
    }


def test_who_could_go_is_told():
    bench = Bench(10, a={"fixed_bytes": 7 * SLAB, "may_go": True}, b={}, c={})
    bench.submit(*asked(1, 2, model="b", rows=1), *asked(11, 1, model="c", rows=2, at_ms=1))
    bench.poll(0)
    bench.poll(1)
    assert [e for e in bench.scheduler.drain_events() if isinstance(e, EvictionProposed)] == [
        EvictionProposed("a", "c", MS)
    ]
    bench.scheduler.remove_model("a")
    assert [run.model for run in bench.poll(1)] == ["c"]


def test_a_request_that_can_never_fit_any_more_is_told_so():
    bench = Bench(10, a={}, b={})
    bench.submit(*asked(1, 6, model="a"))
    (a,) = bench.poll(0)
    bench.submit(request(2, model="b", rows=8, budget_ms=10_000, at_ms=1))
    assert bench.poll(1) == []
    claim = Claim(ROWS, fixed_bytes=3 * SLAB)
    assert bench.scheduler.ledger.refusal(claim) == ""
    bench.scheduler.add_model("c", Policy(), fixed_shape(5, 1), claim)
    bench.complete(a, 9)
    (expire,) = bench.poll(9)
    assert isinstance(expire, Expire)
    assert f"{8 * SLAB} bytes" in expire.reason
    assert [type(e) for e in bench.scheduler.drain_events()][-1] is RequestExpired


def test_a_cancelled_request_keeps_nobody_waiting():
    bench = Bench(10, a={}, b={})
    bench.submit(*asked(1, 9, model="a"), *asked(11, 1, model="b", rows=2, at_ms=1))
    bench.poll(1)
    bench.submit(*asked(21, 1, model="a", at_ms=2))
    assert bench.poll(2) == []
    bench.scheduler.cancel(11, now_ns=3 * MS)
    assert [run.model for run in bench.poll(3)] == ["a"]


def test_out_of_memory_and_hung_runs_give_their_memory_back():
    bench = Bench(10, m={})
    bench.submit(*asked(1, 4))
    (run,) = bench.poll(0)
    bench.scheduler.suspend(run.id)
    assert bench.share("m").leased_bytes == 4 * SLAB
    bench.scheduler.complete(run.id, now_ns=MS, outcome=Failed(is_out_of_memory=True))
    assert bench.share("m").leased_bytes == 0
    bench.submit(*asked(11, 4, at_ms=2))
    runs = bench.poll(2)
    assert [run.rows for run in runs] == [2, 2], "later runs stay below"


def test_a_run_that_took_more_than_its_lease_makes_the_next_lease_larger():
    bench = Bench(20, devices=1, m={})
    bench.submit(*asked(1, 4))
    (run,) = bench.poll(0)
    bench.complete(run, 5, memory_bytes=6 * SLAB)
    bench.submit(*asked(11, 4, at_ms=6))
    (run,) = bench.poll(6)
    assert run.lease_bytes == 6 * SLAB


def test_a_run_may_be_given_more_while_it_runs():
    bench = Bench(10, devices=1, m={})
    bench.submit(*asked(1, 4))
    (run,) = bench.poll(0)
    assert not bench.scheduler.extend(run.id, 11 * SLAB)
    assert bench.scheduler.extend(run.id, 8 * SLAB)
    assert bench.share("m").leased_bytes == 8 * SLAB
    bench.complete(run, 5)
    bench.submit(*asked(11, 1, at_ms=6))
    (run,) = bench.poll(6)
    assert run.lease_bytes == 11 * SLAB // 4


def test_an_idle_scheduler_gives_all_back_and_then_sleeps():
    bench = Bench(60, devices=1, m={})
    bench.submit(*asked(1, 30))
    (run,) = bench.poll(0)
    bench.complete(run, 5)
    bench.poll(5)
    times = []
    while (wakeup_ns := bench.scheduler.wakeup_ns()) is not None:
        times.append(wakeup_ns)
        bench.scheduler.poll(now_ns=wakeup_ns)
        if len(times) == 5:
            assert bench.share("m").committed_bytes <= 0.05 * 30 * SLAB
    assert bench.share("m").committed_bytes == 0
    assert len(times) <= 6
    assert times[-1] <= 6 * TIDY_NS + 5 * MS


def test_without_a_pool_nothing_is_counted():
    scheduler = Scheduler(devices={"cpu": 1})
    scheduler.add_model("m", Policy(), fixed_shape(5, 1), Claim(ROWS, limit_bytes=1))
    scheduler.submit(request(1, rows=50), now_ns=0)
    (run,) = scheduler.poll(now_ns=0)
    assert run.lease_bytes == 0
    assert scheduler.drain_resizes() == []
    assert scheduler.snapshot(now_ns=0).memory is None


LAWS = {
    "long": (
        Polynomial((50 << 10, 20 << 10, 0, 8 << 10, 0, 0)),
        Polynomial((0, 0, 3 << 10, 2 << 10, 1 << 10, 0)),
    ),
    "flat": (Polynomial((0, 150 << 10, 0, 0, 0, 0)),),
    "plain": (Polynomial((10 << 10, 0, 0, 10 << 10, 0, 0)),),
}
POLICIES = {
    "long": Policy(instances=2, can_pad=True, max_batch_size=16, rejects_early=False),
    "flat": Policy(max_batch_size=8, rejects_early=False, window_ns_max=3 * MS),
    "plain": Policy(instances=2, can_pad=True, batching=Batching.FIRST_COME, rejects_early=False),
}


class Play:
    """Random traffic through a pool that is far too small for all peaks, on a virtual clock."""

    def __init__(self, seed, *, capacity, guarantee, budget_ms):
        self.random = Random(seed)
        self.scheduler = Scheduler(devices={"cpu": 3}, pool=PoolSettings(capacity, slab_bytes=SLAB))
        for name, policy in POLICIES.items():
            claim = Claim(LAWS[name], guarantee_bytes=guarantee, fixed_bytes=SLAB)
            assert not self.scheduler.ledger.refusal(claim)
            self.scheduler.add_model(name, policy, learned(2e6, 1e5, 1e4), claim)
        self.capacity = capacity
        self.budget_ms = budget_ms
        self.now_ns = 0
        self.running = []
        self.pages = {}
        self.told = []
        self.answered = 0

    def play(self, count):
        """Everything is answered; what is told in the end is all that was decided."""
        left = count
        while left or self.running or self.answered < count:
            if left and self.random.random() < 0.6:
                self.arrive(count - left + 1)
                left -= 1
            self.poll()
            self.advance()
        for _ in range(20):
            self.now_ns += TIDY_NS
            self.poll()
        memory = self.scheduler.snapshot(now_ns=self.now_ns).memory
        assert sum(share.committed_bytes for share in memory.shares) == 0
        assert memory.held_bytes == len(POLICIES) * SLAB
        assert self.scheduler.wakeup_ns() is None
        return self.told

    def arrive(self, number):
        random = self.random
        budget_ns = self.budget_ms * MS if self.budget_ms else NEVER_NS
        made = Request(
            number,
            random.choice(sorted(POLICIES)),
            self.now_ns,
            self.now_ns + budget_ns,
            rows=random.choice([1, 1, 1, 2, 4]),
            length=random.choice([1, 4, 16, 40]),
        )
        verdict = self.scheduler.submit(made, now_ns=self.now_ns)
        self.told.append(verdict)
        self.answered += isinstance(verdict, Rejected)

    def poll(self):
        actions = self.scheduler.poll(now_ns=self.now_ns)
        self.scheduler.check_integrity()
        for resize in self.scheduler.drain_resizes():
            assert self.pages.get(resize.arena, 0) == resize.before_bytes
            self.pages[resize.arena] = resize.after_bytes
            assert sum(self.pages.values()) <= self.capacity
        for action in actions:
            if isinstance(action, Run):
                need = max(p.bytes_at(action.rows, action.length) for p in LAWS[action.model])
                assert action.lease_bytes == need
                self.running.append((self.now_ns + self.random.randint(1, 9) * MS, action))
                self.told.append((action.id, action.instance, action.lease_bytes, self.now_ns))
            else:
                assert not action.reason
                self.answered += 1
                self.told.append(action.request.id)
        assert sum(run.lease_bytes for _, run in self.running) <= self.capacity
        wakeup_ns = self.scheduler.wakeup_ns()
        assert wakeup_ns is None or wakeup_ns > self.now_ns

    def advance(self):
        times = [end_ns for end_ns, _ in self.running]
        wakeup_ns = self.scheduler.wakeup_ns()
        times += [] if wakeup_ns is None else [wakeup_ns]
        self.now_ns = max(self.now_ns, min([*times, self.now_ns + 2 * MS]))
        for end_ns, run in sorted(self.running, key=lambda pair: pair[1].id):
            if end_ns <= self.now_ns:
                self.running.remove((end_ns, run))
                self.scheduler.complete(run.id, now_ns=self.now_ns, outcome=Done(5 * MS))
                self.answered += len(run.requests)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    capacity=st.sampled_from([20, 35, 60, 200]),
    guarantee=st.sampled_from([0, 3, 6]),
    budget_ms=st.sampled_from([0, 30, 300]),
)
def test_whatever_comes_fits_is_answered_and_decided_alike_again(
    seed, capacity, guarantee, budget_ms
):
    terms = {
        "capacity": capacity * SLAB,
        "guarantee": guarantee * SLAB,
        "budget_ms": budget_ms,
    }
    assert Play(seed, **terms).play(40) == Play(seed, **terms).play(40)


class Watched(Pool):
    """A pool that never refuses what it has promised."""

    __slots__ = ()
    leases = 0
    refused = 0

    def lease(self, arena, size_bytes):
        place = self.arenas[arena]
        own = [each.leased for each in self.arenas.values() if each.share is place.share]
        needed = place.share.fixed + sum(own) + self.slabs(size_bytes)
        found = super().lease(arena, size_bytes)
        Watched.leases += 1
        if isinstance(found, Refused):
            Watched.refused += 1
            assert needed > place.share.guarantee
        return found


def test_no_lease_within_a_guarantee_is_ever_refused(monkeypatch):
    monkeypatch.setattr(ledger, "Pool", Watched)
    for seed in range(12):
        Play(seed, capacity=40 * SLAB, guarantee=10 * SLAB, budget_ms=0).play(60)
    assert Watched.leases > 100
    assert Watched.refused > 10


def test_a_recording_with_a_pool_is_decided_alike_again(tmp_path):
    pool = PoolSettings(60 * SLAB, slab_bytes=SLAB, devices=(("cuda:0", 20 * SLAB),))
    ground = Ground({"cpu": 3}, pool=pool)
    recorder = Recorder(tmp_path / "r", size_bytes=1 << 22, ground=ground)
    random = Random(3)
    scheduler = RecordedScheduler(ground, recorder=recorder)
    for name, policy in POLICIES.items():
        claim = Claim(
            LAWS[name],
            4 * SLAB,
            fixed_bytes=SLAB,
            may_go=True,
            wish_bytes=9 * SLAB,
            device="cuda:0" if name == "flat" else "",
        )
        scheduler.add_model(name, policy, learned(2e6, 1e5, 1e4), claim)
    now_ns, running = 0, []
    for number in range(1, 400):
        now_ns += random.randint(0, 2) * MS
        made = Request(
            number,
            random.choice(sorted(POLICIES)),
            now_ns,
            now_ns + 500 * MS,
            rows=random.choice([1, 2, 4]),
            length=random.choice([1, 4, 16, 40, 90]),
        )
        scheduler.submit(made, now_ns=now_ns)
        if number in {200, 300}:
            scheduler.resize_pool(45 * SLAB, is_pressed=number == 300)
        running += [a for a in scheduler.poll(now_ns=now_ns) if isinstance(a, Run)]
        while len(running) > random.randint(0, 3):
            run = running.pop(random.randrange(len(running)))
            real_bytes = -(-run.lease_bytes * random.choice([8, 9, 10, 13]) // 10240) << 10
            if random.random() < 0.1:
                scheduler.extend(run.id, real_bytes)
            outcome = random.choice(
                [
                    Done(MS, memory_bytes=real_bytes),
                    Done(MS),
                    Failed((), is_out_of_memory=True, memory_bytes=real_bytes),
                ]
            )
            scheduler.complete(run.id, now_ns=now_ns, outcome=outcome)
        scheduler.check_integrity()
    scheduler.poll(now_ns=now_ns)
    recorder.close()
    recording = Recording(tmp_path / "r")
    assert recording.ground == ground
    assert recording.models[0].memory.peaks == LAWS["long"]
    assert verify(recording) is None
    leases = {event.run.lease_bytes for event in ended_runs(recording)}
    assert len(leases) > 5
