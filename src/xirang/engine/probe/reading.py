"""Read a declaration: which axes may vary, which of them count rows, which are one size together.

Symbols are believed as a first guess. Names as `None`, `?` and `unk__749` say nothing: on axis 0
they are rows, elsewhere axes at the same place are taken for one. What is wrong shows when the
model runs.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xirang.core.signature import Dim, TensorSpec
from xirang.engine.probe.declared import NOTHING, SHARED, Declared

Place = tuple[str, int]
"""An input and one of its axes."""

_TOLD = "told"
_MEANS_NOTHING = re.compile(r"unk__\d+|\?|")
_MEANS_ROWS = re.compile(r"n|b|bs|batch|num_?batch(es)?|batch[_ ]?(size|dim|axis)?|rows|samples")


@dataclass(frozen=True, slots=True)
class Axes:
    """What varies in a model's inputs.

    Attributes:
        batch: Input name to the axis that counts its rows.
        lengths: For each length the places that have its size.
    """

    batch: Mapping[str, int]
    lengths: tuple[tuple[Place, ...], ...]

    def places(self) -> dict[Place, int]:
        """Which length a place follows."""
        return {place: k for k, places in enumerate(self.lengths) for place in places}

    def without(self, fixed: set[int]) -> "Axes":
        """The same with some lengths gone, as they do not vary."""
        kept = tuple(p for k, p in enumerate(self.lengths) if k not in fixed)
        return replace(self, lengths=kept)

    def joined(self, together: Sequence[int]) -> "Axes":
        """The same with some lengths as one, at the place of the first."""
        one = tuple(place for k in together for place in self.lengths[k])
        lengths = [one if k == together[0] else p for k, p in enumerate(self.lengths)]
        return replace(self, lengths=tuple(lengths)).without(set(together[1:]))


def read(inputs: Sequence[TensorSpec], declared: Mapping[str, Declared]) -> Axes:
    """A first guess at what varies."""
    batch = _batch_axes(inputs, declared)
    keys: dict[tuple[str, int | str], list[Place]] = {}
    for spec in inputs:
        told = declared.get(spec.name, NOTHING).lengths
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, int) or batch.get(spec.name) == axis:
                continue
            name = symbol(dim)
            key: tuple[str, int | str] = ("named", name) if name else ("unnamed", axis)
            if told is not None and axis in told:
                key = (_TOLD, told.index(axis))
            keys.setdefault(key, []).append((spec.name, axis))
    told_first = sorted(keys, key=lambda key: int(key[1]) if key[0] == _TOLD else len(keys))
    return Axes(batch, tuple(tuple(keys[key]) for key in told_first))


def settled(inputs: Sequence[TensorSpec], declared: Mapping[str, Declared]) -> list[TensorSpec]:
    """The inputs without names that mean nothing, and with the sizes that an operator fixed."""
    specs = []
    for spec in inputs:
        told = declared.get(spec.name, NOTHING)
        dims = [dim if isinstance(dim, int) else symbol(dim) for dim in spec.dims]
        if told.lengths is not None:
            for axis, size in enumerate(told.sizes):
                if size and axis not in told.lengths and axis != told.batch_axis:
                    dims[axis] = size
        specs.append(replace(spec, dims=tuple(dims)))
    return specs


def symbol(dim: Dim) -> str | None:
    """A dim's name, if it has one that means something."""
    return dim if isinstance(dim, str) and not _MEANS_NOTHING.fullmatch(dim) else None


def _batch_axes(inputs: Sequence[TensorSpec], declared: Mapping[str, Declared]) -> dict[str, int]:
    of_rows = _row_symbol(inputs)
    axes = {}
    for spec in inputs:
        told = declared.get(spec.name, NOTHING).batch_axis
        if told is not None:
            if told != SHARED:
                axes[spec.name] = told
            continue
        named = [i for i, dim in enumerate(spec.dims) if of_rows and dim == of_rows]
        if named:
            axes[spec.name] = named[0]
        elif spec.dims and not isinstance(spec.dims[0], int) and not _is_elsewhere(inputs, of_rows):
            axes[spec.name] = 0  # whatever it is called
    return axes


def _row_symbol(inputs: Sequence[TensorSpec]) -> str | None:
    """The symbol that counts rows: one that is called so, or the commonest on axis 0."""
    for spec in inputs:
        for dim in spec.dims:
            name = symbol(dim)
            if name and _MEANS_ROWS.fullmatch(name.lower()):
                return name
    first = Counter(symbol(spec.dims[0]) for spec in inputs if spec.dims)
    del first[None]
    return first.most_common(1)[0][0] if first else None


def _is_elsewhere(inputs: Sequence[TensorSpec], of_rows: str | None) -> bool:
    """Whether rows are surely not on axis 0: what counts them stands on another axis everywhere."""
    places = [spec.dims.index(of_rows) for spec in inputs if of_rows in spec.dims]
    return bool(places) and min(places) > 0
