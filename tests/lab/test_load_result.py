"""Samples are folded into figures that agree with numpy and with hand counts."""

import numpy as np
import pytest

from xirang.lab.load.client import Fault
from xirang.lab.load.plan import ArrivalPlan, ClosedLoop, OpenLoop
from xirang.lab.load.result import SCATTER_POINTS, Samples, Spent, as_dict, summarize

MS = 1_000_000
PLAN = ArrivalPlan(ClosedLoop(2), duration_s=1.0, warmup_s=0.5, budget_ms=50)
QUIET = Spent(wall_ns=1_500 * MS, cpu_ns=150 * MS)


def samples_of(*rows):
    samples = Samples()
    for due_ms, sent_ms, done_ms, outcome in rows:
        samples.add(due_ns=due_ms * MS, sent_ns=sent_ms * MS, done_ns=done_ms * MS, outcome=outcome)
    return samples


def test_percentiles_are_numpys_over_good_answers_of_the_window():
    random = np.random.default_rng(0)
    latencies = random.integers(1, 400, 999)
    rows = [
        (600 + i % 300, 600 + i % 300, 600 + i % 300 + int(x), 200) for i, x in enumerate(latencies)
    ]
    rows += [(100, 100, 9_000, 200), (700, 700, 9_000, 500), (700, 700, 9_000, Fault.RESET)]
    result = summarize(PLAN, samples_of(*rows), QUIET)
    p50, p90, p99 = np.percentile(latencies, [50, 90, 99])
    assert result.p50_ms == pytest.approx(p50)
    assert result.p90_ms == pytest.approx(p90)
    assert result.p99_ms == pytest.approx(p99)
    assert result.latency_max_ms == latencies.max()
    assert result.latency_curve[0] == latencies.min()
    assert result.latency_curve[-1] == latencies.max()


def test_outcomes_are_counted_by_kind():
    result = summarize(
        PLAN,
        samples_of(
            (600, 600, 610, 200),
            (600, 600, 610, 429),
            (600, 600, 610, 429),
            (600, 600, 610, Fault.TIMEOUT),
            (400, 400, 410, 500),
        ),
        QUIET,
    )
    assert (result.sent, result.ok, result.errors) == (4, 1, 3)
    assert result.statuses == {200: 1, 429: 2}
    assert result.faults == {"timeout": 1}


def test_throughput_counts_answers_inside_the_window_and_goodput_those_in_budget():
    result = summarize(
        PLAN,
        samples_of(
            (400, 400, 510, 200),  # from the warm-up, answered inside: work of the window
            (600, 600, 640, 200),
            (600, 600, 700, 200),  # beyond the budget of 50 ms
            (1490, 1490, 1600, 200),  # answered after the window
        ),
        QUIET,
    )
    assert result.throughput == pytest.approx(3.0)
    assert result.goodput == pytest.approx(1.0)
    assert result.client_cpu == pytest.approx(0.1)


def test_a_point_that_ended_early_has_a_shorter_window():
    early = Spent(wall_ns=1_000 * MS, cpu_ns=0, note="stopped", unfinished=7)
    result = summarize(PLAN, samples_of((600, 600, 610, 200)), early)
    assert result.throughput == pytest.approx(2.0)
    assert result.errors == 7
    assert result.note == "stopped"


def test_latency_and_lateness_count_from_the_intended_instant():
    plan = ArrivalPlan(OpenLoop(10.0), duration_s=1.0, warmup_s=0.0)
    result = summarize(plan, samples_of((100, 180, 200, 200)), QUIET)
    assert result.p50_ms == pytest.approx(100.0)
    assert result.lateness_p99_ms == pytest.approx(80.0)
    assert result.rate_asked == 10.0
    assert result.goodput is None


def test_a_point_without_answers_has_no_latency():
    result = summarize(PLAN, Samples(), QUIET)
    assert result.p50_ms is None
    assert result.latency_curve == ()
    assert result.throughput == 0


def test_the_scatter_is_bounded():
    rows = [(600, 600, 601, 200)] * (2 * SCATTER_POINTS + 1)
    assert len(summarize(PLAN, samples_of(*rows), QUIET).latency_over_time) <= SCATTER_POINTS


def test_the_json_form_has_figures_and_no_curves():
    content = as_dict(summarize(PLAN, samples_of((600, 600, 610, 200)), QUIET))
    assert content["statuses"] == {"200": 1}
    assert "latency_max_ms" in content
    assert "latency_curve" not in content
