"""Workloads of every kind and many seeds through the checkers; what must hold in each of them."""

from itertools import islice

import pytest
from tests.support.simulated import (
    GPU,
    MINILM,
    MS,
    gpu_policy,
    play,
    play_gpu,
    service,
    some,
)

from xirang.core.policy import Batching, Policy
from xirang.lab.traces import load_trace
from xirang.lab.workload import (
    Choice,
    ClosedLoop,
    Demands,
    Gamma,
    Lognormal,
    Poisson,
    Recorded,
    Replay,
    Switching,
    Workload,
)

pytestmark = pytest.mark.slow

TEXTS = Lognormal(30, 0.92, 3, 512)
BUDGETS = Choice((200 * MS, 500 * MS, 1000 * MS), (0.5, 0.3, 0.2))
PRIORITIES = Choice((1, 2, 3), (0.2, 0.5, 0.3))
ENCODER = Policy(can_pad=True, elements_max=2048, window_ns_max=100 * MS, depth_max=500)

ARRIVALS = {
    "poisson, light": Poisson(40),
    "poisson, heavy": Poisson(190),
    "poisson, overload": Poisson(300),
    "gamma": Gamma(120, 3.0),
    "mmpp": Switching(120),
    "square": Switching(120, swing=0.5, is_random=False),
    "trace": Replay(load_trace("azure_llm_2023_code"), 100),
}


@pytest.mark.parametrize("arrivals", ARRIVALS.values(), ids=ARRIVALS)
@pytest.mark.parametrize("batching", Batching, ids=lambda batching: batching.value)
@pytest.mark.parametrize("seed", [1, 2])
def test_texts(arrivals, batching, seed):
    policy = Policy(
        batching=batching, can_pad=True, elements_max=2048, window_ns_max=50 * MS, depth_max=200
    )
    workload = Workload(arrivals, Demands(lengths=TEXTS, budgets_ns=BUDGETS, priorities=PRIORITIES))
    models = {"model": (policy, MINILM, service(MINILM, seed=seed, noise=0.1, outliers=0.01))}
    played = play(models, islice(workload.requests(seed=seed), 1200))
    assert played.result.requests == 1200
    assert played.result.runs > 0


def zoo(*, rate, share):
    """Four unlike models on two devices of one and two instances."""
    policies = {
        "texts": (Policy(device="a", can_pad=True, elements_max=2048), MINILM),
        "images": (gpu_policy(device="a", window_ns_max=20 * MS), GPU),
        "plain": (Policy(device="b", instances=2, batching=Batching.FIRST_COME), GPU),
        "single": (Policy(device="b", instances=2, batching=Batching.OFF), GPU),
    }
    demands = {
        "texts": Demands("texts", lengths=TEXTS, budgets_ns=BUDGETS),
        "images": Demands("images", budgets_ns=Choice((50 * MS, 150 * MS))),
        "plain": Demands("plain", budgets_ns=BUDGETS, rows=Choice((1, 2, 40, 200))),
        "single": Demands("single", budgets_ns=BUDGETS, groups=Choice(("x", "y"))),
    }
    workloads = [Workload(Poisson(rate * share[name]), demands[name]) for name in policies]
    return policies, workloads


@pytest.mark.parametrize("rate", [30, 150, 600])
@pytest.mark.parametrize("seed", range(3))
def test_several_models_and_devices(rate, seed):
    share = {"texts": 0.2, "images": 0.6, "plain": 0.1, "single": 0.1}
    models, workloads = zoo(rate=rate, share=share)
    play(models, some(workloads, seed=seed, requests=1500), devices={"a": 1, "b": 2})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_many_seeds(seed):
    models, workloads = zoo(
        rate=40 * (seed + 1), share={"texts": 0.4, "images": 0.4, "plain": 0.1, "single": 0.1}
    )
    play(models, some(workloads, seed=100 + seed, requests=6000), devices={"a": 1, "b": 2})


def test_the_same_seed_gives_the_same_decisions():
    first, second, other = (play_gpu(load=0.6, requests=2000, seed=seed) for seed in (5, 5, 6))
    assert first.log.digest() == second.log.digest()
    assert first.result == second.result
    assert first.log.digest() != other.log.digest()


@pytest.mark.slow
@pytest.mark.parametrize("efficiency", [0.0, 1.0])
def test_more_load_gives_larger_batches_until_windows_close(efficiency):
    loads = (0.05, 0.2, 0.4) if efficiency else (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
    batches = [
        play_gpu(load=load, requests=4000, efficiency=efficiency).result.batch_mean
        for load in loads
    ]
    assert batches == sorted(batches)
    assert batches[-1] > 4 * batches[0]


@pytest.mark.slow
def test_more_patience_gives_larger_batches_and_nobody_late():
    results = [play_gpu(load=0.2, requests=4000, efficiency=e).result for e in (0.0, 0.5, 1.0)]
    batches = [result.batch_mean for result in results]
    assert batches == sorted(batches)
    assert batches[2] > 4 * batches[0]
    assert all(result.on_time == 1.0 for result in results)


@pytest.mark.parametrize("load", [1.1, 1.3, 2.0])
def test_overload_serves_nearly_what_the_device_can(load):
    result = play_gpu(load=load, requests=8000, efficiency=0.5).result
    assert result.on_time >= 0.96 / load
    assert result.late <= 0.01 * result.requests


@pytest.mark.parametrize("efficiency", [0.5, 1.0])
def test_a_lone_closed_loop_client_never_waits(efficiency):
    loop = ClosedLoop(
        Demands(budgets_ns=Choice((1000 * MS,))), clients=1, requests=500, seed=1, think_ns=3 * MS
    )
    played = play(
        {"model": (gpu_policy(efficiency=efficiency), GPU)},
        loop.first(),
        following=loop.following,
    )
    assert played.result.requests == 500
    assert played.result.latency_max_ms == pytest.approx(5.25)


def test_closed_loop_clients_fill_batches():
    loop = ClosedLoop(
        Demands(lengths=TEXTS, budgets_ns=Choice((10_000 * MS,))),
        clients=64,
        requests=3000,
        seed=1,
    )
    played = play({"model": (ENCODER, MINILM)}, loop.first(), following=loop.following)
    assert played.result.requests == 3000
    assert played.result.on_time == 1.0
    assert played.result.busy > 0.99
    assert played.result.padding_waste < 0.12


def test_optimal_batches_need_less_device_time_than_first_come_and_none():
    results = {}
    for batching in Batching:
        policy = Policy(
            batching=batching, can_pad=True, max_batch_size=32, depth_max=10**6, efficiency=0.0
        )
        loop = ClosedLoop(Demands(lengths=TEXTS), clients=64, requests=2000, seed=4)
        played = play({"model": (policy, MINILM)}, loop.first(), following=loop.following)
        results[batching] = played.result.device_ms_per_request
    assert results[Batching.OFF] > 1.2 * results[Batching.OPTIMAL]
    assert results[Batching.FIRST_COME] > 2.0 * results[Batching.OPTIMAL]


def test_a_trace_keeps_its_rate_and_lengths():
    trace = load_trace("azure_llm_2023_conv")
    replay = Replay(trace, 50.0)
    demands = Demands(lengths=Recorded(trace.lengths, divisor=8.0), budgets_ns=BUDGETS)
    played = play(
        {"model": (ENCODER, MINILM)}, islice(Workload(replay, demands).requests(seed=1), 2000)
    )
    assert played.result.requests == 2000
    assert replay.compression == pytest.approx(50 / trace.rate)
