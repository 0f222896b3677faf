"""Time runs of many sizes for the cost model, and see from which size on larger stop paying."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from math import prod

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
LONG_NS = 60_000_000
"""Two runs of such a time are as good as three."""

SIZES = (64, 128, 256, 512)
"""Elements of the runs whose speed decides how large a run may usefully be. Beyond the last a run
gains little even where it gains, and keeps its instance from whoever comes meanwhile."""

SATURATION_ROUNDS = 3


def measure(
    lab: Lab, grid: Sequence[tuple[int, tuple[int, ...]]], whole: Allowance
) -> Iterator[Sample]:
    """Time runs, the small ones first, until the time for it is spent."""
    allowance = Allowance(whole.clock, SECONDS_MAX, within=whole)
    for rows, lengths in grid:
        ran_ns = best_ns(lab, rows=rows, lengths=lengths, clock=whole.clock)
        if ran_ns is not None:
            yield Sample(rows, prod(lengths), ran_ns)
        if allowance.is_spent:
            return


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


def best_ns(lab: Lab, *, rows: int, lengths: tuple[int, ...], clock: Clock) -> int | None:
    """The shortest of a few runs; None if the model refuses them."""
    inputs = lab.request(Asked(0, lengths, rows))
    times_ns: list[int] = []
    try:
        # The first warms caches and arenas up.
        while len(times_ns) < 2 or (len(times_ns) < 3 and times_ns[-1] < LONG_NS):
            times_ns.append(_run_ns(lab, inputs, Ran(rows, lengths), clock))
    except Exception as error:
        log.info("probe: the model refuses %d rows of %s: %s", rows, lengths, error)
        return None
    return min(times_ns)


def saturation(lab: Lab, *, rows_max: int, whole: Allowance) -> int | None:
    """The largest size whose time per element is within 4 % of the best size's.

    Up to there the cost model decides; beyond it runs get slower in a way that no law of rows and
    length shows (on a CPU they leave its caches).

    The sizes take turns, and the best of their turns counts: a busy machine slows some of them.
    """
    length = LENGTHS[1]
    clock = whole.clock
    allowance = Allowance(clock, SATURATION_SECONDS, within=whole)
    best: dict[int, float] = {}
    try:
        for turn in range(SATURATION_ROUNDS + 1):
            if turn > 1 and allowance.is_spent:
                break
            for rows in sorted({min(rows_max, size // length) for size in SIZES}):
                inputs = lab.request(Asked(0, (length,), rows))
                ran_ns = _run_ns(lab, inputs, Ran(rows, (length,)), clock)
                elements = rows * length
                if turn:  # the first warms up
                    best[elements] = min(best.get(elements, ran_ns), ran_ns / elements)
    except Exception as error:
        log.info("probe: the model refuses rows of %d: %s", length, error)
        return None
    return max(size for size, ns in best.items() if ns <= 1.04 * min(best.values()))


def _run_ns(lab: Lab, inputs: Mapping[str, Array], ran: Ran, clock: Clock) -> int:
    start_ns = clock.now_ns()
    lab.run(inputs, ran)
    return max(1, clock.now_ns() - start_ns)
