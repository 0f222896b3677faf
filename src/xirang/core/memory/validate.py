"""Holds a plan against its lifetimes, in the plainest way there is.

It knows nothing of how plans are made: every pair of blocks is looked at. What a planner returns is
used only after this has found no fault in it.
"""

from collections.abc import Sequence

from xirang.core.memory.lifetime import Lifetimes


def fault_of(lifetimes: Lifetimes, offsets: Sequence[int], height_bytes: int) -> str | None:
    """What is wrong with a plan, in words; None if nothing is."""
    if len(offsets) != len(lifetimes):
        return f"{len(offsets)} offsets for {len(lifetimes)} blocks"
    tops = [offset + size for offset, size in zip(offsets, lifetimes.sizes_bytes, strict=True)]
    for block, (offset, top) in enumerate(zip(offsets, tops, strict=True)):
        if offset < 0 or top > height_bytes:
            return f"block {block} lies at {offset}…{top}, outside of 0…{height_bytes}"
        for other in range(block):
            is_shared = max(offset, offsets[other]) < min(top, tops[other])
            if is_shared and lifetimes.overlaps(block, other):
                return f"blocks {other} and {block} live at the same time and share addresses"
    return None
