"""The pool: leases that grow in place, surplus that comes back, shares that do no harm."""

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from xirang.core.memory.arena import Refused, Resize
from xirang.core.memory.pool import TIDY_NS, Pool, PoolSettings

SLAB = 10


def made(capacity, **options):
    return Pool(PoolSettings(capacity * SLAB, slab_bytes=SLAB, **options))


def pool_of(capacity=100, *, guarantee=300, arenas=1, **options):
    """A pool of some slabs, with shares a and b."""
    pool = made(capacity, **options)
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
    pool = made(100)
    share = pool.add_share("a", limit_bytes=1000)
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


def test_the_least_recently_used_of_those_that_may_go_is_named():
    pool = made(130)
    for name, used_ns in (("a", 5), ("b", 3), ("c", 4), ("stays", 1)):
        held = 0 if name == "a" else 300
        share = pool.add_share(name, guarantee_bytes=100, limit_bytes=1300, may_go=name != "stays")
        arena = pool.add_arena(share, 1000)
        pool.release(pool.lease(arena, 0), now_ns=used_ns)
        pool.hold(share, held)
    assert pool.lease(0, 500) == Refused(400, evict="b")
    busy = pool.lease(1, 50)
    assert pool.lease(0, 500) == Refused(350, evict="c")
    pool.release(busy, now_ns=9)
    pool.remove_share(pool.broker.shares["c"])
    assert not isinstance(pool.lease(0, 500), Refused)


def test_after_a_wave_the_growth_comes_back_by_thirds():
    pool = pool_of()
    pool.release(pool.lease(0, 700), now_ns=1)
    reached = []
    for second in range(5):
        pool.release(pool.lease(0, 20), now_ns=2)
        pool.tidy(now_ns=second)
        reached.append(next(pool.snapshot()).committed_bytes)
    assert reached == [700, 230, 70, 20, 20]


def test_what_a_run_uses_is_never_given_back():
    pool = pool_of()
    lease = pool.lease(0, 640)
    for _ in range(9):
        pool.tidy(now_ns=0)
    assert next(pool.snapshot()).committed_bytes == 640
    pool.release(lease, now_ns=1)
    assert pool.drain() == [Resize(0, 0, 640)]


def test_above_the_high_mark_what_nobody_needed_lately_goes_at_once():
    pool = pool_of(guarantee=0, arenas=2, low=0.5, high=0.6)
    pool.release(pool.lease(0, 400), now_ns=1)
    pool.tidy(now_ns=0)  # remembered by a third
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


def test_its_own_idle_tails_do_not_stand_in_a_shares_way():
    pool = made(100)
    share = pool.add_share("a", limit_bytes=300)
    for _ in range(2):
        pool.add_arena(share, 300)
    pool.release(pool.lease(0, 280), now_ns=1)
    pool.drain()
    assert not isinstance(pool.lease(1, 100), Refused)
    assert pool.drain() == [Resize(0, 280, 200), Resize(1, 0, 100)]


def test_while_somebody_stands_in_line_nobody_else_borrows():
    pool = pool_of(guarantee=0, arenas=2)
    first, second = pool.lease(0, 450), pool.lease(1, 450)
    b = pool.arenas[2].share
    assert pool.lease(2, 800) == Refused(100)
    pool.stand_in_line(b)
    pool.release(first, now_ns=1)
    assert pool.lease(0, 450) == Refused(0), "it would never be home otherwise"
    assert isinstance(pool.lease(2, 800), Refused)
    pool.release(second, now_ns=2)
    assert not isinstance(pool.lease(2, 800), Refused)
    assert not isinstance(pool.lease(0, 200), Refused), "the line is empty again"


def test_whoever_stands_in_line_takes_no_guarantee_from_others():
    pool = pool_of(guarantee=300)
    running = pool.lease(0, 700)
    pool.stand_in_line(pool.arenas[1].share)
    pool.release(running, now_ns=1)
    assert pool.lease(0, 301) == Refused(300)
    assert not isinstance(pool.lease(0, 300), Refused)


def test_who_leaves_the_line_lets_the_others_borrow():
    pool = pool_of(guarantee=0)
    pool.stand_in_line(pool.arenas[1].share)
    before = pool.freed
    pool.leave_line(pool.arenas[1].share)
    assert pool.freed > before
    assert not isinstance(pool.lease(0, 700), Refused)


