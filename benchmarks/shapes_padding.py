"""How much padding the scheduler's runs have, and their device time against the exact optimum.

128 requests wait; the scheduler itself drains them, on a virtual clock under a stated law, which is
MiniLM's on a quiet core. Nothing is run, so the figures are the same on every machine.
"""

from collections.abc import Callable, Sequence
from math import log
from random import Random

from tests.models import inputs as real

from benchmarks.figures import Figure
from xirang.core.cost import CostModel, Sample
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Done, Run
from xirang.core.scheduler import Scheduler
from xirang.lab.traces import load_histogram

WAITING, DRAWS, LENGTH_MAX = 128, 100, 512
WASTE_GOAL, TIME_GOAL = 0.12, 1.03
CALL_MS, ELEMENT_MS, SQUARE_MS = 2.07, 0.132, 0.00012
ELEMENTS_MAX = 512
"""Where the probe mostly finds that longer runs of MiniLM stop paying."""

BUDGET_NS = 1 << 50

Draw = Callable[[], list[int]]
"""Lengths of those who wait."""


def measure() -> list[Figure]:
    """Waste and time of each mix."""
    figures = []
    for name, draw in _mixes().items():
        waste, bounded, free = _drained(draw)
        figures += [
            Figure(f"padding waste, {name}, {WAITING} waiting", waste, WASTE_GOAL, False),
            Figure("… device time ÷ exact optimum within the bounds", bounded, TIME_GOAL, False),
            Figure("… device time ÷ exact optimum without bounds", free, TIME_GOAL, False),
        ]
    return figures


def _mixes() -> dict[str, Draw]:
    random = Random(3)
    pydoc = [len(real.tokenizer().encode(text).ids) for text in real.texts()]
    lengths, counts = load_histogram("text_corpora_wordpiece")
    sigma = log(95 / 26) / 1.2816  # of Debian's fortunes: a median of 26, a tenth above 95

    def fortunes() -> list[int]:
        return [round(random.lognormvariate(log(26), sigma)) for _ in range(WAITING)]

    return {
        "fortunes-like": fortunes,
        "pydoc": lambda: random.sample(pydoc, WAITING),
        "twelve corpora": lambda: random.choices(lengths, counts, k=WAITING),
    }


def _drained(draw: Draw) -> tuple[float, float, float]:
    cost = _law()
    elements = padding = time_ns = bounded_ns = free_ns = 0.0
    for _ in range(DRAWS):
        lengths = sorted(min(LENGTH_MAX, max(3, length)) for length in draw())
        runs = _runs(lengths, cost)
        elements += sum(run.elements for run in runs)
        padding += sum(run.padding for run in runs)
        time_ns += sum(cost.predict_ns(rows=run.rows, length=run.length) for run in runs)
        bounded_ns += _optimum_ns(lengths, cost, ELEMENTS_MAX)
        free_ns += _optimum_ns(lengths, cost, WAITING * LENGTH_MAX)
    return padding / elements, time_ns / bounded_ns, time_ns / free_ns


def _law() -> CostModel:
    cost = CostModel()
    sizes = [(rows, length) for rows in (1, 4, 16) for length in (8, 32, 128)]
    laws = [CALL_MS + r * n * (ELEMENT_MS + n * SQUARE_MS) for r, n in sizes]
    cost.fit([Sample(r, n, round(1e6 * ms)) for (r, n), ms in zip(sizes, laws, strict=True)])
    return cost


def _runs(lengths: Sequence[int], cost: CostModel) -> list[Run]:
    """All runs until nobody waits any more."""
    scheduler = Scheduler(devices={"cpu": 1})
    policy = Policy(can_pad=True, elements_max=ELEMENTS_MAX, depth_max=WAITING, window_ns_max=0)
    scheduler.add_model("m", policy, cost)
    for id, length in enumerate(Random(1).sample(list(lengths), len(lengths))):
        scheduler.submit(Request(id, "m", 0, BUDGET_NS, length=length), now_ns=0)
    runs: list[Run] = []
    now_ns = 0
    while actions := scheduler.poll(now_ns=now_ns):
        for action in actions:
            assert isinstance(action, Run), "budgets are endless"
            runs.append(action)
            now_ns += action.predicted_ns
            scheduler.complete(action.id, now_ns=now_ns, outcome=Done(action.predicted_ns))
    assert sum(run.rows for run in runs) == len(lengths)
    return runs


def _optimum_ns(lengths: Sequence[int], cost: CostModel, elements_max: int) -> float:
    """The plain search over all starts of all runs."""
    best = [0.0]
    for end, length in enumerate(lengths, 1):
        row_ns = cost.row_ns(length)
        starts = range(max(0, end - max(1, elements_max // length)), end)
        best.append(min(best[i] + cost.call_ns() + (end - i) * row_ns for i in starts))
    return best[-1]
