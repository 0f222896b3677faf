"""Worlds that differ in one thing, side by side: what must stay the same, or get no worse."""

from itertools import islice

import pytest
from tests.support.simulated import (
    FOREVER_NS,
    GPU,
    GPU_BATCH,
    GPU_CAPACITY,
    MINILM,
    MS,
    gpu_policy,
    play,
    play_gpu,
    service,
)

from xirang.core.policy import Policy
from xirang.lab.policies.comparison import Comparison
from xirang.lab.policies.immediate import HeadFit
from xirang.lab.simulator import Simulator
from xirang.lab.simulator_result import Tally
from xirang.lab.workload import Choice, Demands, Gamma, Lognormal, Poisson, Workload

POINT = 0.01
"""A point of goodput."""

BLIP_RUN = 103
"""The slow run; whether a three times slow one tips head-fit over depends on who is waiting."""

BLIPS = {"3x at 0.8": (0.8, 3.0), "5x at 0.7": (0.7, 5.0)}
TEXTS = Lognormal(30, 0.92, 3, 512)
BUDGETS = Choice((200 * MS, 500 * MS, 1000 * MS), (0.5, 0.3, 0.2))
PRIORITIES = Choice((1, 2, 3), (0.2, 0.5, 0.3))


def head_fit(*, load, blips):
    """On-time share of head-fit EDF among the same requests as `play_gpu`'s."""
    workload = Workload(Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS,))))
    policy, tally = gpu_policy(), Tally()
    cost = GPU.learned(rows_max=policy.rows_max, lengths=[1])
    simulator = Simulator(
        {"model": (policy, cost, service(GPU, blips=blips))},
        devices={policy.device: 1},
        watchers=[tally],
        scheduler=Comparison(HeadFit, devices={policy.device: 1}),
    )
    simulator.run(islice(workload.requests(seed=7), 20_000))
    return tally.result().on_time


@pytest.mark.slow
@pytest.mark.parametrize(("load", "factor"), BLIPS.values(), ids=BLIPS)
@pytest.mark.parametrize("efficiency", [0.0, 0.5, 1.0])
def test_one_slow_run_costs_less_than_a_point_or_its_own_batch_more(load, factor, efficiency):
    slow = service(GPU, blips={BLIP_RUN: factor})
    calm = play_gpu(load=load, requests=20_000, seed=7, efficiency=efficiency)
    hit = play_gpu(load=load, requests=20_000, seed=7, efficiency=efficiency, service=slow)
    assert calm.result.on_time >= 0.999
    # The goal of one point is missed by five times the time at full patience. The slow run is a
    # full batch there, late as a whole, and holds the device for two budgets, in which some 150
    # others are late; smaller batches would miss the goal for their size (test_oracles.py).
    is_missed = efficiency == 1.0 and factor == 5.0
    allowed = POINT + GPU_BATCH / 20_000 if is_missed else POINT
    assert calm.result.on_time - hit.result.on_time < allowed


@pytest.mark.slow
@pytest.mark.parametrize(("load", "factor"), BLIPS.values(), ids=BLIPS)
def test_one_slow_run_tips_head_fit_over(load, factor):
    assert head_fit(load=load, blips={}) >= 0.999
    assert head_fit(load=load, blips={BLIP_RUN: factor}) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.7, 1.0, 1.5])
def test_adding_a_device_never_lowers_goodput(load):
    shares = [
        play_gpu(load=load, requests=5000, instances=devices).result.on_time
        for devices in (1, 2, 3)
    ]
    assert shares == sorted(shares)


@pytest.mark.slow
@pytest.mark.parametrize("arrivals", [Poisson(200.0), Gamma(120.0, 3.0)], ids=["poisson", "gamma"])
@pytest.mark.parametrize("efficiency", [0.0, 1.0])
def test_adding_a_device_never_lowers_goodput_of_texts(arrivals, efficiency):
    workload = Workload(arrivals, Demands(lengths=TEXTS, budgets_ns=BUDGETS))
    shares = []
    for devices in (1, 2, 4):
        policy = Policy(
            instances=devices, can_pad=True, efficiency=efficiency, window_ns_max=100 * MS
        )
        requests = islice(workload.requests(seed=3), 2500)
        shares.append(play({"model": (policy, MINILM)}, requests).result.on_time)
    assert shares == sorted(shares)


@pytest.mark.parametrize("load", [0.2, 0.6, 1.1])
def test_time_has_no_scale_but_the_memory(load, monkeypatch):
    """Twice as slow a world decides the same, twice as late."""
    logs = []
    for scale in (1, 2):
        monkeypatch.setattr("xirang.core.queueing.demand.MEMORY_NS", 2_000_000_000 * scale)
        law = type(GPU)(GPU.call_ns * scale, GPU.row_ns * scale)
        workload = Workload(
            Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS * scale,)))
        )
        requests = list(islice(workload.requests(seed=3), 1500))
        for request in requests:
            budget_ns = request.deadline_ns - request.arrival_ns
            request.arrival_ns *= scale
            request.deadline_ns = request.arrival_ns + budget_ns
        played = play({"model": (gpu_policy(), law)}, requests, scale=MS * scale)
        logs.append([decision[1:] for decision in played.log.decisions])
    assert logs[0] == logs[1]


@pytest.mark.parametrize("load", [0.9, 1.0, 1.3])
def test_a_higher_priority_is_not_served_worse(load):
    workload = Workload(
        Poisson(load * GPU_CAPACITY),
        Demands(budgets_ns=Choice((60 * MS,)), priorities=PRIORITIES),
    )
    policy = gpu_policy(window_ns_max=FOREVER_NS)
    played = play({"model": (policy, GPU)}, islice(workload.requests(seed=2), 8000))
    shares = played.result.on_time_by_priority
    assert shares[1] >= shares[2] - 0.005
    assert shares[2] >= shares[3] - 0.005


def test_a_raised_priority_is_not_served_worse():
    """The same requests, a tenth of them once as high and once as low ones."""
    shares = {}
    for priority in (1, 3):
        workload = Workload(Poisson(GPU_CAPACITY), Demands(budgets_ns=Choice((60 * MS,))))
        requests = list(islice(workload.requests(seed=4), 6000))
        for request in requests[::10]:
            request.priority = priority
        played = play({"model": (gpu_policy(), GPU)}, requests)
        shares[priority] = played.result.on_time_by_priority[priority]
    assert shares[1] >= shares[3]