def test_who_goes_leaves_nothing_behind():
    pool = pool_of(guarantee=100)
    share = pool.arenas[0].share
    pool.hold(share, 55)
    pool.release(pool.lease(0, 400), now_ns=1)
    pool.drain()
    pool.stand_in_line(share)
    pool.remove_share(share)
    assert pool.drain() == [Resize(0, 400, 0)]
    assert pool.broker.held == 0
    assert not isinstance(pool.lease(1, 1000), Refused)
    again = pool.add_share("a", limit_bytes=1000)
    assert pool.add_arena(again, 1000) == 2, "numbers are never used again"


def test_an_arena_has_what_it_keeps_from_the_start_and_only_need_takes_it():
    pool = made(100)
    for name in "ab":
        share = pool.add_share(name, limit_bytes=1000)
        pool.add_arena(share, 1000, keep_bytes=45)
    assert pool.drain() == [Resize(0, 0, 50), Resize(1, 0, 50)]
    pool.release(pool.lease(0, 400), now_ns=1)
    for second in range(9):
        pool.tidy(now_ns=second)
    assert [s.committed_bytes for s in pool.snapshot()] == [50, 50]
    assert pool.tidy_ns is None, "nothing is left to be done"
    assert not isinstance(pool.lease(1, 1000), Refused)
    assert [s.committed_bytes for s in pool.snapshot()] == [0, 1000]


def test_it_wants_to_be_tidied_as_long_as_time_changes_something():
    pool = pool_of()
    assert pool.tidy_ns is None
    pool.release(pool.lease(0, 640), now_ns=7)
    seconds = 0
    while pool.tidy_ns is not None:
        assert pool.tidy_ns == 7 + (seconds + 1) * TIDY_NS
        pool.tidy(now_ns=pool.tidy_ns)
        seconds += 1
    assert seconds == 5
    assert pool.broker.held == 0


def test_the_most_is_what_could_be_had_if_nothing_ran():
    pool = pool_of(guarantee=200)
    a, b = pool.arenas[0].share, pool.arenas[1].share
    pool.lease(1, 700)
    assert pool.most_bytes(a) == 800
    pool.hold(b, 300)
    assert pool.most_bytes(a) == 700
    pool.resize(600)
    assert pool.most_bytes(a) == 300


def test_no_capacity_is_less_than_what_was_promised():
    pool = pool_of(guarantee=300)
    pool.resize(0)
    assert pool.broker.capacity == 60
    assert not isinstance(pool.lease(0, 300), Refused)


def test_weights_that_come_make_room_for_themselves():
    pool = pool_of(guarantee=0)
    pool.release(pool.lease(0, 900), now_ns=1)
    pool.hold(pool.arenas[1].share, 400)
    assert [s.committed_bytes for s in pool.snapshot()] == [600, 0]
    pool.broker.check_promises()


def test_it_counts_what_happens_to_a_share():
    pool = pool_of(guarantee=0)
    lease = pool.lease(0, 300)
    pool.extend(lease, 500)
    pool.trim(lease, 100)
    pool.lease(1, 1200)
    pool.lease(1, 800)
    pool.tidy(now_ns=0)
    a, b = (dict(pool.arenas[i].share.counts.pairs()) for i in (0, 1))
    assert a == {
        "grow": 2,
        "shrink": 0,
        "extend": 1,
        "trim": 1,
        "reclaim": 1,
        "refuse": 0,
        "evict": 0,
    }
    assert b == {
        "grow": 1,
        "shrink": 0,
        "extend": 0,
        "trim": 0,
        "reclaim": 0,
        "refuse": 1,
        "evict": 0,
    }


