"""See which axes move, and which move together, by running several sizes; believe nothing else."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from xirang.core.signature import Dim, Layout, TensorSpec, Tie
from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.lab import Lab
from xirang.engine.probe.reading import symbol
from xirang.engine.probe.values import Asked, shape_of

log = logging.getLogger(__name__)

STEPS = (1, 2, 3, 5, 8)
"""Added to a size that works: they tell one stride from another."""

STEPS_COARSE = (16, 32)
"""Tried where a model takes no neighbours of a size: it may want multiples."""

FACTORS = (2, 4, 7)
TAKEN_MIN = 3
ELEMENTS_MAX = 1 << 20
"""Of an input of one row, all its lengths enlarged alike: a picture of 512 x 512, two seconds of
sound. Company of eight such rows is run."""

LONG_NS = 40_000_000
"""Where two rows took so long, no larger size is tried: it would be run some twenty times."""

STRIDE_MAX, FACTOR_MAX = 64, 64


@dataclass(frozen=True, slots=True)
class Seen:
    """One run: what went in, and the shapes that came out."""

    rows: int
    sizes: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class Movement:
    """What was seen.

    Attributes:
        can_grow: Whether it takes more than one row.
        base: Sizes at which it runs.
        taken: For each length all sizes that it took, ascending.
        layouts: Of the outputs.
        loose: Lengths that move an output in a way that cannot be cut back.
        is_entangled: Whether an output's rows cannot be told apart.
        seen: All runs.
    """

    can_grow: bool
    base: tuple[int, ...]
    taken: list[list[int]]
    layouts: dict[str, Layout]
    loose: set[int]
    is_entangled: bool
    seen: list[Seen]


def explore(lab: Lab, base: tuple[int, ...], allowance: Allowance) -> Movement:
    """Vary rows and lengths; lengths that do not vary alone are joined or fixed in the lab."""
    seen: list[Seen] = []
    one = _look(lab, 1, base, seen)
    # Other values, same sizes: shapes that follow values belong to nobody.
    other = _look(lab, 1, base, seen, seed=1)
    can_grow = bool(lab.axes.batch) and _look(lab, 2, base, seen) and _look(lab, 3, base, seen)
    rows = 2 if can_grow else 1
    taken = [_vary(lab, rows, base, [k], seen, allowance) for k in range(len(base))]
    stuck = [k for k, sizes in enumerate(taken) if len(sizes) == 1]
    if len(stuck) > 1 and len({base[k] for k in stuck}) == 1:
        together = _vary(lab, rows, base, stuck, seen, allowance)
        if len(together) > 1:
            taken[stuck[0]] = together
            lab.axes = lab.axes.joined(stuck)
            base, taken, seen = _dropped(set(stuck[1:]), base, taken, seen)
            stuck = []
    _fix(lab, set(stuck), base, can_grow=can_grow)
    base, taken, seen = _dropped(set(stuck), base, taken, seen)
    movement = Movement(can_grow, base, taken, {}, set(), not (one and other), seen)
    _read_outputs(lab, movement)
    return movement


def _look(lab: Lab, rows: int, sizes: tuple[int, ...], seen: list[Seen], *, seed: int = 0) -> bool:
    asked = Asked(seed, sizes, rows)
    try:
        (outputs,) = lab.together([asked], sizes, is_cut=False)
    except Exception as error:  # what it refuses is what we want to know
        log.debug("probe: refused %d rows of %s: %s", rows, sizes, error)
        return False
    seen.append(Seen(rows, sizes, {name: array.shape for name, array in outputs.items()}))
    return True


def _vary(
    lab: Lab,
    rows: int,
    base: tuple[int, ...],
    together: Sequence[int],
    seen: list[Seen],
    allowance: Allowance,
) -> list[int]:
    """The sizes that a length, or several as one, took."""
    start = base[together[0]]
    taken = [start]

    def goes(size: int) -> bool:
        if size in taken:
            return True
        sizes = tuple(size if k in together else s for k, s in enumerate(base))
        if lab.length_max is not None and size > lab.length_max:
            return False
        if len(taken) >= TAKEN_MIN and allowance.is_spent:
            return False  # a slow model; but one size alone would look like a fixed one
        if _elements(lab, base, size / start) > ELEMENTS_MAX or not _look(lab, rows, sizes, seen):
            return False
        taken.append(size)
        return True

    steps = STEPS if goes(start + STEPS[0]) or goes(start + STEPS[1]) else STEPS_COARSE
    for size in (start + step for step in steps):
        goes(size)
    for size in (start * factor for factor in FACTORS):
        begun_ns = allowance.clock.now_ns()
        if not goes(size) or allowance.clock.now_ns() - begun_ns > LONG_NS:
            break
    if len(taken) < 3 and start > 2:
        _ = goes(start - 1), goes(start // 2)
    return sorted(taken)


def _elements(lab: Lab, base: tuple[int, ...], factor: float) -> int:
    asked = Asked(0, tuple(ceil(size * factor) for size in base))
    return max(prod(shape_of(spec, lab.axes, asked)) for spec in lab.inputs)


def _dropped(
    gone: set[int], base: tuple[int, ...], taken: list[list[int]], seen: list[Seen]
) -> tuple[tuple[int, ...], list[list[int]], list[Seen]]:
    def kept(sizes: Sequence[int]) -> tuple[int, ...]:
        return tuple(s for k, s in enumerate(sizes) if k not in gone)

    runs = [replace(one, sizes=kept(one.sizes)) for one in seen]
    return kept(base), [t for k, t in enumerate(taken) if k not in gone], runs


def _fix(lab: Lab, stuck: set[int], base: tuple[int, ...], *, can_grow: bool) -> None:
    """What does not vary gets its one size, whatever was declared."""
    sizes = {place: base[k] for place, k in lab.axes.places().items() if k in stuck}
    if not can_grow:
        sizes |= dict.fromkeys(lab.axes.batch.items(), 1)
    lab.inputs = tuple(
        replace(
            spec,
            dims=tuple(sizes.get((spec.name, axis), dim) for axis, dim in enumerate(spec.dims)),
        )
        if any(place[0] == spec.name for place in sizes)
        else spec
        for spec in lab.inputs
    )
    lab.axes = lab.axes.without(stuck)
    lab.ran.clear()  # their sizes were counted otherwise
    lab.fill_differently(lab.values)


def _read_outputs(lab: Lab, movement: Movement) -> None:
    for name in lab.names:
        shapes = [(run.rows, run.sizes, run.shapes[name]) for run in movement.seen]
        batch_axis: int | None = None
        ties: list[Tie] = []
        if len({len(shape) for *_, shape in shapes}) > 1:
            movement.is_entangled = True
            continue
        for axis in range(len(shapes[0][2])):
            points = [(rows, sizes, shape[axis]) for rows, sizes, shape in shapes]
            moved_by = _moved_by(points)
            if moved_by is None:
                movement.is_entangled = True
            elif moved_by == {ROWS} and batch_axis is None and _counts_rows(points):
                batch_axis = axis
            elif ROWS in moved_by:
                movement.is_entangled = True
            elif len(moved_by) == 1:
                (k,) = moved_by
                tie = _fitted(axis, k, [(sizes[k], size) for _, sizes, size in points])
                if tie is None:
                    movement.loose |= moved_by
                else:
                    ties.append(tie)
            else:
                movement.loose |= moved_by
        movement.layouts[name] = Layout(batch_axis, tuple(ties))


ROWS = -1
"""Among the indices of lengths: the number of rows."""

_Point = tuple[int, tuple[int, ...], int]


def _moved_by(points: Sequence[_Point]) -> set[int] | None:
    """What an axis's size depends on; None if on values."""
    by_input: dict[tuple[int, tuple[int, ...]], int] = {}
    for rows, sizes, size in points:
        if by_input.setdefault((rows, sizes), size) != size:
            return None
    moved = set()
    # Each run but the first few differs from another in one thing only.
    for rows, sizes, size in points:
        for other_rows, other_sizes, other in points:
            if size == other:
                continue
            pairs = enumerate(zip(sizes, other_sizes, strict=True))
            differ = {k for k, (a, b) in pairs if a != b}
            differ |= {ROWS} if rows != other_rows else set()
            if len(differ) == 1:
                moved |= differ
    return moved


