"""Find sizes and values that a model takes at all: its declaration may hide what it expects."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.lab import Lab
from xirang.engine.probe.values import Asked

SIZES_TRIED = (12, 32, 48, 64, 224, 16, 96, 128, 8, 3, 1, 256, 512, 576, 640, 1024)
"""Common sizes of texts, images and sounds; probing begins at the first that a model takes."""

SIDES_TRIED = (48, 32, 64)
"""Tried before those where there are several lengths: pictures are not as small as texts."""

PAIRS_TRIED = (32, 48, 64, 80, 96, 160, 192, 224, 256, 320)
"""Common heights and widths, where no common size does for both."""

_EXPECTED = re.compile(r"[Ee]xpected:? \[?(\d+)")
_WITHIN = re.compile(r"within the inclusive range \[-?\d+,\s*(\d+)\]")


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt: sizes, the end of whole numbers, and what a shared number is."""

    sizes: tuple[int, ...]
    ids_end: int
    shared: int = 1


def opening(lab: Lab, allowance: Allowance) -> tuple[int, ...] | str:
    """Sizes that the model takes, with the lab filled accordingly; or why it refused the first."""
    first = ""
    for attempt in _with_hints(lab, allowance):
        if isinstance(attempt, str):
            first = first or attempt
        else:
            return attempt.sizes
    return first or "it takes none of the common sizes"


def _with_hints(lab: Lab, allowance: Allowance) -> Iterator[Try | str]:
    """Refusals, until an attempt is taken."""
    queue = list(_tries(lab))
    done: set[Try] = set()
    while queue and (not allowance.is_spent or not done):
        attempt = queue.pop(0)
        if attempt in done:
            continue
        done.add(attempt)
        values = replace(lab.values, ids_end=attempt.ids_end, shared=attempt.shared)
        lab.fill_differently(values)
        try:
            lab.alone(Asked(0, attempt.sizes))
        except Exception as error:  # every library raises its own
            yield str(error)
            queue[:0] = _hints(str(error), attempt)
        else:
            yield attempt
            return


def _tries(lab: Lab) -> Iterator[Try]:
    count, end = len(lab.axes.lengths), lab.values.ids_end
    told = _told(lab)
    if count == 0:
        sizes: list[tuple[int, ...]] = [()]
    else:
        most = lab.length_max or max(SIZES_TRIED)
        common = SIZES_TRIED if count == 1 else (*SIDES_TRIED, *SIZES_TRIED)
        tried = dict.fromkeys(min(size, most) for size in common)
        sizes = [tuple(told.get(k, size) for k in range(count)) for size in tried]
    if count == 2:
        pairs = list(product(PAIRS_TRIED, repeat=2))
        sizes += [tuple(told.get(k, pair[k]) for k in range(2)) for pair in pairs]
    yield from (Try(one, end) for one in sizes[:5])
    yield from (Try(one, small) for small in (2, 1) for one in sizes[:1])
    yield from (Try(one, end, shared) for shared in (16_000, 0) for one in sizes[:5])
    yield from (Try(one, end) for one in sizes[5:])


def _told(lab: Lab) -> dict[int, int]:
    """Sizes that the operator said, by length."""
    return {
        k: lab.declared[name].sizes[axis]
        for k, places in enumerate(lab.axes.lengths)
        for name, axis in places
        if name in lab.declared and (lab.declared[name].sizes[axis:] or (0,))[0]
    }


def _hints(message: str, attempt: Try) -> Sequence[Try]:
    """What a refusal says it expected."""
    hints = []
    if found := _WITHIN.search(message):
        hints.append(replace(attempt, ids_end=min(attempt.ids_end, int(found[1]) + 1)))
    for number in _EXPECTED.findall(message):
        size = int(number)
        if 0 < size <= 4096:
            for k in range(len(attempt.sizes)):
                sizes = (*attempt.sizes[:k], size, *attempt.sizes[k + 1 :])
                hints.append(replace(attempt, sizes=sizes))
    return hints
