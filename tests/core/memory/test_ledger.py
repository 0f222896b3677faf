"""The ledger: who may take part, who waits, who could go, and what all of that looks like."""

from xirang.core.event import EvictionProposed
from xirang.core.memory.account import Claim
from xirang.core.memory.ledger import Ledger
from xirang.core.memory.polynomial import Polynomial
from xirang.core.memory.pool import TIDY_NS, PoolSettings

SLAB = 1000
ROWS = (Polynomial((0, 100, 0, 0, 0, 0)),)


def ledger_of(capacity=100_000, **claims):
    ledger = Ledger(PoolSettings(capacity, slab_bytes=SLAB))
    for name, claim in claims.items():
        ledger.open(name, Claim(ROWS, **claim), instances=2)
    return ledger


def test_a_promise_that_cannot_be_kept_is_refused_with_the_numbers():
    ledger = ledger_of(a={"guarantee_bytes": 60_000})
    assert ledger.refusal(Claim(ROWS, guarantee_bytes=40_000)) == ""
    words = ledger.refusal(Claim(ROWS, guarantee_bytes=40_001, fixed_bytes=5))
    assert "holds 5 bytes" in words
    assert "40001 promised" in words
    assert "40000 bytes are not promised" in words


def test_weights_beyond_a_models_limit_are_refused():
    ledger = ledger_of()
    assert "its limit is 7000 bytes" in ledger.refusal(
        Claim(ROWS, limit_bytes=7000, fixed_bytes=7001)
    )


def test_who_may_go_is_asked_once_between_two_looks():
    ledger = ledger_of(a={}, b={"may_go": True, "fixed_bytes": 50_000}, c={})
    a, c = ledger.accounts["a"], ledger.accounts["c"]
    for account in (a, c):
        refused = account.lease(0, 900, 1)
        assert refused is not None
        proposal = ledger.refused(account, refused, 5)
        assert proposal == (EvictionProposed("b", "a", 5) if account is a else None)
    assert ledger.accounts["b"].share.counts.evict == 1
    a.lease(0, 1, 1)
    a.release(0, now_ns=5)
    ledger.tidy(5 + TIDY_NS)
    assert ledger.refused(c, c.lease(0, 900, 1), 6) is not None


def test_who_goes_takes_its_share_along():
    ledger = ledger_of(a={}, b={"fixed_bytes": 50_000, "keep_bytes": 2000})
    ledger.close("b")
    ledger.close("never there")
    assert ledger.pool.broker.held == 0
    ledger.check_integrity()


def test_a_snapshot_is_in_bytes_and_by_model():
    ledger = ledger_of(
        a={"guarantee_bytes": 20_000, "limit_bytes": 70_000, "fixed_bytes": 9_500}, b={}
    )
    account = ledger.accounts["a"]
    account.lease(0, 105, 1)
    account.lease(1, 205, 1)
    account.release(1, now_ns=1, real_bytes=18_000)
    snapshot = ledger.snapshot()
    assert (snapshot.capacity_bytes, snapshot.held_bytes) == (100_000, 42_000)
    a, b = snapshot.shares
    assert (a.model, a.guarantee_bytes, a.limit_bytes) == ("a", 20_000, 70_000)
    assert (a.fixed_bytes, a.reserved_bytes) == (10_000, 140_000)
    assert (a.committed_bytes, a.leased_bytes, a.surplus_bytes) == (32_000, 11_000, 21_000)
    assert (a.waiting_bytes, a.predicted_bytes, a.real_bytes) == (0, 20_500, 18_000)
    assert dict(a.counts)["trim"] == 1
    assert (b.limit_bytes, b.committed_bytes) == (100_000, 0)


def test_a_device_has_a_pool_of_its_own():
    settings = PoolSettings(100_000, slab_bytes=SLAB, devices=(("cuda:0", 20_000),))
    ledger = Ledger(settings)
    assert "nobody counts the memory of cuda:1" in ledger.refusal(Claim(ROWS, device="cuda:1"))
    there = Claim(ROWS, guarantee_bytes=10_000, fixed_bytes=5000, device="cuda:0")
    host = ledger.open("host", Claim(ROWS), instances=2)
    device = ledger.open("device", there, instances=2)
    assert not set(host.arenas) & set(device.arenas)
    assert (host.rows_max(1), device.rows_max(1)) == (1000, 150)
    assert device.lease(0, 150, 1) is None
    assert host.lease(0, 1000, 1) is None
    refused = device.lease(1, 50, 1)
    assert refused is not None
    before = ledger.freed
    ledger.refused(device, refused, 5)
    device.release(0, now_ns=5)
    assert ledger.freed > before
    assert ledger.tidy_ns == 5 + TIDY_NS
    assert [resize.arena for resize in ledger.drain()] == [host.arenas[0], device.arenas[0]]
    told = ledger.snapshot()
    assert (told.capacity_bytes, told.held_bytes) == (100_000, 100_000)
    assert [(each.device, each.capacity_bytes, each.held_bytes) for each in told.devices] == [
        ("cuda:0", 20_000, 20_000)
    ]
    ledger.tidy(5 + TIDY_NS)
    ledger.check_integrity()
    ledger.close("device")
    assert ledger.devices["cuda:0"].broker.held == 0
    ledger.check_integrity()


def test_who_would_have_to_go_is_the_least_recently_used_of_those_that_may():
    ledger = ledger_of(
        a={"may_go": True, "fixed_bytes": 30_000},
        b={"may_go": True, "guarantee_bytes": 30_000},
        stays={"fixed_bytes": 30_000},
    )
    for name, used_ns in (("a", 5), ("b", 3)):
        account = ledger.accounts[name]
        account.lease(0, 1, 1)
        account.release(0, now_ns=used_ns)

    def goes(**claim):
        return ledger.who_goes(Claim(ROWS, **claim))

    assert goes(fixed_bytes=10_000) == []
    assert goes(fixed_bytes=40_000) == ["b"]
    assert goes(guarantee_bytes=70_000) == ["b", "a"]
    assert goes(guarantee_bytes=71_000) == [], "that would not be enough"
    assert goes(fixed_bytes=20_000, limit_bytes=15_000) == [], "nobody else is in its way"
    ledger.accounts["b"].lease(0, 1, 1)
    assert goes(fixed_bytes=40_000) == ["a"], "who runs stays"


def test_a_wish_is_a_guarantee_until_somebody_needs_it_more():
    ledger = ledger_of(a={"guarantee_bytes": 10_000, "wish_bytes": 60_000})
    (a,) = ledger.snapshot().shares
    assert a.guarantee_bytes == 60_000
    claim = Claim(ROWS, guarantee_bytes=90_000)
    assert ledger.refusal(claim) == ""
    ledger.open("b", claim, instances=1)
    assert [share.guarantee_bytes for share in ledger.snapshot().shares] == [10_000, 90_000]
    ledger.check_integrity()
