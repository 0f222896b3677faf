"""Rates and shares of tenants."""

import pytest
from hypothesis import given, strategies as st

from xirang.core.admission.tenants import Allowance, Tenant

SECOND = 1_000_000_000
MS = 1_000_000


def ask(tenant, now_ns, work_ns=MS, capacity_ns=100 * MS):
    return tenant.refusal(now_ns=now_ns, work_ns=work_ns, capacity_ns=capacity_ns)


def test_a_burst_of_a_second_passes_and_then_the_rate_holds():
    tenant = Tenant("shop", Allowance(rate=10))
    assert [ask(tenant, 0) for _ in range(10)] == [None] * 10
    refused = ask(tenant, 0)
    assert refused.reason == "'shop' may ask 10 times a second"
    assert refused.retry_after_ns == pytest.approx(SECOND / 10, rel=1e-6)
    assert ask(tenant, refused.retry_after_ns) is None
    assert ask(tenant, refused.retry_after_ns) is not None


def test_a_rate_below_one_lets_one_through():
    tenant = Tenant("night", Allowance(rate=0.5))
    assert ask(tenant, 0) is None
    assert ask(tenant, SECOND) is not None
    assert ask(tenant, 2 * SECOND) is None


@given(st.lists(st.integers(0, 20 * MS), min_size=1, max_size=300), st.floats(1, 500))
def test_no_window_of_time_sees_more_than_its_rate_and_a_burst(gaps_ns, rate):
    tenant, now_ns, passed = Tenant("t", Allowance(rate=rate)), 0, 0
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        passed += ask(tenant, now_ns) is None
    assert passed <= rate * now_ns / SECOND + max(1.0, rate) + 1e-6


def test_a_share_bounds_the_work_that_is_in_and_comes_free_again():
    tenant = Tenant("bulk", Allowance(share=0.3))
    for _ in range(3):
        assert ask(tenant, 0, work_ns=10 * MS) is None
        tenant.on_admitted(10 * MS)
    assert ask(tenant, 0, work_ns=10 * MS).reason == "'bulk' may hold 30% of the device at once"
    tenant.on_left(10 * MS)
    assert ask(tenant, 0, work_ns=10 * MS) is None


def test_a_request_larger_than_the_share_runs_when_nothing_else_is_in():
    tenant = Tenant("bulk", Allowance(share=0.1))
    assert ask(tenant, 0, work_ns=90 * MS) is None
    tenant.on_admitted(90 * MS)
    assert ask(tenant, 0, work_ns=MS) is not None


def test_a_refusal_for_the_share_costs_no_token():
    tenant = Tenant("bulk", Allowance(rate=1, share=0.1))
    tenant.on_admitted(20 * MS)
    assert "device" in ask(tenant, 0).reason
    tenant.on_left(20 * MS)
    assert ask(tenant, 0) is None
