"""Simulations against what is known exactly: queueing theory and clairvoyant planners."""

from itertools import islice
from math import ceil, exp, factorial

import pytest
from tests.support.simulated import GPU, GPU_CAPACITY, MS, Law, gpu_policy, play, play_gpu

from xirang.core.policy import Batching, Policy
from xirang.lab.workload import Choice, Demands, Poisson, Workload

PATIENT = Choice((10**15,))


def play_patient(law, policy, *, rate, requests, seed):
    workload = Workload(Poisson(rate), Demands(budgets_ns=PATIENT))
    sent = islice(workload.requests(seed=seed), requests)
    return play({"model": (policy, law)}, sent, checked=False).result


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_batching_off_is_an_md1_queue(load):
    run_ms = 5.0
    policy = Policy(batching=Batching.OFF, depth_max=10**6)
    rate = load / run_ms * 1000
    result = play_patient(Law(run_ms * MS), policy, rate=rate, requests=60_000, seed=3)
    expected = run_ms + load * run_ms / (2 * (1 - load))
    assert result.latency_mean_ms == pytest.approx(expected, rel=0.02)
    assert result.busy == pytest.approx(load, rel=0.02)


def batch_queue(rate_per_ms, run_ms, *, batch_max, states=300):
    """Mean latency of 'run all that wait, at most batch_max', by its chain of queue lengths."""
    chances = {}
    weights = [1.0 / states] * states
    for _ in range(400):
        following = [0.0] * states
        for waiting, weight in enumerate(weights, start=1):
            if weight < 1e-14:
                continue
            batch = min(waiting, batch_max)
            if batch not in chances:
                chances[batch] = poisson(rate_per_ms * run_ms(batch), states)
            for came, chance in enumerate(chances[batch]):
                left = waiting - batch + came
                following[min(states, max(1, left)) - 1] += weight * chance
        if max(abs(a - b) for a, b in zip(weights, following, strict=True)) < 1e-12:
            break
        weights = following
    time = area = 0.0
    for waiting, weight in enumerate(weights, start=1):
        batch = min(waiting, batch_max)
        span = run_ms(batch)
        time += weight * span
        area += weight * (waiting * span + rate_per_ms * span * span / 2)
        if waiting <= batch_max:
            time += weight * exp(-rate_per_ms * span) / rate_per_ms  # idle until the next comes
    return area / time / rate_per_ms


def poisson(mean, count):
    chances, term = [], exp(-mean)
    for i in range(count):
        chances.append(term)
        term *= mean / (i + 1)
    return chances


@pytest.mark.slow
@pytest.mark.parametrize("rate_per_ms", [0.05, 0.5, 2.0])
def test_never_waiting_is_the_batch_queue_of_theory(rate_per_ms):
    result = play_patient(
        GPU, gpu_policy(efficiency=0.0), rate=rate_per_ms * 1000, requests=60_000, seed=5
    )
    exact = batch_queue(rate_per_ms, lambda batch: 5 + 0.25 * batch, batch_max=64)
    assert result.latency_mean_ms == pytest.approx(exact, rel=0.02)


def fewest_runs(arrivals_ms, *, budget_ms, run_ms, batch_max):
    """A clairvoyant's least runs that answer all on time; None if even it cannot.

    done[j][b] is the earliest end of b runs that answer the first j requests.
    """
    count = len(arrivals_ms)
    never = float("inf")
    done = [{0: 0.0}]
    for j in range(1, count + 1):
        ends = {}
        for size in range(1, min(batch_max, j) + 1):
            deadline = arrivals_ms[j - size] + budget_ms
            if arrivals_ms[j - 1] + run_ms(size) > deadline:
                break
            for runs, end in done[j - size].items():
                ended = max(end, arrivals_ms[j - 1]) + run_ms(size)
                if ended <= deadline and ended < ends.get(runs + 1, never):
                    ends[runs + 1] = ended
        done.append(_worth_keeping(ends))
    return min(done[count], default=None)


def _worth_keeping(ends):
    kept, earliest = {}, float("inf")
    for runs in sorted(ends):
        if ends[runs] < earliest:  # more runs are of use only if they end earlier
            kept[runs] = earliest = ends[runs]
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.02, 0.1, 0.3, 0.5])
def test_with_all_patience_batches_are_nearly_a_clairvoyants(load):
    requests = 4000
    workload = Workload(Poisson(load * GPU_CAPACITY), Demands(budgets_ns=Choice((50 * MS,))))
    arrivals_ms = [r.arrival_ns / MS for r in islice(workload.requests(seed=1), requests)]
    least = fewest_runs(
        arrivals_ms, budget_ms=50.0, run_ms=lambda size: 5 + 0.25 * size, batch_max=64
    )
    result = play_gpu(load=load, requests=requests, seed=1).result
    assert result.on_time == 1.0
    assert least / result.runs >= 0.9


def test_at_no_load_a_request_takes_its_own_time():
    result = play_gpu(load=0.001, requests=300, efficiency=0.0).result
    assert result.latency_p50_ms == pytest.approx(5.25)
    assert result.latency_p99_ms <= 5.25 * ceil(1.9)


def test_poisson_chances_sum_to_one():
    assert sum(poisson(3.0, 60)) == pytest.approx(1.0)
    assert poisson(3.0, 5)[4] == pytest.approx(3.0**4 * exp(-3.0) / factorial(4))
