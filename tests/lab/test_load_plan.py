"""Arrivals are seeded arithmetic: the same plan gives the same instants."""

import gzip

import numpy as np
import pytest

from xirang.errors import InvalidSetting
from xirang.lab.load.plan import (
    SECOND_NS,
    ArrivalPlan,
    ClosedLoop,
    OpenLoop,
    Trace,
    read_trace,
)


def test_same_seed_same_instants_other_seed_other_instants():
    poisson = OpenLoop(500.0)
    first = poisson.instants_ns(2 * SECOND_NS, seed=7)
    assert np.array_equal(first, poisson.instants_ns(2 * SECOND_NS, seed=7))
    assert not np.array_equal(first, poisson.instants_ns(2 * SECOND_NS, seed=8))


@pytest.mark.parametrize("variation", [0.0, 0.5, 1.0, 3.0])
def test_gaps_have_the_rate_and_the_variation_asked_for(variation):
    instants = OpenLoop(1000.0, variation).instants_ns(200 * SECOND_NS, seed=1)
    gaps = np.diff(instants)
    assert gaps.mean() == pytest.approx(1e6, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05, abs=1e-3)


def test_an_even_beat_is_exact():
    assert OpenLoop(4.0, 0.0).instants_ns(SECOND_NS, seed=0).tolist() == [
        250_000_000,
        500_000_000,
        750_000_000,
    ]


def test_instants_are_in_order_and_end_before_the_span():
    instants = OpenLoop(3000.0, 2.0).instants_ns(SECOND_NS, seed=3)
    assert (np.diff(instants) >= 0).all()
    assert instants[-1] < SECOND_NS


def test_request_count_counts_only_what_is_due_after_the_warm_up():
    plan = ArrivalPlan(OpenLoop(10.0, 0.0), duration_s=10, warmup_s=1, request_count=3)
    instants = plan.instants_ns()
    assert int((instants >= plan.warmup_ns).sum()) == 3
    assert int((instants < plan.warmup_ns).sum()) == 9


def test_trace_is_sorted_moved_to_zero_and_compressed(tmp_path):
    path = tmp_path / "busy.csv.gz"
    path.write_bytes(gzip.compress(b"t_ms,tokens\n1200,3\n1000,5\n1500.5,1\n"))
    trace = read_trace(path, compression=2.0)
    assert trace.recorded_ns.tolist() == [0, 200_000_000, 500_500_000]
    assert trace.instants_ns(SECOND_NS).tolist() == [0, 100_000_000, 250_250_000]
    assert trace.label == "busy ×2"
    assert trace.rate == pytest.approx(2 / 0.25025)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a,b\n1,2\n", "no column t_ms"),
        ("t_ms\n", "at least one"),
        ("t_ms\nsoon\n", "must hold numbers"),
        ("t_ms\nnan\n", "finite"),
        ("t_ms,x\n1,2\n,3\n", "must hold numbers"),
    ],
)
def test_a_bad_trace_is_named(tmp_path, content, complaint):
    path = tmp_path / "trace.csv"
    path.write_text(content)
    with pytest.raises(InvalidSetting, match=complaint):
        read_trace(path)


def test_a_missing_or_broken_trace_is_named(tmp_path):
    with pytest.raises(InvalidSetting, match=r"nowhere\.csv"):
        read_trace(tmp_path / "nowhere.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"not gzip")
    with pytest.raises(InvalidSetting, match=r"broken\.csv\.gz"):
        read_trace(broken)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ClosedLoop(0),
        lambda: OpenLoop(0.0),
        lambda: OpenLoop(float("nan")),
        lambda: OpenLoop(5.0, -1.0),
        lambda: Trace(np.zeros(1, np.int64), 0.0),
        lambda: ArrivalPlan(ClosedLoop(1), duration_s=0),
        lambda: ArrivalPlan(ClosedLoop(1), warmup_s=-1),
        lambda: ArrivalPlan(ClosedLoop(1), connections=0),
        lambda: ArrivalPlan(ClosedLoop(1), seed=-1),
        lambda: ArrivalPlan(OpenLoop(1e6), duration_s=3600),
    ],
)
def test_impossible_values_are_refused(make):
    with pytest.raises(InvalidSetting, match=r"expected|at most"):
        make()
