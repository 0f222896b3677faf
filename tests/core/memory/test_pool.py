"""The pool: leases that grow in place, surplus that comes back, shares that do no harm."""

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from xirang.core.memory.arena import Refused, Resize
from xirang.core.memory.pool import Pool

SLAB = 10


def pool_of(capacity=100, *, guarantee=300, arenas=1, **options):
    """A pool of some slabs, with shares a and b."""
    pool = Pool(capacity * SLAB, slab_bytes=SLAB, **options)
    for name in "ab":
        share = pool.add_share(name, guarantee_bytes=guarantee, limit_bytes=capacity * SLAB)
        for _ in range(arenas):
            pool.add_arena(share, 1000 * SLAB)
    return pool


def test_a_lease_grows_its_arena_once_and_finds_it_warm_afterwards():
    pool = pool_of()
    lease = pool.lease(0, 95)
    assert pool.drain() == [Resize(0, 0, 100)]
    pool.release(lease, now_ns=1)
    again = pool.lease(0, 100)
    assert again.size_bytes == 100
    assert pool.drain() == []


def test_a_lease_is_extended_in_place_and_trimmed():
    pool = pool_of()
    lease = pool.lease(0, 50)
    assert pool.extend(lease, 120) is None
    assert lease.size_bytes == 120
    assert pool.drain() == [Resize(0, 0, 50), Resize(0, 50, 120)]
    pool.trim(lease, 20)
    (snapshot, _) = pool.snapshot()
    assert (snapshot.leased_bytes, snapshot.surplus_bytes) == (20, 100)
    assert pool.extend(lease, 10) is None
    assert lease.size_bytes == 20


def test_a_refusal_says_how_much_there_is():
    pool = pool_of()
    assert pool.lease(0, 701) == Refused(700)
    lease = pool.lease(0, 700)
    assert pool.extend(lease, 701) == Refused(700)
    assert lease.size_bytes == 700


def test_a_range_of_addresses_ends_somewhere():
    pool = Pool(1000, slab_bytes=SLAB)
    share = pool.add_share("a", guarantee_bytes=0, limit_bytes=1000)
    arena = pool.add_arena(share, 50)
    assert pool.lease(arena, 51) == Refused(50)


def test_an_idle_tail_of_a_borrower_is_cut_before_another_grows_into_it():
    pool = pool_of()
    pool.release(pool.lease(0, 700), now_ns=1)
    pool.drain()
    assert not isinstance(pool.lease(1, 500), Refused)
    assert pool.drain() == [Resize(0, 700, 500), Resize(1, 0, 500)]


def test_who_runs_keeps_what_it_has_and_the_guarantee_is_there_all_the_same():
    pool = pool_of()
    pool.lease(0, 700)
    assert pool.lease(1, 301) == Refused(300)
    assert not isinstance(pool.lease(1, 300), Refused)


def test_the_least_recently_used_is_named_when_its_weights_could_go():
    pool = Pool(1000, slab_bytes=SLAB)
    for name, used_ns in (("a", 5), ("b", 3), ("c", 4)):
        share = pool.add_share(name, guarantee_bytes=100, limit_bytes=1000)
        pool.add_arena(share, 1000, now_ns=used_ns)
        assert pool.hold(share, 300) is None
    assert pool.lease(0, 200) == Refused(100, evict="b")
    busy = pool.lease(1, 50)
    assert pool.lease(0, 200) == Refused(50, evict="c")
    pool.release(busy, now_ns=9)
    pool.let_go(pool.arenas[2].share, 300)
    assert not isinstance(pool.lease(0, 200), Refused)


def test_after_a_wave_the_growth_comes_back_by_halves():
    pool = pool_of()
    pool.release(pool.lease(0, 640), now_ns=1)
    reached = []
    for _ in range(6):
        pool.release(pool.lease(0, 20), now_ns=2)
        pool.tidy()
        reached.append(next(pool.snapshot()).committed_bytes)
    assert reached == [640, 320, 160, 80, 40, 20]


def test_what_a_run_uses_is_never_given_back():
    pool = pool_of()
    lease = pool.lease(0, 640)
    for _ in range(9):
        pool.tidy()
    assert next(pool.snapshot()).committed_bytes == 640
    pool.release(lease, now_ns=1)
    assert pool.drain() == [Resize(0, 0, 640)]


