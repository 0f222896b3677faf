"""What a model asks of the memory pool: its law from its footprint, its share from the settings.

Unless an operator says otherwise a model is promised what it holds and one run of its longest usual
row, as far as that is free; what it holds and its smallest run in any case.
"""

from collections.abc import Sequence
from pathlib import Path

from xirang.backends.executable import Footprint
from xirang.config import ModelSettings
from xirang.core.memory.account import Claim
from xirang.core.memory.polynomial import size_of
from xirang.core.memory.pool import SLAB_BYTES
from xirang.engine.model import Model
from xirang.repository.tiny_runs import LENGTH_MAX

MIB = 1 << 20


def claim_of(
    model: Model, footprint: Footprint | None, settings: ModelSettings, *, held_bytes: int
) -> Claim | None:
    """The claim of a model; none if nobody can say what it holds.

    Args:
        model: Whose.
        footprint: What its runs take; None if they allocate as they like.
        settings: What the operator grants it.
        held_bytes: What it holds as long as it is there, its weights.
    """
    device = getattr(footprint, "device", "")
    if footprint is None and model.workers is None and _is_elsewhere(model):
        return None
    held_bytes += model.policy.instances * getattr(footprint, "beside_bytes", 0)
    guarantee_bytes = settings.memory_guarantee_mib * MIB
    wish_bytes = 0
    if not guarantee_bytes:
        least_bytes, usual_bytes = (0, 0) if footprint is None else _runs_bytes(model, footprint)
        guarantee_bytes = _whole(held_bytes) + _whole(least_bytes)
        wish_bytes = _whole(held_bytes) + _whole(usual_bytes)
    return Claim(
        peaks=() if footprint is None else footprint.peaks,
        guarantee_bytes=guarantee_bytes,
        limit_bytes=settings.memory_limit_mib * MIB,
        fixed_bytes=held_bytes,
        keep_bytes=0 if footprint is None else settings.memory_keep_mib * MIB,
        may_go=settings.memory_evict,
        device=device,
        is_packed=getattr(footprint, "is_packed", False),
        wish_bytes=wish_bytes,
    )


def files_bytes(weights: Path) -> int:
    """Of the model's file, and of those beside it that hold its tensors."""
    beside = (weights.with_name(weights.name + end) for end in (".data", "_data"))
    return sum(each.stat().st_size for each in (weights, *beside) if each.is_file())


def _is_elsewhere(model: Model) -> bool:
    return str(getattr(model.executable, "device", "cpu")) != "cpu"


def _runs_bytes(model: Model, footprint: Footprint) -> tuple[int, int]:
    """What the smallest run takes, and one of a single row of the longest usual length."""
    signature, count = model.signature, model.signature.lengths
    rows = signature.rows_fixed or min(model.shapes.row_sizes, default=1)
    longest = model.shapes.length_max or LENGTH_MAX

    def peak_bytes(lengths: Sequence[int]) -> int:
        return footprint.peak_bytes(rows, size_of(tuple(lengths)))

    return peak_bytes([1] * count), peak_bytes([longest] * count)


def _whole(size_bytes: int) -> int:
    """In whole slabs: that is what a lease takes."""
    return -(-size_bytes // SLAB_BYTES) * SLAB_BYTES
