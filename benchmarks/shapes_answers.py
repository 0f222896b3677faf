"""One real model's requests in random company: is every answer that of the model run alone?"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
from tests.models import inputs as real
from tests.models.catalogue import MODELS_BY_NAME, RealModel

from xirang.config import ModelSettings
from xirang.core.policy import Batching
from xirang.engine.clock import MonotonicClock
from xirang.engine.probe import Kind
from xirang.engine.work import Member, work_of
from xirang.repository.discover import discover
from xirang.repository.load import Loaded, load
from xirang.tensors.tensor import Array

POOL = 48
"""Different requests of a model. Company is drawn from them, each time anew."""

SECONDS = 14.0
"""So long the runs of a model may take about, by which their largest number of requests is set."""

TOGETHER_MAX = 16
FIXED_RUNS = 40
"""Of a model whose batch is baked to one there is less to see."""

_TEXT: dict[str, Any] = {"length_max": 48}
_SHORTER: dict[str, dict[str, Any]] = {
    "all-MiniLM-L6-v2": _TEXT,
    "all-MiniLM-L6-v2-quantised": _TEXT,
    "splade-tiny": _TEXT,
    "paraphrase-MiniLM-L3-v2": _TEXT,
    "ocr-recognition": {"widths": (96, 160, 224)},
}
"""Requests that are drawn shorter than in the tests, so that a run takes tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came out for one model.

    Attributes:
        name: Of the model.
        runs: How many were made.
        right: Those in which every answer was right.
        requests: Answers that were compared.
        worst: The largest difference, against the largest value of the answer.
        padding: Padded elements ÷ all elements.
        verdict: As the probe said it.
        is_verdict_right: Whether its kind is what direct runs of the model show.
        seconds: It took, the probe included.
    """

    name: str
    runs: int
    right: int
    requests: int
    worst: float
    padding: float
    verdict: str
    is_verdict_right: bool
    seconds: float

    def words(self) -> str:
        """One line for people."""
        away = f"{self.worst:.1e} of the largest value" if self.worst else "exact"
        right = "right" if self.is_verdict_right else "WRONG"
        kind = self.verdict.partition(":")[0]
        return f"{self.requests} answers, {away}; {kind} ({right}), {self.seconds:.0f} s"


def names() -> list[str]:
    """All real models, the slow ones first."""
    slow = ["efficientnet-lite0", "magika", "ocr-recognition", "all-MiniLM-L6-v2", "ocr-detection"]
    return [*slow, *(name for name in MODELS_BY_NAME if name not in slow)]


def measure(name: str, batches: int) -> Found:
    """Load a model and run its requests in random company."""
    begun = perf_counter()
    real_model = MODELS_BY_NAME[name]
    real_model.require()
    (source,) = discover([real_model.source])
    settings = ModelSettings(learned="off", warmup_s=0, instances=1)
    loaded = load(source, settings, clock=MonotonicClock())
    requests = list(_requests(real_model, min(POOL, real_model.count)))
    alone_s = perf_counter()
    alone = [real_model.run_alone(each) for each in requests]
    alone_s = (perf_counter() - alone_s) / len(requests)
    kind = Kind.UNPROBED if loaded.findings is None else loaded.findings.kind
    is_fixed = not loaded.model.signature.is_batched
    is_single = is_fixed or loaded.model.policy.batching is Batching.OFF
    runs = min(batches, FIXED_RUNS) if is_fixed else batches
    together = 1 if is_single else max(2, min(TOGETHER_MAX, round(2 * SECONDS / batches / alone_s)))
    tolerance = 0.0 if _must_be_exact(loaded) else real_model.tolerance
    company = _Company(loaded, requests, together)
    right, compared, worst, padding = company.compared(alone, runs, tolerance)
    return Found(
        name=name,
        runs=runs,
        right=right,
        requests=compared,
        worst=worst,
        padding=padding,
        verdict=loaded.model.verdict,
        is_verdict_right=kind.value == real_model.verdict,
        seconds=perf_counter() - begun,
    )


def _requests(model: RealModel, count: int) -> Sequence[real.Inputs]:
    shorter = _SHORTER.get(model.name, {})
    assert not shorter or isinstance(model.requests, partial)
    make = partial(model.requests, **shorter) if shorter else model.requests
    return list(make(count))


class _Company:
    """Requests of one model, and who may share a run with whom."""

    def __init__(self, loaded: Loaded, requests: Sequence[real.Inputs], together: int) -> None:
        model = loaded.model
        self._work = work_of(model)
        self._together = together
        self._random = Random(11)
        self._members: list[Member] = []
        self._mates: dict[Hashable, list[int]] = defaultdict(list)
        for index, inputs in enumerate(requests):
            tensors = {name: model.tensor(name, value) for name, value in inputs.items()}
            extent = model.admit(tensors)
            prepared = model.prepare(tensors, extent)
            self._members.append(Member(prepared, extent, model.output_names))
            self._mates[extent.group].append(index)

    def compared(
        self, alone: Sequence[real.Inputs], runs: int, tolerance: float
    ) -> tuple[int, int, float, float]:
        """Right runs, answers, the worst difference, and padding's share."""
        right = compared = elements = own_elements = 0
        worst = 0.0
        for run in range(runs):
            chosen = self._drawn(run % len(self._members))
            members = [self._members[index] for index in chosen]
            results, _ = self._work(members, clock=MonotonicClock())
            pairs = zip(chosen, results, strict=True)
            away = max(_difference(alone[index], result) for index, result in pairs)
            right += away <= tolerance
            worst = max(worst, away)
            compared += len(chosen)
            extents = [member.extent for member in members]
            elements += sum(each.rows for each in extents) * max(each.length for each in extents)
            own_elements += sum(each.rows * each.length for each in extents)
        return right, compared, worst, 1 - own_elements / elements

    def _drawn(self, first: int) -> list[int]:
        """One of the pool in company of whoever may share its run."""
        mates = self._mates[self._members[first].extent.group]
        count = self._random.randint(1, self._together) - 1
        chosen = [first, *self._random.choices(mates, k=count)]
        self._random.shuffle(chosen)
        return chosen


def _difference(expected: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """The largest of all outputs, against the largest value; infinite where shapes differ."""
    worst = 0.0
    for name, one in expected.items():
        other = found[name]
        if one.shape != other.shape or one.dtype != other.dtype:
            return inf
        if np.array_equal(one, other):
            continue
        if one.dtype.kind != "f":
            return inf
        worst = max(worst, float(np.abs(one - other).max()) / float(np.abs(one).max()))
    return worst


def _must_be_exact(loaded: Loaded) -> bool:
    """What the verdict promises: nothing but rounding, or not even that."""
    findings = loaded.findings
    return findings is not None and (findings.kind is Kind.EXACT or findings.residual == 0.0)
