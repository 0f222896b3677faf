"""Cost models that outlive the process: kept beside the model, and checked when taken up again.

What a long measurement and days of traffic have taught is worth more than a fresh measurement of
three seconds. But the machine may be another one: a few runs tell whether it is as fast, faster or
slower, and the law is scaled by that. If they do not even agree among each other, the law is of
another model or another machine altogether, and is fitted anew.
"""

import logging
from collections.abc import Sequence
from statistics import median

import msgspec

from xirang.core.cost import CostModel, CostState, Sample
from xirang.repository.learned import Learned

log = logging.getLogger(__name__)

SAME = 1.25
"""Within this factor a few runs may differ on the same machine; the law is left as it is."""

AGREEING = 2.0
"""By more than this factor few of the runs may differ from what all of them say together."""


def kind_of(*, device: str, threads: int, is_rewritten: bool = False) -> str:
    """What a cost model is kept as: times are those of a graph on a device with so many threads."""
    graph = "-rewritten" if is_rewritten else ""
    return f"cost-{device.replace(':', '')}-{threads}{graph}"


def recall(learned: Learned, kind: str) -> CostModel | None:
    """The cost model that was kept; None if there is none that can be used."""
    value = learned.read(kind)
    if value is None:
        return None
    try:
        return CostModel.of(msgspec.convert(value, CostState))
    except (msgspec.ValidationError, ValueError) as error:
        log.warning("%s is ignored: %s", learned.path(kind), error)
        return None


def keep(learned: Learned, kind: str, cost: CostModel) -> bool:
    """Keep a cost model for the next start; false if it is cold or cannot be written."""
    if learned.folder is None or cost.is_cold:
        return False
    return learned.write(kind, msgspec.to_builtins(cost.state()))


def settled(
    saved: CostModel | None, samples: Sequence[Sample], *, probed: Sequence[Sample] = ()
) -> CostModel:
    """The cost model to begin with.

    Args:
        saved: What an earlier process knew, if anything.
        samples: What was measured now: all sizes if nothing was saved, else a few or none.
        probed: All sizes, measured at an earlier start: of use where a few tell that what was
            saved is of another model.
    """
    fits = saved is None or not samples or _is_law_of(saved, samples)
    if not fits:
        log.info("what was learned of run times does not fit a few runs now: it is fitted anew")
    if saved is None or not fits:
        cost = CostModel()
        if probed or samples:
            cost.fit(probed or samples)
        if probed and samples:
            cost.rescale(_speed(cost, samples))
        return cost
    factor = _speed(saved, samples)
    if not 1 / SAME <= factor <= SAME:
        log.info("this machine takes %.2f times as long as the one that was learned", factor)
        saved.rescale(factor)
    return saved


def _ratios(cost: CostModel, samples: Sequence[Sample]) -> list[float]:
    return [s.ran_ns / max(1, cost.predict_ns(rows=s.rows, length=s.length)) for s in samples]


def _speed(cost: CostModel, samples: Sequence[Sample]) -> float:
    return median(_ratios(cost, samples)) if samples else 1.0


def _is_law_of(cost: CostModel, samples: Sequence[Sample]) -> bool:
    speed = _speed(cost, samples)
    strange = [r for r in _ratios(cost, samples) if not speed / AGREEING <= r <= speed * AGREEING]
    return len(strange) * 3 < len(samples)