class Leases(RuleBasedStateMachine):
    """Random leases against a twin that keeps the pages of each arena in a dictionary."""

    def __init__(self):
        super().__init__()
        self.pool = made(60)
        self.running = {}
        self.pages = {}
        self.line = []
        self.short = set()
        self.now_ns = 0
        self.capacity = self.most = 60
        for name in "ab":
            self.add(name, 150, 2)

    def add(self, name, guarantee, arenas):
        share = self.pool.add_share(name, guarantee_bytes=guarantee, limit_bytes=600)
        for _ in range(arenas):
            self.pages[self.pool.add_arena(share, 10_000)] = 0
        self.carry_out()

    def carry_out(self):
        """Pages go before others come: there are never more than the capacity or what runs."""
        bound = max(self.capacity, sum(self.pages.values()) // SLAB) * SLAB
        for resize in self.pool.drain():
            assert self.pages[resize.arena] == resize.before_bytes
            self.pages[resize.arena] = resize.after_bytes
            assert sum(self.pages.values()) <= bound
        self.pages = {number: self.pages[number] for number in self.pool.arenas}

    def used(self, share):
        """Slabs that a share cannot give back now."""
        own = [place.leased for place in self.pool.arenas.values() if place.share is share]
        return share.fixed + sum(own)

    def free_for(self, arena, size):
        """Whether a lease must be granted, straight from what was promised."""
        share = self.pool.arenas[arena].share
        slabs = -(-size // SLAB)
        used = {each.name: self.used(each) for each in self.pool.broker.shares.values()}
        others = [
            max(used[each.name], each.guarantee)
            for each in self.pool.broker.shares.values()
            if each is not share
        ]
        if used[share.name] + slabs <= share.guarantee:
            return sum(others) + share.guarantee <= self.capacity
        is_turn = self.line[0] is share if self.line else not self.short - {arena}
        own = used[share.name] + slabs
        return is_turn and own <= share.limit and own + sum(others) <= self.capacity

    @rule(data=st.data(), size=st.integers(0, 700))
    def lease(self, data, size):
        arena = data.draw(st.sampled_from(sorted(self.pages)))
        if arena in self.running:
            return
        share = self.pool.arenas[arena].share
        must = self.free_for(arena, size)
        found = self.pool.lease(arena, size)
        self.short.discard(arena)
        if isinstance(found, Refused):
            self.short.add(arena)
            assert not must
            assert found.room_bytes < size
            again = self.pool.lease(arena, found.room_bytes)
            assert not isinstance(again, Refused), "what a refusal offers is there"
            found = again
        self.running[arena] = found
        self.line = [each for each in self.line if each is not share]
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
        before = self.pool.freed
        self.pool.release(self.running.pop(arena), now_ns=self.now_ns)
        assert self.pool.freed > before
        self.carry_out()

    @rule(data=st.data())
    def stand_in_line(self, data):
        share = self.pool.broker.shares[data.draw(st.sampled_from(sorted(self.pool.broker.shares)))]
        self.pool.stand_in_line(share)
        if share not in self.line:
            self.line.append(share)

    @precondition(lambda self: self.line)
    @rule()
    def leave_line(self):
        self.pool.leave_line(self.line.pop())

    @rule(slabs=st.integers(0, 80))
    def resize(self, slabs):
        self.pool.resize(slabs * SLAB)
        self.capacity = self.pool.broker.capacity
        assert self.capacity >= slabs
        self.carry_out()

    @rule(guarantee=st.integers(0, 10), fixed=st.integers(0, 10))
    def come(self, guarantee, fixed):
        name = f"c{self.now_ns}"
        if name in self.pool.broker.shares:
            return
        if max(guarantee, fixed) <= self.pool.broker.unpromised():
            self.add(name, guarantee * SLAB, 1)
            self.pool.hold(self.pool.broker.shares[name], fixed * SLAB)
            self.carry_out()

    @rule()
    def go(self):
        for name, share in list(self.pool.broker.shares.items()):
            arenas = [number for number, p in self.pool.arenas.items() if p.share is share]
            if name[0] == "c" and not self.running.keys() & set(arenas):
                self.pool.remove_share(share)
                self.line = [each for each in self.line if each is not share]
                self.short -= set(arenas)
        self.carry_out()

    @rule()
    def tidy(self):
        self.pool.tidy(now_ns=self.now_ns)
        self.short &= self.running.keys()
        self.carry_out()

    @invariant()
    def everything_holds(self):
        self.pool.check_integrity()
        for arena, lease in self.running.items():
            assert lease.size_bytes <= self.pages[arena], "a lease has its pages"
        assert [s.committed_bytes for s in self.pool.snapshot()] == list(self.pages.values())

    def teardown(self):
        for lease in self.running.values():
            self.pool.release(lease, now_ns=self.now_ns)
        self.pool.broker.check_promises()
        for _ in range(99):
            self.pool.tidy(now_ns=self.now_ns)
        assert self.pool.tidy_ns is None
        assert not any(s.committed_bytes for s in self.pool.snapshot()), "all comes home"


TestLeases = Leases.TestCase
TestLeases.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
