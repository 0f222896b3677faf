"""What a model asks of the memory pool: its law from its footprint, its share from the settings."""

from pathlib import Path

from xirang.backends.executable import Footprint
from xirang.config import ModelSettings
from xirang.core.memory.account import Claim

MIB = 1 << 20


def claim_of(
    footprint: Footprint | None, settings: ModelSettings, *, weights: Path | None
) -> Claim | None:
    """The claim of a model; none if it allocates as it likes.

    Args:
        footprint: What its runs take, if that is known.
        settings: What the operator grants it.
        weights: The file with its weights.
    """
    if footprint is None:
        return None
    return Claim(
        peaks=footprint.peaks,
        guarantee_bytes=settings.memory_guarantee_mib * MIB,
        limit_bytes=settings.memory_limit_mib * MIB,
        fixed_bytes=0 if weights is None else _size_bytes(weights),
        keep_bytes=settings.memory_keep_mib * MIB,
        may_go=settings.memory_evict,
    )


def _size_bytes(weights: Path) -> int:
    """Of the model's file, and of those beside it that hold its tensors."""
    beside = (weights.with_name(weights.name + end) for end in (".data", "_data"))
    return sum(each.stat().st_size for each in (weights, *beside) if each.is_file())
