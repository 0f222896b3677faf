"""Fairness: whoever gets too little soon has a fair part, and nobody waits for ever."""

from itertools import cycle

import pytest
from hypothesis import given, settings, strategies as st

from xirang.core.memory.arena import Refused
from xirang.core.memory.pool import TIDY_NS, Pool, PoolSettings

SLAB = 10


def pool_of(capacity, **shares):
    """Shares by name: how many arenas, and what is guaranteed, in slabs."""
    pool = Pool(PoolSettings(capacity * SLAB, slab_bytes=SLAB))
    for name, (arenas, guarantee) in shares.items():
        share = pool.add_share(name, guarantee_bytes=guarantee * SLAB, limit_bytes=capacity * SLAB)
        for _ in range(arenas):
            pool.add_arena(share, capacity * SLAB)
    return pool


def take(pool, arena, slabs):
    """As a scheduler does: a run that is refused is made as small as it has to be."""
    found = pool.lease(arena, slabs * SLAB)
    if isinstance(found, Refused):
        found = pool.lease(arena, found.room_bytes)
    assert not isinstance(found, Refused)
    return found


def slabs_of(lease):
    return lease.size_bytes // SLAB


def test_who_was_cut_gets_a_fair_part_after_one_run_of_the_other():
    pool = pool_of(100, a=(1, 10), b=(1, 10))
    first = take(pool, 0, 100)
    assert slabs_of(first) == 90
    second = take(pool, 1, 100)
    assert slabs_of(second) == 10
    pool.release(first, now_ns=1)
    first = take(pool, 0, 100)
    assert slabs_of(first) == 50, "its guarantee, and half of what is lent"
    pool.release(second, now_ns=2)
    assert slabs_of(take(pool, 1, 100)) == 50


def test_replicas_share_what_their_model_has():
    pool = pool_of(90, a=(3, 0))
    leases = [take(pool, 0, 90), take(pool, 1, 90), take(pool, 2, 90)]
    assert [slabs_of(lease) for lease in leases] == [90, 0, 0]
    for _ in range(2):
        for arena in range(3):
            pool.release(leases[arena], now_ns=1)
            leases[arena] = take(pool, arena, 90)
    assert [slabs_of(lease) for lease in leases] == [30, 30, 30]


def test_who_gets_what_it_asks_for_holds_nobody_back():
    pool = pool_of(100, a=(1, 0), b=(1, 0))
    first = take(pool, 0, 100)
    second = take(pool, 1, 40)
    pool.release(first, now_ns=1)
    pool.release(second, now_ns=1)
    before = pool.freed
    second = take(pool, 1, 40)
    assert pool.freed > before, "others may try again"
    assert slabs_of(take(pool, 0, 100)) == 60


def test_who_asks_for_nothing_any_more_is_forgotten_within_a_second():
    pool = pool_of(100, a=(1, 0), b=(1, 0))
    first = take(pool, 0, 100)
    pool.release(take(pool, 1, 100), now_ns=1)
    pool.release(first, now_ns=1)
    assert pool.lease(0, 1000) == Refused(500)
    pool.tidy(now_ns=TIDY_NS)
    assert slabs_of(take(pool, 0, 100)) == 100


def test_a_guarantee_is_never_cut_to_a_fair_part():
    pool = pool_of(100, a=(2, 80), b=(1, 0))
    lease = take(pool, 2, 100)
    assert slabs_of(lease) == 20
    assert slabs_of(take(pool, 0, 80)) == 80


def test_who_goes_holds_nobody_back():
    pool = pool_of(100, a=(1, 0), b=(1, 0))
    pool.release(take(pool, 0, 100), now_ns=1)
    take(pool, 0, 100)
    pool.release(take(pool, 1, 100), now_ns=1)
    pool.remove_share(pool.broker.shares["b"])
    pool.release(pool.arenas[0].lease, now_ns=2)
    assert slabs_of(take(pool, 0, 100)) == 100


