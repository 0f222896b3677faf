"""The scheduler in simulations against what is known exactly: queueing theory and clairvoyants."""

from itertools import islice
from math import ceil
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import request
from tests.support.simulated import (
    GPU,
    GPU_BATCH,
    GPU_CAPACITY,
    MINILM,
    MS,
    Law,
    gpu_policy,
    play,
    play_gpu,
)

from xirang.core.policy import Batching, Policy
from xirang.lab.oracles.bound import most_on_time_bound
from xirang.lab.oracles.clairvoyant import fewest_runs, most_on_time
from xirang.lab.oracles.enumerated import most_on_time_of_few
from xirang.lab.oracles.queues import batch_latency, single_latency
from xirang.lab.workload import Choice, Demands, Lognormal, Poisson, Workload

pytestmark = pytest.mark.slow

PATIENT = Choice((10**15,))
RUN_NS = [round(GPU.run_ns(rows=rows, length=1)) for rows in range(1, GPU_BATCH + 1)]


def play_patient(law, policy, *, rate, requests, seed):
    workload = Workload(Poisson(rate), Demands(budgets_ns=PATIENT))
    sent = islice(workload.requests(seed=seed), requests)
    return play({"model": (policy, law)}, sent, checked=False).result


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_batching_off_is_an_md1_queue(load):
    policy = Policy(batching=Batching.OFF, depth_max=10**6)
    result = play_patient(Law(5 * MS), policy, rate=load / 5 * 1000, requests=40_000, seed=3)
    assert result.latency_mean_ms == pytest.approx(single_latency(load, run=5.0), rel=0.02)
    assert result.busy == pytest.approx(load, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("rate_per_ms", [0.05, 0.5, 2.0])
def test_never_waiting_is_the_batch_queue_of_theory(rate_per_ms):
    result = play_patient(
        GPU, gpu_policy(efficiency=0.0), rate=rate_per_ms * 1000, requests=40_000, seed=5
    )
    exact = batch_latency(rate_per_ms, lambda rows: 5 + 0.25 * rows, rows_max=GPU_BATCH)
    assert result.latency_mean_ms == pytest.approx(exact, rel=0.02)


def arrivals_ns(load, *, requests, seed):
    """The instants of `play_gpu` with the same arguments."""
    workload = Workload(Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS,))))
    return [request.arrival_ns for request in islice(workload.requests(seed=seed), requests)]


@pytest.mark.parametrize("load", [0.9, 1.0, 1.2, 1.5, 2.0])
@pytest.mark.parametrize("efficiency", [0.0, 1.0])
def test_nearly_all_are_on_time_that_could_be(load, efficiency):
    requests = 3000
    result = play_gpu(load=load, requests=requests, seed=1, efficiency=efficiency).result
    instants = arrivals_ns(load, requests=requests, seed=1)
    best = most_on_time(instants, budget_ns=50 * MS, run_ns=RUN_NS)
    assert 0.975 * best <= round(result.on_time * requests) <= best


@pytest.mark.parametrize("load", [0.02, 0.1, 0.3, 0.5, 0.6, 0.7])
@pytest.mark.parametrize("seed", [1, 2])
def test_with_all_patience_batches_are_nearly_a_clairvoyants(load, seed):
    requests = 3000
    instants = arrivals_ns(load, requests=requests, seed=seed)
    least = fewest_runs(instants, budget_ns=50 * MS, run_ns=RUN_NS)
    result = play_gpu(load=load, requests=requests, seed=seed).result
    assert result.on_time == 1.0
    assert 0.975 <= least / result.runs <= 1.0


@pytest.mark.parametrize(("load", "share"), [(0.8, 0.98), (1.0, 0.95), (1.3, 0.92), (2.0, 0.85)])
def test_texts_of_all_lengths_are_on_time_nearly_up_to_the_bound(load, share):
    requests = 2000
    demands = Demands(
        lengths=Lognormal(30, 0.92, 3, 512),
        budgets_ns=Choice((200 * MS, 500 * MS, 1000 * MS), (0.5, 0.3, 0.2)),
    )
    stream = list(islice(Workload(Poisson(152 * load), demands).requests(seed=1), requests))
    bound = most_on_time_bound(
        stream,
        call_ns=MINILM.call_ns,
        row_ns=lambda length: length * (MINILM.element_ns + length * MINILM.square_ns),
    )
    policy = Policy(can_pad=True, window_ns_max=10**15, depth_max=10**6)
    result = play({"model": (policy, MINILM)}, stream, checked=False).result
    assert share * bound <= round(result.on_time * requests) <= bound


FEW = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from((20, 45, 90)), st.integers(1, 40)),
    min_size=1,
    max_size=7,
)
LAW = Law(call_ns=4 * MS, element_ns=0.3 * MS)


def few(drawn):
    return [
        request(i, at_ms=at, budget_ms=budget, length=length)
        for i, (at, budget, length) in enumerate(sorted(drawn), start=1)
    ]


def exact_and_ours(asked, *, instances):
    best = most_on_time_of_few(
        asked,
        run_ns=lambda chosen: round(
            LAW.run_ns(rows=len(chosen), length=max(r.length for r in chosen))
        ),
        devices=instances,
    )
    policy = Policy(instances=instances, can_pad=True, window_ns_max=10**12)
    result = play({"m": (policy, LAW)}, asked).result
    return best, round(result.on_time * len(asked))


@given(FEW, st.integers(1, 2))
@settings(max_examples=40, deadline=None)
def test_nobody_beats_the_enumeration_of_all_plans(drawn, instances):
    best, ours = exact_and_ours(few(drawn), instances=instances)
    assert ours <= best


@pytest.mark.parametrize(("instances", "share"), [(1, 0.88), (2, 0.94)])
def test_small_crowds_are_served_nearly_as_well_as_can_be(instances, share):
    random = Random(1)
    best = ours = 0
    for _ in range(50):
        drawn = [
            (random.randint(0, 40), random.choice((20, 45, 90)), random.randint(1, 40))
            for _ in range(6)
        ]
        both = exact_and_ours(few(drawn), instances=instances)
        best, ours = best + both[0], ours + both[1]
    assert share * best <= ours <= best


FLAT = Law(100 * MS)
"""A run takes a tenth of a second, however many of its 32 rows there are."""


def flat(**fields):
    """A hundred requests a second with budgets of a quarter of a second."""
    workload = Workload(Poisson(100), Demands(budgets_ns=Choice((250 * MS,))))
    policy = Policy(max_batch_size=32, window_ns_max=10**15, **fields)
    return play({"model": (policy, FLAT)}, islice(workload.requests(seed=1), 2000)).result


@pytest.mark.parametrize("rejects_early", [False, True])
def test_a_flat_law_is_shared_by_as_many_as_budgets_allow(rejects_early):
    result = flat(rejects_early=rejects_early)
    assert result.on_time == 1.0
    assert result.batch_mean >= 9
    assert result.latency_p99_ms <= 250


def test_at_no_load_a_request_takes_its_own_time():
    result = play_gpu(load=0.001, requests=300, efficiency=0.0).result
    assert result.latency_p50_ms == pytest.approx(5.25)
    assert result.latency_p99_ms <= 5.25 * ceil(1.9)
