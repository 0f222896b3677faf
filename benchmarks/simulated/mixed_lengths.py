"""Texts of mixed lengths with three budgets: between what is possible and what nobody can exceed.

The exact best of thousands of unlike requests is out of reach. Two figures bracket it: the share
of the best plan that was found in hindsight, and that of a bound which no schedule exceeds.
"""

from collections.abc import Sequence
from itertools import islice
from random import Random
from statistics import mean

from benchmarks.figures import Figure
from benchmarks.simulated.world import (
    TEXT_BUDGETS,
    TEXT_LENGTHS,
    TEXT_POLICY,
    TEXTS,
    play,
)
from xirang.core.request import Request
from xirang.lab.oracles.bound import most_on_time_bound
from xirang.lab.oracles.hindsight import most_on_time_found
from xirang.lab.simulator import Service
from xirang.lab.workload import Demands, Poisson, Workload

SEEDS = (1, 2)
COUNT = 4000


def row_ns(length: int) -> float:
    """A text's own part of a run of this length."""
    return length * (TEXTS.element_ns + length * TEXTS.square_ns)


CAPACITY = 1e9 / mean(row_ns(n) for n in islice(TEXT_LENGTHS.draws(Random(1)), 20_000))
"""Requests a second if calls and padding were free."""


def measure() -> list[Figure]:
    """Both brackets; the worst of the seeds."""
    figures = []
    for load in (0.8, 1.0, 1.3, 2.0):
        shares = [_shares(load, seed) for seed in SEEDS]
        name = f"mixed lengths, 3 budgets, load {load}: on time ÷"
        figures.append(Figure(f"{name} best plan found", min(s[0] for s in shares), 0.90))
        figures.append(Figure(f"{name} bound", min(s[1] for s in shares), 0.90))
    return figures


def _shares(load: float, seed: int) -> tuple[float, float]:
    demands = Demands(lengths=TEXT_LENGTHS, budgets_ns=TEXT_BUDGETS)
    stream = Workload(Poisson(load * CAPACITY), demands).requests(seed=seed)
    requests = list(islice(stream, COUNT))
    ours = answered(requests)
    found = most_on_time_found(requests, answered=answered)
    bound = most_on_time_bound(requests, call_ns=TEXTS.call_ns, row_ns=row_ns)
    assert ours <= found <= bound
    return ours / found, ours / bound


def answered(requests: Sequence[Request]) -> int:
    """How many the scheduler answers on time."""
    result = play({"model": (TEXT_POLICY, Service(TEXTS))}, requests).result
    return round(result.on_time * result.requests)
