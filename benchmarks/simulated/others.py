"""A bursty trace (gaps with a spread of 13 times their mean), beside every comparison policy."""

from dataclasses import replace
from itertools import islice
from statistics import mean

from benchmarks.figures import Figure
from benchmarks.simulated.mixed_lengths import row_ns
from benchmarks.simulated.world import (
    IMAGES,
    IMAGES_BUDGET,
    IMAGES_CAPACITY,
    TEXT_BUDGETS,
    TEXT_POLICY,
    TEXTS,
    images_policy,
    play,
)
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.lab.policies.known import ALL, OURS, Contender, contender
from xirang.lab.simulator import Law, Service
from xirang.lab.simulator_result import Result
from xirang.lab.traces import load_trace
from xirang.lab.workload import Choice, Demands, Recorded, Replay, Workload

LOAD = 0.6
TRACE = load_trace("azure_llm_2023_code")
LENGTHS = Recorded(TRACE.lengths, divisor=8.0)
WINDOWS = ("window:5", "window:10", "window:20")


def measure() -> list[Figure]:
    """On-time share and economy of ours against the best of the others."""
    names = [name for name in ALL if name not in (OURS, "window")] + list(WINDOWS)
    others = [contender(name) for name in names]
    return [*one_shape(others), *texts(others)]


def one_shape(others: list[Contender]) -> list[Figure]:
    """Equal budgets; the largest batches are the best."""
    demands = Demands(budgets_ns=Choice((IMAGES_BUDGET,)))
    policy = replace(images_policy(), efficiency=1.0)
    rate = LOAD * IMAGES_CAPACITY
    ours, theirs = _compared(policy, IMAGES, demands, rate, others)
    name = "code trace, one shape:"
    return [
        _on_time(name, ours, theirs),
        _ratio(f"{name} mean batch", ours.batch_mean, {n: r.batch_mean for n, r in theirs.items()}),
    ]


def texts(others: list[Contender]) -> list[Figure]:
    """The trace's own lengths, three budgets; what counts is device time, not the batch's size."""
    demands = Demands(lengths=LENGTHS, budgets_ns=TEXT_BUDGETS)
    lengths = [max(1, min(512, round(length / 8))) for length in TRACE.lengths]
    rate = LOAD * 1e9 / mean(row_ns(length) for length in lengths)
    policy = replace(TEXT_POLICY, efficiency=1.0)
    ours, theirs = _compared(policy, TEXTS, demands, rate, others)
    name = "code trace, texts:"
    saved = {n: 1 / r.device_ms_per_request for n, r in theirs.items()}
    return [
        _on_time(name, ours, theirs),
        _ratio(f"{name} answers a device second", 1 / ours.device_ms_per_request, saved),
    ]


def _compared(
    policy: Policy, law: Law, demands: Demands, rate: float, others: list[Contender]
) -> tuple[Result, dict[str, Result]]:
    def requests() -> list[Request]:
        stream = Workload(Replay(TRACE, rate), demands).requests(seed=1)
        return list(islice(stream, len(TRACE.times_ms)))

    def played(by: Contender | None) -> Result:
        ruled = by.policy(policy) if by else policy
        return play({"model": (ruled, Service(law))}, requests(), contender=by).result

    return played(None), {other.name: played(other) for other in others}


def _on_time(name: str, ours: Result, theirs: dict[str, Result]) -> Figure:
    return _ratio(f"{name} on time", ours.on_time, {n: r.on_time for n, r in theirs.items()})


def _ratio(name: str, ours: float, theirs: dict[str, float]) -> Figure:
    best = max(theirs, key=lambda other: theirs[other])
    return Figure(f"{name} ÷ best other ({best})", ours / theirs[best], 1.0)
