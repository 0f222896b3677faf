"""Which tiny runs tell the law of a model's memory, and for which sizes plans are made at load.

Around one small size each length is moved alone, then rows, then a few of them together: that tells
strides and powers apart along each axis, and what belongs to a product from what belongs to a sum.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod

import numpy as np

from xirang.core.memory.fitting import Measured, fit
from xirang.core.memory.polynomial import Factor, Polynomial, Size as Length, Term, made, size_of
from xirang.core.signature import Signature
from xirang.engine.extent import shape_of
from xirang.engine.model import Model
from xirang.tensors.packed import OFFSETS, offsets
from xirang.tensors.tensor import NUMPY_TYPES, Array

TOKENS = Term(factors=(Factor(0),))
"""All elements of a run whose rows stand end to end."""

Size = tuple[int, tuple[int, ...]]
"""Rows, and each of the lengths."""

ROWS = (1, 2, 3)
LENGTHS = (8, 9, 11, 16, 21, 24)
"""Where nothing is known of a model's lengths; three tell L² from L, odd ones show strides."""

LENGTHS_MAX = 9
"""Of a length no more values are tried."""

LENGTH_MAX = 512
"""Plans are made for lengths up to here unless the model says how far it goes."""


def tiny_sizes(signature: Signature, lengths_run: Sequence[Sequence[int]]) -> list[Size]:
    """Sizes that tell the terms of the law apart, the small ones first.

    Args:
        signature: What the model's axes mean.
        lengths_run: For each of its lengths, sizes that it is known to take.
    """
    choices = [
        tiny_lengths(lengths_run[n] if n < len(lengths_run) else ())
        for n in range(signature.lengths)
    ]
    rows = ROWS if signature.is_batched else (1,)
    if signature.rows_fixed:
        rows = (signature.rows_fixed,)
    sizes = {(count, lengths) for count, lengths in _star(choices, rows)}
    return sorted(sizes, key=lambda size: (size[0] * prod(size[1]), size))


def _star(choices: Sequence[Sequence[int]], rows: Sequence[int]) -> Iterator[Size]:
    base = tuple(lengths[0] for lengths in choices)
    yield from ((count, base) for count in rows)
    for axis, lengths in enumerate(choices):
        yield from ((rows[0], _moved(base, {axis: length})) for length in lengths)
        yield from ((count, _moved(base, {axis: lengths[-1]})) for count in rows[1:])
        yield from ((count, _moved(base, {axis: lengths[len(lengths) // 2]})) for count in rows[1:])
    for pair in combinations(range(len(choices)), 2):
        for places in ((1, 1), (2, 2), (1, 2), (2, 1)):
            across = {
                axis: choices[axis][min(place * len(choices[axis]) // 3, len(choices[axis]) - 1)]
                for axis, place in zip(pair, places, strict=True)
            }
            yield from ((count, _moved(base, across)) for count in rows[:2])


def _moved(base: Sequence[int], across: dict[int, int]) -> tuple[int, ...]:
    return tuple(across.get(axis, length) for axis, length in enumerate(base))


def tiny_lengths(known: Sequence[int]) -> list[int]:
    """Values of a length: usual ones where the model takes any, else of those that it took."""
    sizes = sorted({size for size in known if size >= 1})
    if not sizes or (sizes[0] <= LENGTHS[0] and sizes[-1] >= LENGTHS[-1]):
        return list(LENGTHS)
    return sizes[:LENGTHS_MAX]


def inputs_law(signature: Signature, sizes: Sequence[Size]) -> list[Polynomial]:
    """What each input takes."""
    found = []
    for spec in signature.inputs:
        if spec.datatype == "BYTES":
            continue
        layout, itemsize = signature.input_layout(spec.name), NUMPY_TYPES[spec.datatype].itemsize
        measured = [
            Measured(
                rows,
                size_of(lengths),
                itemsize * prod(shape_of(spec, layout, rows=rows, lengths=lengths)),
            )
            for rows, lengths in sizes
        ]
        found.append(fit(measured)[0])
    return found


def packed_feed(signature: Signature, lengths: Sequence[int]) -> dict[str, Array]:
    """Inputs of rows end to end, of so many elements each."""
    feed = {}
    for spec in signature.inputs:
        layout = signature.input_layout(spec.name)
        first = sum(lengths) if layout.ties else len(lengths)
        behind = spec.dims[2:] if layout.ties else spec.dims[1:]
        rest = [dim if isinstance(dim, int) else 1 for dim in behind]
        feed[spec.name] = np.zeros((first, *rest), NUMPY_TYPES[spec.datatype])
    feed[OFFSETS] = offsets(rows=[1] * len(lengths), lengths=lengths)
    return feed


def packed_law(signature: Signature) -> list[Polynomial]:
    """What each input of rows end to end takes, by the elements of all rows and their number."""
    found = [made({Term(): 16, Term(has_rows=True): 8})]  # offsets
    for spec in signature.inputs:
        layout, itemsize = signature.input_layout(spec.name), NUMPY_TYPES[spec.datatype].itemsize
        behind = spec.dims[2:] if layout.ties else spec.dims[1:]
        each = itemsize * prod(dim for dim in behind if isinstance(dim, int))
        found.append(made({TOKENS if layout.ties else Term(has_rows=True): each}))
    return found


def planned_lengths(model: Model, sizes: Sequence[Size]) -> list[Length]:
    """Sizes of a row for which plans are made: octaves, up to the longest."""
    first = min((lengths for _, lengths in sizes), key=prod)
    if not first:
        return [1]
    seen = [max(lengths[axis] for _, lengths in sizes) for axis in range(len(first))]
    longest = tuple(max(n, model.shapes.length_max or LENGTH_MAX) for n in seen)
    octaves = [
        tuple(min(one << k, most) for one, most in zip(first, longest, strict=True))
        for k in range(32)
    ]
    # One long, the others short: a line of text is no picture.
    alone = [_moved(first, {axis: most}) for axis, most in enumerate(longest)]
    return [size_of(lengths) for lengths in sorted({*octaves, *alone}, key=lambda n: (prod(n), n))]
