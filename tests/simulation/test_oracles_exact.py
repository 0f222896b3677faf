"""The oracles themselves, each against a naive twin that goes through everything."""

from functools import partial
from itertools import combinations, islice

import pytest
from hypothesis import given, settings, strategies as st
from tests.support.core import request

from xirang.lab.oracles.bound import most_on_time_bound
from xirang.lab.oracles.clairvoyant import fewest_runs, most_on_time
from xirang.lab.oracles.enumerated import most_on_time_of_few
from xirang.lab.oracles.hindsight import most_on_time_found
from xirang.lab.oracles.queues import batch_latency, batch_latency_bound, single_latency
from xirang.lab.workload import Choice, Demands, Lognormal, Poisson, Workload

MS = 1_000_000

ARRIVALS = st.lists(st.integers(0, 15), min_size=1, max_size=7).map(sorted)
TIMES = st.tuples(st.integers(1, 6), st.integers(0, 3), st.integers(1, 6)).map(
    lambda law: [law[0] + law[1] * rows for rows in range(1, law[2] + 1)]
)


def plans(requests, run_ns, *, free_ns=0):
    """Every plan of one device as (answered, runs): some of the rest make the next run, or none."""
    yield 0, 0
    for size in range(1, len(requests) + 1):
        for chosen in combinations(requests, size):
            time_ns = run_ns(chosen)
            if time_ns is None:
                continue
            end_ns = max(free_ns, *(r.arrival_ns for r in chosen)) + time_ns
            if end_ns <= min(r.deadline_ns for r in chosen):
                rest = [r for r in requests if r not in chosen]
                for answered, runs in plans(rest, run_ns, free_ns=end_ns):
                    yield answered + size, runs + 1


def table(times):
    return lambda chosen: times[len(chosen) - 1] if len(chosen) <= len(times) else None


@given(ARRIVALS, st.integers(1, 15), TIMES)
@settings(max_examples=60, deadline=None)
def test_a_clairvoyant_finds_the_best_of_all_plans(arrivals, budget, times):
    asked = [request(i, at_ms=at, budget_ms=budget) for i, at in enumerate(arrivals)]
    found = list(plans(asked, table([time * MS for time in times])))
    most = most_on_time(arrivals, budget_ns=budget, run_ns=times)
    assert most == max(answered for answered, _ in found)
    complete = [runs for answered, runs in found if answered == len(arrivals)]
    fewest = fewest_runs(arrivals, budget_ns=budget, run_ns=times)
    assert fewest == min(complete, default=None)


def test_a_clairvoyant_drops_whom_it_must():
    assert most_on_time([0, 0, 0], budget_ns=10, run_ns=[6]) == 1
    assert fewest_runs([0, 0, 0], budget_ns=10, run_ns=[6]) is None
    assert fewest_runs([0, 4, 5], budget_ns=10, run_ns=[3, 4, 5]) == 1
    assert fewest_runs([0, 4, 6], budget_ns=10, run_ns=[3, 4, 5]) == 2
    assert most_on_time([0, 4, 6], budget_ns=2, run_ns=[3, 4, 5]) == 0


UNLIKE = st.lists(
    st.tuples(
        st.integers(0, 20), st.sampled_from((8, 15, 40)), st.integers(1, 9), st.sampled_from("ab")
    ),
    min_size=1,
    max_size=5,
)


def padded_ns(chosen, *, call_ms):
    if len({r.model for r in chosen}) > 1:
        return None
    return (call_ms + len(chosen) * max(r.length for r in chosen)) * MS


def unlike(drawn):
    return [
        request(i, at_ms=at, budget_ms=budget, length=length, model=model)
        for i, (at, budget, length, model) in enumerate(sorted(drawn))
    ]


@given(UNLIKE, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_enumeration_finds_the_best_of_all_plans(drawn, call_ms):
    asked = unlike(drawn)
    run_ns = partial(padded_ns, call_ms=call_ms)
    one = most_on_time_of_few(asked, run_ns=run_ns)
    two = most_on_time_of_few(asked, run_ns=run_ns, devices=2)
    assert one == max(answered for answered, _ in plans(asked, run_ns))
    assert one <= two <= len(asked)
    assert two == max(  # each request goes to one of the devices, or to none
        best_of(first, run_ns) + best_of([r for r in asked if r not in first], run_ns)
        for size in range(len(asked) + 1)
        for first in combinations(asked, size)
    )


def best_of(requests, run_ns):
    return max(answered for answered, _ in plans(list(requests), run_ns))


@pytest.mark.slow
@given(UNLIKE, st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_no_plan_exceeds_the_bound(drawn, call_ms):
    asked = unlike([(*fields, "a") for *fields, _ in drawn])
    exact = most_on_time_of_few(asked, run_ns=partial(padded_ns, call_ms=call_ms))
    bound = most_on_time_bound(asked, call_ns=call_ms * MS, row_ns=lambda length: length * MS)
    assert exact <= bound <= len(asked)


def test_the_bound_is_near_what_one_request_after_another_reaches():
    budgets = Choice((100 * MS,))
    workload = Workload(Poisson(200), Demands(lengths=Lognormal(5, 0.5, 1, 30), budgets_ns=budgets))
    asked = list(islice(workload.requests(seed=1), 600))
    bound = most_on_time_bound(asked, call_ns=1, row_ns=lambda length: length * MS)
    free_ns = answered = 0
    for each in asked:
        end_ns = max(free_ns, each.arrival_ns) + each.length * MS
        if end_ns <= each.deadline_ns:
            free_ns, answered = end_ns, answered + 1
    assert answered <= bound < len(asked)
    assert answered > 0.85 * bound


def test_hindsight_refuses_the_longest_as_long_as_that_helps():
    asked = [request(i, length=1 + i) for i in range(100)]

    def answered(rest):
        return len(rest) if max(r.length for r in rest) <= 80 else 50

    assert most_on_time_found(asked, answered=answered) == 80
    assert most_on_time_found(asked, answered=len) == 100


@pytest.mark.parametrize("load", [0.3, 0.6, 0.9])
def test_the_batch_queue_of_one_row_is_md1(load):
    chain = batch_latency(load / 5, lambda rows: 5.0, rows_max=1, states=600)
    assert chain == pytest.approx(single_latency(load, run=5.0), rel=1e-4)
    assert single_latency(0.6, run=5.0) == pytest.approx(8.75)


@pytest.mark.parametrize("rate", [0.002, 0.02, 0.5, 1.0, 2.0])
def test_inoues_bound_is_just_above_the_chain(rate):
    chain = batch_latency(rate, lambda rows: 5 + 0.25 * rows, rows_max=10**6)
    bound = batch_latency_bound(rate, call=5, row=0.25)
    assert chain <= bound * (1 + 1e-6)
    assert bound <= chain * 1.01