class Greedy:
    """Models that always want more than there is, and start a run whenever an arena is free."""

    def __init__(self, models, spare, durations):
        """Of each model its arenas, guarantee, weights, smallest run and what it wants."""
        names = dict(zip("abcd", models, strict=False))
        capacity = spare + sum(max(model[1], model[2]) for model in models)
        self.pool = pool_of(capacity, **{name: model[:2] for name, model in names.items()})
        self.shares = [self.pool.broker.shares[name] for name in names]
        for share, model in zip(self.shares, models, strict=True):
            self.pool.hold(share, model[2] * SLAB)
        self.least = {s.name: m[3] for s, m in zip(self.shares, models, strict=True)}
        self.wants = {s.name: m[4] for s, m in zip(self.shares, models, strict=True)}
        self.durations = cycle(durations)
        self.longest = max(durations)
        self.now = 0
        self.ends = {}
        self.waits = {}
        self.runs = dict.fromkeys(self.pool.arenas, 0)
        self.got = {}

    def can_ever(self, share):
        return self.pool.broker.most(share) >= self.least[share.name]

    def attempt(self, place):
        pool, share = self.pool, place.share
        least, want = self.least[share.name], self.wants[share.name]
        used = share.fixed + sum(p.leased for p in pool.arenas.values() if p.share is share)
        found = pool.lease(place.index, want * SLAB)
        if isinstance(found, Refused):
            assert used + want > share.guarantee, "a guarantee is never refused"
            room = found.room_bytes // SLAB
            assert used + room >= min(share.guarantee, used + want)
            if room < least:
                if share.name not in self.waits:
                    ahead = len(pool._fairness.line)
                    self.waits[share.name] = self.now + (ahead + 2) * self.longest
                pool.stand_in_line(share)
                return
            found = pool.lease(place.index, room * SLAB)
            assert not isinstance(found, Refused)
        self.waits.pop(share.name, None)
        self.ends[place.index] = self.now + next(self.durations)
        self.got[place.index] = slabs_of(found)

    def step(self):
        pool = self.pool
        freed = -1
        while freed != pool.freed:
            freed = pool.freed
            for place in pool.arenas.values():
                if place.lease is None and self.can_ever(place.share):
                    self.attempt(place)
        pool.check_integrity()
        assert pool.broker.held <= pool.broker.capacity, "the budget is never passed"
        if any(map(self.can_ever, self.shares)):
            assert self.ends, "nobody runs and nobody can"
        for name, latest in self.waits.items():
            assert self.now <= latest, f"{name} waits for ever"
        if not self.ends:
            return False
        self.now = min(self.ends.values())
        for arena, end in list(self.ends.items()):
            if end == self.now:
                del self.ends[arena]
                self.runs[arena] += 1
                pool.release(pool.arenas[arena].lease, now_ns=self.now)
        return True


MODEL = st.tuples(
    st.integers(1, 3),
    st.integers(0, 10),
    st.integers(0, 10),
    st.integers(1, 15),
    st.integers(0, 60),
).map(lambda m: (*m[:4], m[3] + m[4]))


@given(
    st.lists(MODEL, min_size=2, max_size=4),
    st.integers(0, 40),
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
)
@settings(max_examples=200, deadline=None)
def test_greedy_models_get_their_guarantees_pass_no_budget_and_never_wait_for_ever(
    models, spare, durations
):
    greedy = Greedy(models, spare, durations)
    for _ in range(60):
        if not greedy.step():
            break


class Watched(Greedy):
    """Whoever is cut below a fair part has that part when the runs of that moment have ended."""

    def __init__(self, models, spare, durations):
        super().__init__(models, spare, durations)
        self.fair = {}
        for share, (arenas, guarantee, *_) in zip(self.shares, models, strict=True):
            part = (guarantee + spare // len(models)) // arenas
            for place in self.pool.arenas.values():
                if place.share is share:
                    self.fair[place.index] = min(part, self.wants[share.name])
        self.cut = {}

    def attempt(self, place):
        super().attempt(place)
        arena = place.index
        if self.got[arena] >= self.fair[arena]:
            self.cut.pop(arena, None)
            return
        until = self.cut.setdefault(arena, max(self.ends.values()))
        assert self.now <= until, "it was cut before, and all runs of then have ended"


@given(
    st.one_of(
        st.lists(st.tuples(st.just(1), st.integers(1, 10), st.integers(1, 60)), min_size=2),
        st.lists(st.tuples(st.integers(2, 5), st.just(0), st.integers(1, 60)), max_size=1),
    ).map(lambda models: models[:4]),
    st.integers(5, 40),
    st.lists(st.integers(1, 9), min_size=1, max_size=7),
)
@settings(max_examples=200, deadline=None)
def test_who_was_cut_has_a_fair_part_by_the_end_of_the_runs_of_that_moment(
    models, spare, durations
):
    greedy = Watched([(arenas, g, 0, 0, want) for arenas, g, want in models], spare, durations)
    for _ in range(60 if models else 0):
        greedy.step()


@pytest.mark.parametrize("slabs", [0, 5])
def test_who_wants_nothing_is_never_refused(slabs):
    pool = pool_of(10, a=(1, 0), b=(1, 0))
    take(pool, 0, 10 - slabs)
    assert not isinstance(pool.lease(1, 0), Refused)