def test_above_the_high_mark_what_nobody_needed_lately_goes_at_once():
    pool = pool_of(guarantee=0, arenas=2, low=0.5, high=0.6)
    pool.release(pool.lease(0, 400), now_ns=1)
    pool.tidy()  # remembered by half
    pool.lease(1, 300)
    assert [s.committed_bytes for s in pool.snapshot()][:2] == [200, 300]


def test_a_smaller_capacity_comes_true_as_runs_end():
    pool = pool_of(guarantee=100)
    running = pool.lease(0, 500)
    pool.release(pool.lease(1, 200), now_ns=1)
    pool.resize(300)
    assert [s.committed_bytes for s in pool.snapshot()] == [500, 0]
    assert pool.lease(1, 10) == Refused(0)
    pool.release(running, now_ns=2)
    pool.broker.check_promises()
    assert not isinstance(pool.lease(1, 100), Refused)


def test_a_lease_of_nothing_is_a_lease():
    pool = pool_of()
    pool.release(pool.lease(0, 0), now_ns=1)
    assert pool.drain() == []


def test_it_counts_no_bytes_that_it_was_not_asked_for():
    pool = pool_of()
    assert isinstance(pool.lease(0, 1 << 80), Refused)
    assert pool.drain() == []


def test_a_slot_runs_one_run():
    pool = pool_of()
    pool.lease(0, 10)
    with pytest.raises(AssertionError):
        pool.lease(0, 10)


@pytest.mark.parametrize(
    "act",
    [
        lambda pool, lease: pool.extend(lease, 20),
        lambda pool, lease: pool.trim(lease, 5),
        lambda pool, lease: pool.release(lease, now_ns=1),
    ],
)
def test_a_lease_ends_once(act):
    pool = pool_of()
    lease = pool.lease(0, 10)
    pool.release(lease, now_ns=1)
    with pytest.raises(AssertionError):
        act(pool, lease)


class Leases(RuleBasedStateMachine):
    """Random leases against a twin that keeps the pages of each arena in a list."""

    ARENAS = 4

    def __init__(self):
        super().__init__()
        self.pool = pool_of(60, guarantee=150, arenas=2)
        self.running = {}
        self.pages = [0] * self.ARENAS
        self.now_ns = 0

    def carry_out(self):
        for resize in self.pool.drain():
            assert self.pages[resize.arena] == resize.before_bytes
            self.pages[resize.arena] = resize.after_bytes
            assert sum(self.pages) <= 60 * SLAB, "a tail is cut before another grows"

    @rule(arena=st.integers(0, 3), size=st.integers(0, 700))
    def lease(self, arena, size):
        if arena in self.running:
            return
        share = self.pool.arenas[arena].share
        grown = -(-size // SLAB) - self.pool.arenas[arena].committed
        is_promised = share.held + max(0, grown) <= share.guarantee
        found = self.pool.lease(arena, size)
        if isinstance(found, Refused):
            assert not is_promised
            assert found.room_bytes < size
        else:
            self.running[arena] = found
        self.carry_out()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), size=st.integers(0, 700))
    def extend(self, data, size):
        lease = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        before = lease.size_bytes
        refused = self.pool.extend(lease, size)
        assert lease.size_bytes == (before if refused else max(before, size))
        self.carry_out()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), share=st.floats(0, 1))
    def trim(self, data, share):
        lease = self.running[data.draw(st.sampled_from(sorted(self.running)))]
        self.pool.trim(lease, int(lease.size_bytes * share))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def release(self, data):
        self.now_ns += 1
        arena = data.draw(st.sampled_from(sorted(self.running)))
        self.pool.release(self.running.pop(arena), now_ns=self.now_ns)
        self.carry_out()

    @rule()
    def tidy(self):
        self.pool.tidy()
        self.carry_out()

    @invariant()
    def everything_holds(self):
        self.pool.check_integrity()
        self.pool.broker.check_promises()
        for arena, lease in self.running.items():
            assert lease.size_bytes <= self.pages[arena], "a lease has its pages"
        assert [s.committed_bytes for s in self.pool.snapshot()] == self.pages


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
