"""The fast lane's share of the device, and how short the runs of others are kept."""

import pytest

from xirang.core.scheduling.fast import EXPECTED_NS, MEMORY_NS, FastShare, sub_run_elements

MS = 1_000_000


def test_a_steady_half_of_the_time_is_a_share_of_a_half():
    share = FastShare()
    for now_ns in range(0, 10 * MEMORY_NS, 10 * MS):
        share.on_given(5 * MS, now_ns)
    assert share.at(10 * MEMORY_NS, parallelism=1) == pytest.approx(0.5, rel=0.05)
    assert share.at(10 * MEMORY_NS, parallelism=2) == pytest.approx(0.25, rel=0.05)
    assert share.at(20 * MEMORY_NS, parallelism=1) < 1e-3


def test_fast_requests_are_expected_for_a_while_after_the_last():
    share = FastShare()
    assert not share.is_expected(0)
    share.on_arrival(5 * MS)
    assert share.is_expected(5 * MS + EXPECTED_NS - 1)
    assert not share.is_expected(5 * MS + EXPECTED_NS)


def test_a_sub_run_takes_ten_calls_or_what_is_set():
    assert sub_run_elements(call_ns=MS, element_ns=1e5, wait_ns=0) == 64  # 90, in powers of two
    assert sub_run_elements(call_ns=MS, element_ns=1e5, wait_ns=5 * MS) == 32
    assert sub_run_elements(call_ns=MS, element_ns=1e5, wait_ns=MS) == 1
    assert sub_run_elements(call_ns=MS, element_ns=0.0, wait_ns=5 * MS) > 1 << 60
