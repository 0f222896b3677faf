"""The broker: guarantees are kept, limits hold, the rest is lent."""

import pytest
from hypothesis import given, strategies as st

from xirang.core.memory.broker import Broker


def two(capacity=100, guarantee=30, limit=80):
    broker = Broker(capacity)
    return (
        broker,
        broker.add("a", guarantee=guarantee, limit=limit),
        broker.add("b", guarantee=guarantee, limit=limit),
    )


def test_what_nobody_is_owed_may_be_borrowed_up_to_the_limit():
    broker, a, _ = two()
    assert broker.room(a) == 70
    assert broker.take(a, 70)
    assert (a.borrowed, a.owed) == (40, 0)
    assert not broker.take(a, 1)


def test_a_guarantee_is_there_however_busy_the_others_are():
    broker, a, b = two()
    broker.take(a, 70)
    assert broker.take(b, 30)
    assert broker.missing(b, 5) == 5
    broker.give_back(a, 5)
    assert broker.take(b, 5)


def test_a_limit_holds_even_if_all_is_free():
    broker, a, _ = two(limit=40)
    assert broker.room(a) == 40


def test_guarantees_must_fit():
    broker, _, _ = two()
    assert broker.unpromised() == 40
    with pytest.raises(AssertionError):
        broker.add("c", guarantee=41, limit=41)


def test_who_goes_takes_its_guarantee_along():
    broker, a, _ = two()
    broker.remove("b")
    assert broker.room(a) == 80


def test_a_smaller_capacity_says_how_much_is_too_much():
    broker, a, _ = two()
    broker.take(a, 70)
    broker.resize(80)
    assert broker.excess() == 20
    assert broker.room(a) == 0
    broker.resize(200)
    assert broker.excess() <= 0


def test_the_most_is_what_is_left_when_nothing_runs():
    broker, a, b = two()
    broker.take(b, 50)
    assert broker.most(a) == 70
    b.fixed = 50
    assert broker.most(a) == 50
    a.fixed = 5
    assert broker.most(a) == 45


def test_what_is_taken_already_is_counted_even_if_it_is_too_much():
    broker, a, b = two()
    broker.take(a, 70)
    broker.count(b, 50)
    assert broker.excess() == 20
    assert broker.room(a) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-40, 40)), max_size=60))
def test_no_share_within_its_guarantee_is_ever_refused(acts):
    broker = Broker(60)
    shares = {
        n: broker.add(n, guarantee=g, limit=50) for n, g in zip("abc", (10, 20, 5), strict=True)
    }
    for name, slabs in acts:
        share = shares[name]
        if slabs >= 0:
            is_promised = share.held + slabs <= share.guarantee
            free = 60 - broker.held
            owed = sum(other.owed for other in shares.values() if other is not share)
            is_there = slabs <= min(free - owed, share.limit - share.held)
            assert broker.take(share, slabs) == is_there
            assert is_there or not is_promised
        else:
            broker.give_back(share, min(-slabs, share.held))
        broker.check_integrity()
        broker.check_promises()


SHARES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 40)), max_size=5)


@given(SHARES, st.integers(0, 40))
def test_wishes_are_granted_as_far_as_they_leave_others_theirs(asked, spare):
    broker = Broker(spare + sum(max(least, fixed) for least, fixed, _ in asked))
    for number, (least, fixed, wish) in enumerate(asked):
        share = broker.add(str(number), guarantee=least, limit=broker.capacity, wish=wish)
        share.fixed = fixed
        broker.count(share, fixed)
    broker.deal()
    broker.check_integrity()
    broker.check_promises()
    shares = list(broker.shares.values())
    wanted = sum(max(share.firm, share.wish) for share in shares)
    for share in shares:
        assert share.firm <= share.promised <= max(share.firm, share.wish)
        if wanted <= broker.capacity:
            assert share.promised == max(share.firm, share.wish)
        if share.wish <= broker.capacity - sum(o.firm for o in shares if o is not share):
            assert share.fixed + broker.most(share) >= share.wish, "it may have that when alone"


def test_who_comes_gets_what_it_needs_of_what_others_only_wished_for():
    broker = Broker(100)
    a = broker.add("a", guarantee=10, limit=100, wish=80)
    assert a.guarantee == 80
    b = broker.add("b", guarantee=50, limit=100)
    assert (a.guarantee, b.guarantee, broker.owed) == (50, 50, 100)
    broker.resize(60)
    assert (a.guarantee, b.guarantee) == (10, 50)
    broker.remove("b")
    broker.resize(100)
    assert a.guarantee == 80


def test_two_who_both_wish_for_nearly_all_get_little_of_it_but_may_borrow_all():
    broker = Broker(100)
    a, b = (broker.add(name, guarantee=5, limit=100, wish=90) for name in "ab")
    assert (a.guarantee, b.guarantee) == (10, 10)
    assert broker.most(a) == 90
