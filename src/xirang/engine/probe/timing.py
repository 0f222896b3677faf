"""Time runs of many sizes for the cost model, and see from which size on larger stop paying."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import fmean

from xirang.core.cost import Sample
from xirang.engine.clock import Clock
from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.findings import Ran
from xirang.engine.probe.lab import Lab
from xirang.engine.probe.values import Asked
from xirang.tensors.tensor import Array

log = logging.getLogger(__name__)

LENGTHS = (8, 32, 128, 512)
ROWS = (1, 2, 4, 8, 16, 32, 64)
SECONDS_MAX, SATURATION_SECONDS = 1.5, 0.8
ROUNDS = 3
"""After the first. More would find a moment of quiet for the small sizes, and none for the large
ones, which last longer than it: a call would seem too cheap."""

QUICK_NS = 60_000_000
"""A size that takes less is run a second time even if there is no time left: its first run would
say little of the others."""

SIZES = (64, 128, 256, 512)
"""Elements of the runs whose speed decides how large a run may usefully be. Beyond the last a run
gains little even where it gains, and keeps its instance from whoever comes meanwhile."""

SATURATION_ROUNDS = 4
SLOWER = 1.04
"""A size by so much dearer for each element than the best one is too large."""


@dataclass(slots=True)
class _Timed:
    """A size that is run again and again.

    Attributes:
        ran: At which.
        inputs: What it is given.
        best_ns: The shortest of its runs, the first of all not counted if there is another.
        spent_ns: On all of them but the first.
        count: How many there were.
    """

    ran: Ran
    inputs: Mapping[str, Array]
    best_ns: int = 0
    spent_ns: int = 0
    count: int = 0


def measure(
    lab: Lab, grid: Sequence[tuple[int, tuple[int, ...]]], whole: Allowance
) -> Iterator[Sample]:
    """Time runs, the small ones first, until the time for it is spent.

    The shortest of a size's runs counts, without the first, which warms caches and arenas up. They
    are not made one after the other but in rounds: whatever else the machine does for a tenth of a
    second would slow all runs of a small size and none of a large one, and what a call costs is
    told from small sizes alone. What time is left goes to whichever size had the least of it.
    """
    allowance = Allowance(whole.clock, SECONDS_MAX, within=whole)
    begun: list[_Timed] = []
    for rows, lengths in grid:
        timed = _Timed(Ran(rows, lengths), lab.request(Asked(0, lengths, rows)))
        # By itself the first would not do if there is time for no more than one size.
        if all(_run(lab, timed, whole.clock) for _ in range(1 if begun else 2)):
            begun.append(timed)
        if allowance.is_spent:
            break
    while (again := _next(begun)) is not None:
        if allowance.is_spent and (again.count > 1 or again.best_ns > QUICK_NS):
            break
        if not _run(lab, again, whole.clock):
            begun.remove(again)
    for timed in begun:
        yield Sample(timed.ran.rows, prod(timed.ran.lengths), timed.best_ns)


def _next(begun: Sequence[_Timed]) -> _Timed | None:
    left = [timed for timed in begun if timed.count <= ROUNDS]
    return min(left, key=lambda timed: timed.spent_ns, default=None)


def _run(lab: Lab, timed: _Timed, clock: Clock) -> bool:
    """Run a size once more; false if the model refuses it."""
    try:
        ran_ns = _run_ns(lab, timed.inputs, timed.ran, clock)
    except Exception as error:
        rows, lengths = timed.ran.rows, timed.ran.lengths
        log.info("probe: the model refuses %d rows of %s: %s", rows, lengths, error)
        return False
    timed.count += 1
    timed.best_ns = ran_ns if timed.count <= 2 else min(timed.best_ns, ran_ns)
    timed.spent_ns += 0 if timed.count == 1 else ran_ns
    return True


def grid_of(
    taken: Sequence[Sequence[int]], *, rows_max: int, length_max: int | None
) -> list[tuple[int, tuple[int, ...]]]:
    """Rows and sizes to time: wide for short rows, narrow for long ones."""
    if not taken:
        return [(rows, ()) for rows in ROWS if rows <= rows_max]
    if len(taken) > 1:
        # Images and the like: a run is long, its sizes are those that the model is known to take.
        ends = [(sizes[0], sizes[len(sizes) // 2], sizes[-1]) for sizes in taken]
        shapes = list(dict.fromkeys(zip(*ends, strict=True)))
        pairs = [(rows, shape) for shape in shapes for rows in (1, 2, 4) if rows <= rows_max]
        return sorted(pairs, key=lambda pair: pair[0] * prod(pair[1]))
    if taken[0][0] > LENGTHS[1]:
        # Its shortest row is long: sound, or columns of an image.
        pairs = [(rows, (taken[0][0],)) for rows in ROWS if rows <= rows_max]
        return [*pairs, *((rows, (taken[0][-1],)) for rows in (1, 4) if rows <= rows_max)]
    longest = min(length_max or LENGTHS[-1], LENGTHS[-1])
    lengths = [length for length in LENGTHS if length <= longest] or [longest]
    pairs = [
        (rows, (length,))
        for length in lengths
        for rows in (1, 4, 16, 32)
        if rows <= rows_max and (rows == 1 or rows * length <= SIZES[-1])
    ]
    return sorted(pairs, key=lambda pair: pair[0] * pair[1][0])


def saturation(lab: Lab, *, rows_max: int, whole: Allowance) -> int | None:
    """The largest size whose time per element is within 4 % of the best size's.

    Up to there the cost model decides; beyond it runs get slower in a way that no law of rows and
    length shows (on a CPU they leave its caches).

    The sizes take turns. A busy machine slows some of their runs, and of the long ones nearly all:
    so the best run of a size is held against the mean of another's. Where that does not tell, the
    larger size is kept, which costs less if it is wrong.
    """
    length = LENGTHS[1]
    allowance = Allowance(whole.clock, SATURATION_SECONDS, within=whole)
    rows_of = sorted({min(rows_max, size // length) for size in SIZES})
    times_ns: dict[int, list[float]] = {rows * length: [] for rows in rows_of}
    try:
        for turn in range(SATURATION_ROUNDS):
            if turn > 1 and allowance.is_spent:
                break
            for rows in rows_of:
                ran = Ran(rows, (length,))
                inputs = lab.request(Asked(0, (length,), rows))
                if ran not in lab.ran:
                    lab.run(inputs, ran)  # warms up
                ran_ns = _run_ns(lab, inputs, ran, whole.clock)
                times_ns[rows * length].append(ran_ns / (rows * length))
    except Exception as error:
        log.info("probe: the model refuses rows of %d: %s", length, error)
        return None
    mean_ns = min(map(fmean, times_ns.values()))
    return max(size for size, each in times_ns.items() if min(each) <= SLOWER * mean_ns)


def _run_ns(lab: Lab, inputs: Mapping[str, Array], ran: Ran, clock: Clock) -> int:
    start_ns = clock.now_ns()
    lab.run(inputs, ran)
    return max(1, clock.now_ns() - start_ns)
