"""Workloads draw what they promise, and the same for the same seed."""

from itertools import islice, pairwise
from random import Random
from statistics import mean, median, pstdev

import pytest
from tests.support.simulated import MS

from xirang.lab.traces import Trace, load_trace
from xirang.lab.workload import (
    SECOND_NS,
    Choice,
    ClosedLoop,
    Demands,
    Gamma,
    Lognormal,
    Poisson,
    Recorded,
    Replay,
    Spread,
    Switching,
    Workload,
    mixed,
)

PROCESSES = {
    "poisson": (Poisson(100.0), 1.0),
    "gamma 0.5": (Gamma(100.0, 0.5), 0.5),
    "gamma 3": (Gamma(100.0, 3.0), 3.0),
    "mmpp": (Switching(100.0, swing=0.0), 1.0),
}


def gaps(arrivals, count=20_000, seed=1):
    instants = list(islice(arrivals.draws(Random(seed)), count))
    assert instants == sorted(instants)
    return [later - earlier for earlier, later in pairwise(instants)]


@pytest.mark.parametrize(("arrivals", "cv"), PROCESSES.values(), ids=PROCESSES)
def test_gaps_have_the_promised_mean_and_spread(arrivals, cv):
    found = gaps(arrivals)
    assert mean(found) == pytest.approx(SECOND_NS / 100, rel=0.06)
    assert pstdev(found) / mean(found) == pytest.approx(cv, rel=0.06)
    assert mean(gaps(arrivals.at_rate(400.0))) == pytest.approx(SECOND_NS / 400, rel=0.06)


@pytest.mark.parametrize("is_random", [True, False], ids=["mmpp", "square"])
def test_switching_keeps_its_mean_and_comes_in_clumps(is_random):
    arrivals = Switching(1000.0, swing=0.8, dwell_s=0.5, is_random=is_random)
    instants = list(islice(arrivals.draws(Random(1)), 60_000))
    assert len(instants) / instants[-1] * SECOND_NS == pytest.approx(1000, rel=0.08)
    counts = [0] * (instants[-1] // (SECOND_NS // 4) + 1)
    for at_ns in instants:
        counts[at_ns // (SECOND_NS // 4)] += 1
    assert max(counts) > 1.6 * 250
    assert min(counts[:-1]) < 0.5 * 250


def test_a_square_wave_is_high_first_and_then_low():
    arrivals = Switching(1000.0, swing=1.0, dwell_s=1.0, is_random=False)
    instants = list(islice(arrivals.draws(Random(1)), 3000))
    assert all((at_ns // SECOND_NS) % 2 == 0 for at_ns in instants)


def test_a_trace_repeats_and_compresses():
    trace = Trace("t", (0.0, 10.0, 40.0), ())
    replay = Replay(trace, trace.rate * 2)
    found = list(islice(replay.draws(Random(1)), 6))
    assert trace.rate == pytest.approx(50)
    assert found == [0, 5 * MS, 20 * MS, 30 * MS, 35 * MS, 50 * MS]


def test_quantised_stamps_are_spread_over_their_tick():
    trace = Trace("t", (0.0, 0.0, 0.0, 3000.0, 3000.0, 9000.0), ())
    found = list(islice(Replay(trace, trace.rate).draws(Random(1)), 6))
    assert len(set(found)) == 6
    assert found == sorted(found)
    assert found[2] < 3 * SECOND_NS <= found[3] < found[4] < 6 * SECOND_NS


def test_lognormal_lengths_are_clipped_around_their_median():
    lengths = list(islice(Lognormal(30, 0.92, 3, 512).draws(Random(1)), 20_000))
    assert median(lengths) == pytest.approx(30, abs=1)
    assert (min(lengths), max(lengths)) == (3, 512)


def test_recorded_lengths_keep_their_order():
    recorded = Recorded((800, 16, 9000), divisor=8.0)
    assert list(islice(recorded.draws(Random(1)), 4)) == [100, 2, 512, 100]


def test_choices_follow_their_weights():
    drawn = list(islice(Choice(("a", "b"), (3.0, 1.0)).draws(Random(1)), 8000))
    assert drawn.count("a") / 8000 == pytest.approx(0.75, abs=0.02)


def test_a_change_of_lengths_leaves_arrivals_as_they_were():
    def first(lengths):
        workload = Workload(Poisson(10), Demands(lengths=lengths))
        return [r.arrival_ns for r in islice(workload.requests(seed=1), 50)]

    assert first(Choice((1,))) == first(Lognormal(30, 1, 3, 99))


def test_a_mix_is_sorted_and_numbered_anew():
    workloads = [Workload(Poisson(10), Demands(model)) for model in "ab"]
    requests = list(islice(mixed(workloads, seed=1), 100))
    assert [r.id for r in requests] == list(range(1, 101))
    assert {r.model for r in requests} == {"a", "b"}
    assert all(a.arrival_ns <= b.arrival_ns for a, b in pairwise(requests))


def test_spread_requests_keep_everything_but_the_model():
    workload = Workload(Poisson(100.0), Demands(lengths=Lognormal(30, 0.9, 3, 512)))
    plain = list(islice(workload.requests(seed=1), 300))
    spread = list(map(Spread(["a", "b", "c"], seed=1), islice(workload.requests(seed=1), 300)))
    assert [(r.id, r.arrival_ns, r.length) for r in plain] == [
        (r.id, r.arrival_ns, r.length) for r in spread
    ]
    shares = [sum(r.model == name for r in spread) / 300 for name in "abc"]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.1)


def test_closed_loop_clients_send_one_after_another():
    loop = ClosedLoop(Demands(budgets_ns=Choice((50,))), clients=2, requests=3, seed=1, think_ns=10)
    first = list(loop.first())
    assert [r.id for r in first] == [1, 2]
    third = loop.following(first[0], 5000)
    assert (third.id, third.arrival_ns, third.deadline_ns) == (3, 5010, 5060)
    assert loop.following(first[1], 6000) is None


@pytest.mark.parametrize(
    ("name", "rows", "rate"),
    [("azure_llm_2023_code", 8819, 2.57), ("azure_llm_2023_conv", 19366, 5.53)],
)
def test_bundled_traces(name, rows, rate):
    trace = load_trace(name)
    assert len(trace.times_ms) == len(trace.lengths) == rows
    assert trace.rate == pytest.approx(rate, abs=0.01)
    assert trace.times_ms[0] == 0
    assert trace.quantum_ms == pytest.approx(0.1)
