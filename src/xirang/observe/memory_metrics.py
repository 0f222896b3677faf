"""The memory pool on the metrics page: what each model has of it, and what happened to that."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from xirang.core.snapshot import MemorySnapshot, ShareSnapshot
from xirang.observe.exposition import Page, labels_of

KINDS: dict[str, Callable[[ShareSnapshot], int]] = {
    "guarantee": lambda s: s.guarantee_bytes,
    "fixed": lambda s: s.fixed_bytes,
    "reserved": lambda s: s.reserved_bytes,
    "committed": lambda s: s.committed_bytes,
    "leased": lambda s: s.leased_bytes,
    "surplus": lambda s: s.surplus_bytes,
    "waiting": lambda s: s.waiting_bytes,
}
"""What may be asked of a model's memory: see `ShareSnapshot`."""

_PEAKS: dict[str, tuple[str, Callable[[ShareSnapshot], int]]] = {
    "xirang_memory_predicted_bytes": (
        "What the largest run so far was expected to take.",
        lambda s: s.predicted_bytes,
    ),
    "xirang_memory_real_bytes": ("What the largest run so far took.", lambda s: s.real_bytes),
}


def memory_as_json(memory: MemorySnapshot) -> dict[str, Any]:
    """The pool and each share, in bytes, and what happened to them."""
    shares = [asdict(share) | {"counts": dict(share.counts)} for share in memory.shares]
    return asdict(memory) | {"shares": shares}


def write_memory(page: Page, memory: MemorySnapshot | None) -> None:
    """Write all series of the pool; without one they have no samples."""
    shares = () if memory is None else memory.shares
    name = "xirang_memory_pool_bytes"
    page.family(name, "gauge", "The memory pool: its capacity, and what models hold of it.")
    if memory is not None:
        told = (("capacity", memory.capacity_bytes), ("held", memory.held_bytes))
        page.samples(name, [(labels_of(kind=kind), size_bytes) for kind, size_bytes in told])
        for pool in memory.devices:
            told = (("capacity", pool.capacity_bytes), ("held", pool.held_bytes))
            page.samples(
                name, [(labels_of(device=pool.device, kind=kind), size) for kind, size in told]
            )
    name = "xirang_memory_bytes"
    page.family(name, "gauge", "A model's memory, by kind.")
    for share in shares:
        page.samples(
            name,
            [(labels_of(model=share.model, kind=kind), of(share)) for kind, of in KINDS.items()],
        )
    for name, (text, of) in _PEAKS.items():
        page.family(name, "gauge", text)
        page.samples(name, [(labels_of(model=share.model), of(share)) for share in shares])
    name = "xirang_memory_events_total"
    page.family(name, "counter", "How often something happened to a model's memory.")
    for share in shares:
        page.samples(
            name,
            [(labels_of(model=share.model, event=event), count) for event, count in share.counts],
        )
