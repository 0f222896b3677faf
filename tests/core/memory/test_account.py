"""An account: the law at hand, leases by shape, and a margin for laws that were wrong."""

import pytest
from hypothesis import given, strategies as st

from xirang.core.memory import account as module
from xirang.core.memory.account import Account, Claim
from xirang.core.memory.arena import Refused
from xirang.core.memory.polynomial import NOTHING, Factor, Polynomial, Term, made
from xirang.core.memory.pool import Pool, PoolSettings

SLAB = 1 << 20
LAW = (Polynomial((100 << 10, 10 << 10, 0, 5 << 10, 0, 0)), Polynomial((0, 0, 7168, 3072, 1024, 0)))


def account_of(peaks=LAW, *, capacity=100 << 20, instances=2, name="m", pool=None, **claim):
    pool = pool or Pool(PoolSettings(capacity, slab_bytes=SLAB))
    return Account(name, Claim(peaks, **claim), pool, instances=instances)


def plain(rows, length):
    return max(peak.bytes_at(rows, length) for peak in LAW)


@given(st.integers(1, 300), st.integers(1, 600))
def test_it_needs_what_the_law_says(rows, length):
    assert account_of().need_bytes(rows, length) == plain(rows, length)


@given(st.integers(1, 200), st.integers(0, 200 << 20), st.integers(1024, 3000))
def test_the_largest_run_within_a_size_fits_and_one_row_more_does_not(length, size, margin):
    account = account_of()
    account._margin = margin
    rows = account.rows_within(length, size)
    assert not rows or account.need_bytes(rows, length) <= size
    assert account.need_bytes(rows + 1, length) > size


TALL = made({Term(has_rows=True, factors=(Factor(0), Factor(1, 3, 4))): 512, Term(): 4096})


@given(st.integers(1, 40), st.tuples(st.integers(1, 99), st.integers(1, 99)))
def test_several_lengths_are_looked_up_by_each_of_them(rows, lengths):
    account = account_of((TALL, NOTHING))
    assert account.need_bytes(rows, lengths) == TALL.bytes_at(rows, lengths)
    most = account.rows_max(lengths)
    assert account.need_bytes(most, lengths) <= account.most_bytes()
    assert account.need_bytes(most + 1, lengths) > account.most_bytes()


def test_what_is_kept_of_several_lengths_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "LENGTHS_KEPT_MAX", 50)
    account = account_of((TALL,))
    for number in range(10_000):
        account.rows_max((1 + number % 100, 1 + number // 100))
    assert max(len(account._lines), len(account._fit)) <= 50


PACKED = made({Term(factors=(Factor(0),)): 1024, Term(factors=(Factor(1), Factor(1))): 64})


@given(st.lists(st.integers(1, 200), min_size=1, max_size=40))
def test_rows_end_to_end_need_what_all_and_the_longest_need(run):
    account = account_of((PACKED,), is_packed=True)
    need = account.need_bytes(len(run), (sum(run), max(run)))
    assert need == 1024 * sum(run) + 64 * max(run) ** 2
    assert need <= account.need_bytes(len(run), max(run)), "as if all were as long as that"


@given(st.integers(1, 300), st.integers(0, 10**7))
def test_the_largest_run_of_equal_rows_end_to_end(length, size):
    account = account_of((PACKED,), is_packed=True)
    rows = account.rows_within(length, size)
    assert not rows or account.need_bytes(rows, length) <= size
    assert account.need_bytes(rows + 1, length) > size
    assert not account._lines, "no two runs are alike: nothing is kept of them"


def test_a_model_whose_rows_take_nothing_has_no_bound():
    assert account_of((NOTHING,)).rows_max(5) > 1_000_000


def test_the_most_rows_follow_the_pool():
    pool = Pool(PoolSettings(100 << 20, slab_bytes=SLAB))
    account = account_of(pool=pool)
    assert account.most_bytes() == 100 << 20
    many = account.rows_max(10)
    assert account.need_bytes(many, 10) <= 100 << 20 < account.need_bytes(many + 1, 10)
    other = account_of(pool=pool, name="other", guarantee_bytes=40 << 20, fixed_bytes=50 << 20)
    assert account.most_bytes() == 50 << 20
    assert account.rows_max(10) < many
    pool.remove_share(other.share)
    assert account.rows_max(10) == many


def test_a_limit_counts_weights():
    account = account_of(limit_bytes=30 << 20, fixed_bytes=10 << 20)
    assert account.most_bytes() == 20 << 20
    assert account.share.fixed == 10


def test_each_instance_has_an_arena_and_one_lease():
    account = account_of()
    assert account.lease(0, 10, 10) is None
    assert account.lease(1, 5, 10) is None
    assert [account.leased_bytes(i) for i in (0, 1)] == [plain(10, 10), plain(5, 10)]
    account.check_integrity()
    account.release(0, now_ns=1)
    assert account.lease(0, 1, 1) is None
    with pytest.raises(AssertionError):
        account.lease(0, 1, 1)


def test_a_refusal_offers_a_size_and_leaves_no_lease():
    account = account_of(limit_bytes=20 << 20)
    assert account.lease(0, 500, 10) == Refused(20 << 20)
    assert account.lease(0, account.rows_within(10, 20 << 20), 10) is None


def test_who_took_more_gets_more_from_then_on():
    account = account_of()
    account.lease(0, 10, 10)
    leased = account.leased_bytes(0)
    account.release(0, now_ns=1, real_bytes=2 * leased)
    assert account.need_bytes(10, 10) == 2 * leased
    assert account.real_bytes == 2 * leased
    rows = account.rows_max(10)
    assert 2 * plain(rows, 10) <= 100 << 20 < 2 * plain(rows + 1, 10)
    for _ in range(1000):
        account.lease(0, 10, 10)
        account.release(0, now_ns=1, real_bytes=leased)
    assert account.need_bytes(10, 10) == leased, "it was the exception"


def test_the_margin_never_goes_below_what_the_last_run_took():
    account = account_of()
    for real in (1.0, 1.5, 0.8, 1.2, 1.4):
        real_bytes = int(real * plain(400, 10))
        account.lease(0, 400, 10)
        account.release(0, now_ns=1, real_bytes=real_bytes)
        assert account.need_bytes(400, 10) + SLAB > real_bytes


def test_what_fits_in_the_last_slab_is_no_surprise():
    account = account_of()
    account.lease(0, 10, 10)
    account.release(0, now_ns=1, real_bytes=SLAB)
    assert account.need_bytes(10, 10) == plain(10, 10)


def test_runs_that_take_less_than_a_slab_of_their_lease_are_counted():
    account = account_of()
    for real in (plain(500, 10), plain(500, 10) - SLAB):
        account.lease(0, 500, 10)
        account.release(0, now_ns=1, real_bytes=real)
    assert account.share.counts.trim == 1
    assert account.predicted_bytes == plain(500, 10)


def test_ten_thousand_lengths_leave_a_bounded_account():
    account = account_of()
    for length in range(1, 10_001):
        account.rows_max(length)
        account.need_bytes(3, length)
    assert len(account._lines) <= 4096
    assert len(account._fit) <= 4096


@pytest.mark.parametrize("size", [(0, 1), (1, 1), (1 << 40, 1), (1, 1 << 40), (1 << 62, 1 << 62)])
def test_sizes_of_zero_and_beyond_all_bounds_are_sizes(size):
    account = account_of()
    refused = account.lease(0, *size)
    assert (refused is None) == (plain(*size) <= 100 << 20)
