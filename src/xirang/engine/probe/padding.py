"""Find a neutral way of padding: which inputs are masks, and what the others are padded with."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from xirang.core.signature import TensorSpec
from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.comparing import INCOMPARABLE, NONE, Difference, compare
from xirang.engine.probe.declared import NOTHING
from xirang.engine.probe.findings import Ran
from xirang.engine.probe.lab import Lab
from xirang.engine.probe.safety import Trial, difference, padded, padded_once
from xirang.engine.probe.values import Asked, Values
from xirang.tensors.tensor import NUMPY_TYPES

IDS_TRIED = (1, 2, 3)
"""Other ids that vocabularies pad with, tried after 0."""


@dataclass(frozen=True, slots=True)
class Padding:
    """How far answers move when padded in the best way that was found.

    Attributes:
        paddable: The lengths that may be padded at once.
        difference: The largest seen with them, or of the best attempt if there are none.
    """

    paddable: tuple[int, ...]
    difference: Difference


def find_padding(
    lab: Lab, taken: Sequence[Sequence[int]], candidates: Sequence[int], allowance: Allowance
) -> Padding:
    """Try ways of padding until one is neutral; the lab keeps it.

    Args:
        lab: Filled with the masks that their names tell.
        taken: Sizes of each length that the model takes.
        candidates: Lengths whose outputs can be cut back.
        allowance: For other ways than the first.
    """
    if not lab.values.masks:
        lab.fill_differently(replace(lab.values, masks=find_masks(lab, taken)))
    before = lab.values
    first: Difference | None = None
    for values in _ways(lab):
        lab.fill_differently(values)
        found = _paddable(lab, taken, candidates, allowance)
        if found.paddable:
            return found
        first = first or found.difference
        if allowance.is_spent:
            break
    lab.fill_differently(before)
    return Padding((), first or INCOMPARABLE)


def _paddable(
    lab: Lab, taken: Sequence[Sequence[int]], candidates: Sequence[int], allowance: Allowance
) -> Padding:
    """All lengths at once if that is neutral, else those that are so each for itself."""
    quick = {k: padded_once(lab, taken, [k]) for k in candidates}
    neutral = [k for k in candidates if quick[k].is_rounding]
    worst = reduce(Difference.worst, quick.values(), NONE)
    alone = [[k] for k in neutral] if len(neutral) > 1 else []
    for lengths in [neutral, *alone] if neutral else []:
        whole = reduce(Difference.worst, (quick[k] for k in lengths), NONE)
        whole = whole.worst(padded(lab, taken, lengths, allowance))
        if whole.is_rounding and lab.values.masks:
            whole = whole.worst(_with_holes(lab, taken, lengths))
        if whole.is_rounding:
            return Padding(tuple(lengths), whole)
        worst = whole
    return Padding((), worst)


def _with_holes(lab: Lab, taken: Sequence[Sequence[int]], lengths: Sequence[int]) -> Difference:
    """A client may have padded its own rows: their masks hide something already."""
    short = tuple(sizes[0] for sizes in taken)
    long = tuple(sizes[-1] if k in lengths else sizes[0] for k, sizes in enumerate(taken))
    members = (Asked(31, short, is_sparse=True), Asked(32, long, is_sparse=True), Asked(33, short))
    return difference(lab, Trial(members, long))


def find_masks(lab: Lab, taken: Sequence[Sequence[int]]) -> dict[str, float]:
    """Masks that are not called so: what they hide changes nothing. With the value that hides.

    Real numbers beside the data are taken for data: that they may be left out cannot be known.
    """
    before = lab.values
    found: dict[str, float] = {}
    followers = {name for name, _ in lab.axes.places()}
    for name in _maybe_masks(lab):
        if len(found) + 1 >= len(followers):
            break  # something must be the data
        for hides in (0.0, 1.0):
            lab.fill_differently(replace(before, masks={name: hides}))
            if _is_hidden_irrelevant(lab, tuple(sizes[-1] for sizes in taken), name):
                found[name] = hides
                break
    lab.fill_differently(before)
    return found


def _is_hidden_irrelevant(lab: Lab, sizes: tuple[int, ...], mask: str) -> bool:
    """Whether two requests that differ only where the mask hides them get the same answer."""
    one = lab.request(Asked(41, sizes, is_sparse=True))
    other = dict(lab.request(Asked(42, sizes, is_sparse=True)))
    half = tuple((size + 1) // 2 for size in sizes)
    is_different = False
    for spec in lab.inputs:
        if spec.name == mask or spec.name not in lab.axes.batch:
            other[spec.name] = one[spec.name]
            continue
        axes = [axis for (name, axis) in lab.axes.places() if name == spec.name]
        if not axes:
            other[spec.name] = one[spec.name]
            continue
        # The mask hides along its last axis only.
        index = [slice(None)] * one[spec.name].ndim
        index[axes[-1]] = slice(0, half[lab.axes.places()[spec.name, axes[-1]]])
        other[spec.name] = other[spec.name].copy()
        other[spec.name][tuple(index)] = one[spec.name][tuple(index)]
        is_different = is_different or not np.array_equal(other[spec.name], one[spec.name])
    if not is_different:
        return False
    try:
        answers = [lab.run(inputs, Ran(1, sizes)) for inputs in (one, other)]
    except Exception:  # it takes no such mask
        return False
    kept = [lab.own(answer, Asked(0, half)) for answer in answers]
    return all(compare(kept[0][name], kept[1][name]).is_rounding for name in lab.names)


def _ways(lab: Lab) -> Iterator[Values]:
    """Ways of padding, the likely ones first."""
    first = lab.values
    yield first
    free = [name for name in first.masks if lab.declared.get(name, NOTHING).pad is None]
    if free:
        yield replace(first, masks={**first.masks, **dict.fromkeys(free, 1.0)})
    for pads in _other_pads(lab):
        yield replace(first, pads={**pads, **first.pads})


def _maybe_masks(lab: Lab) -> Sequence[str]:
    """Whole numbers or truths with rows and lengths only, and with the axes of another input.

    Truths come first, then the later inputs: data mostly precedes its mask.
    """
    shapes = {spec.name: _varying(lab, spec) for spec in lab.inputs}

    def order(spec: TensorSpec) -> tuple[bool, int]:
        return spec.datatype != "BOOL", -lab.inputs.index(spec)

    return [
        spec.name
        for spec in sorted(lab.inputs, key=order)
        if spec.datatype not in ("BYTES", "FP16", "FP32", "FP64")
        and "ids" not in spec.name.lower()
        and lab.declared.get(spec.name, NOTHING).mask is not False
        and 0 < len(shapes[spec.name]) == len(spec.dims) - 1
        and any(
            set(shapes[spec.name]) <= set(shape) and name != spec.name
            for name, shape in shapes.items()
        )
    ]


def _varying(lab: Lab, spec: TensorSpec) -> tuple[int, ...]:
    return tuple(k for (name, _), k in lab.axes.places().items() if name == spec.name)


def _other_pads(lab: Lab) -> Iterator[Mapping[str, float]]:
    """What else data may be padded with: an id, or the lowest number there is."""
    names = {name for name, _ in lab.axes.places()} - set(lab.values.masks)
    data = [s for s in lab.inputs if s.name in names and s.datatype != "BYTES"]
    whole = [s.name for s in data if NUMPY_TYPES[s.datatype].kind in "iu"]
    real = [s for s in data if NUMPY_TYPES[s.datatype].kind == "f"]
    if whole:
        yield from (dict.fromkeys(whole, float(value)) for value in IDS_TRIED)
    if real:
        yield {s.name: float(np.finfo(NUMPY_TYPES[s.datatype]).min) for s in real}
