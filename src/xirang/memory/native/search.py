"""The search for a low plan at the speed of C, for a planner in the place of its own."""

from collections.abc import Callable, Sequence
from ctypes import byref, c_int64

import numpy as np

from xirang.core.memory.lifetime import Lifetimes
from xirang.core.memory.planner import Search
from xirang.core.memory.skyline import Skyline, Sought
from xirang.memory.native.library import Library

SUM_MAX = 1 << 60
"""What the sizes may come to; beyond, no sum could be relied on in 64 bits."""


def search_in(library: Library) -> Callable[[Lifetimes], Search]:
    """What `Planner` takes as `search`: finds what `Skyline.search` finds, in as many steps."""

    def search_of(lifetimes: Lifetimes) -> Search:
        if lifetimes.sum_bytes > SUM_MAX:
            return Skyline(lifetimes).search
        count = len(lifetimes)
        told = (lifetimes.starts, lifetimes.ends, lifetimes.sizes_bytes)
        arrays = [np.array(each, np.int64) for each in told]

        def search(height: int, ranks: Sequence[int], steps_max: int, *, is_wary: bool) -> Sought:
            ranked, offsets, steps = np.array(ranks, np.int64), np.zeros(count, np.int64), c_int64()
            found = library.search(
                count,
                *[array.ctypes.data for array in (*arrays, ranked)],
                min(height, SUM_MAX),
                steps_max,
                is_wary,
                offsets.ctypes.data,
                byref(steps),
            )
            plan: list[int] | None = offsets.tolist() if found == 1 else None
            return Sought(plan, is_exhausted=found < 0, steps=steps.value)

        return search

    return search_of


def search_at_hand() -> Callable[[Lifetimes], Search] | None:
    """The native search where it was built; None where the planner's own has to do."""
    try:
        return search_in(Library())
    except OSError:
        return None