def _counts_rows(points: Sequence[_Point]) -> bool:
    return all(size == rows for rows, _, size in points)


def _fitted(axis: int, length: int, points: Sequence[tuple[int, int]]) -> Tie | None:
    """The smallest stride, or factor, with an offset, that explains all sizes."""
    for stride in range(1, STRIDE_MAX + 1):
        low = max(size * stride - n for n, size in points)
        high = min((size + 1) * stride - 1 - n for n, size in points)
        if low <= high:
            # Whole strides, or rounded up, are what models do.
            likely = [o for o in (0, stride - 1, 1 - stride) if low <= o <= high]
            return Tie(axis, length, stride, likely[0] if likely else low)
    for factor in range(2, FACTOR_MAX + 1):
        offsets = {size - n * factor for n, size in points}
        if len(offsets) == 1:
            return Tie(axis, length, 1, offsets.pop(), factor)
    return None


def observed(spec: TensorSpec, movement: Movement) -> TensorSpec:
    """An output as it came, not as it was declared."""
    layout = movement.layouts.get(spec.name)
    shapes = [run.shapes[spec.name] for run in movement.seen if spec.name in run.shapes]
    if layout is None or not shapes:
        return spec
    dims: list[Dim] = []
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        declared = spec.dims[axis] if axis < len(spec.dims) else None
        is_row = axis == layout.batch_axis and movement.can_grow
        if not is_row and len(set(sizes)) == 1:
            dims.append(sizes[0])
        else:
            dims.append(symbol(declared))
    return replace(spec, dims=tuple(dims))
