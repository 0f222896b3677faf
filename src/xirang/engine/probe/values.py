"""Made-up inputs: what a client might send, as far as names, datatypes and refusals tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xirang.core.signature import TensorSpec
from xirang.engine.probe.declared import NOTHING, Declared
from xirang.engine.probe.reading import Axes
from xirang.tensors.tensor import NUMPY_TYPES, Array

IDS_END = 50
"""Whole numbers are smaller than this: an id of any vocabulary."""

SAMPLE_RATE = 16_000


@dataclass(frozen=True, slots=True)
class Values:
    """How inputs are filled.

    Attributes:
        masks: Input name to what it has where there is padding; elsewhere it has the opposite.
        pads: Input name to what it is padded with, where that is not 0.
        ids_end: Whole numbers are smaller than this.
        shared: What a whole number has that all rows share.
    """

    masks: Mapping[str, float] = field(default_factory=dict)
    pads: Mapping[str, float] = field(default_factory=dict)
    ids_end: int = IDS_END
    shared: int = 1

    def pad(self, name: str) -> float:
        """What an input is padded with."""
        return self.masks.get(name, self.pads.get(name, 0))


@dataclass(frozen=True, slots=True)
class Asked:
    """A made-up request: the same one gives the same tensors.

    Attributes:
        seed: Of its values.
        lengths: One size for each length.
        rows: Of each batched input.
        scale: Of its real numbers; 0 and large ones make neighbours that stand out.
        sign: Of its real numbers: -1 or 1 for all, 0 for both.
        is_sparse: Whether its masks hide the end of each row.
    """

    seed: int
    lengths: tuple[int, ...]
    rows: int = 1
    scale: float = 1.0
    sign: int = 0
    is_sparse: bool = False


def first_values(inputs: Sequence[TensorSpec], declared: Mapping[str, Declared]) -> Values:
    """Masks by their names, pads as declared."""
    masks = {}
    for spec in inputs:
        told = declared.get(spec.name, NOTHING)
        if told.mask or (told.mask is None and "mask" in spec.name.lower()):
            masks[spec.name] = told.pad if told.pad is not None else 0.0
    pads = {name: told.pad for name, told in declared.items() if told.pad is not None}
    return Values(masks, pads)


def tensor(
    spec: TensorSpec, shape: Sequence[int], asked: Asked, values: Values, told: Declared
) -> Array:
    """One input of a made-up request."""
    if spec.datatype == "BYTES":
        return np.full(shape, f"probe {asked.seed}".encode(), object)
    dtype = NUMPY_TYPES[spec.datatype]
    if spec.name in values.masks:
        return _mask(shape, dtype, values.masks[spec.name], asked)
    random = np.random.default_rng([asked.seed, *spec.name.encode()])
    if told.range is not None:
        low, high = told.range
        drawn = random.uniform(low, high, shape)
        return drawn.astype(dtype) if dtype.kind == "f" else np.rint(drawn).astype(dtype)
    if dtype.kind == "f":
        drawn = _real(shape, asked, random) * asked.scale
        return (np.abs(drawn) * asked.sign if asked.sign else drawn).astype(dtype)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    return _whole(spec, shape, asked, values, random).astype(dtype)


def shared(spec: TensorSpec, shape: Sequence[int], values: Values, told: Declared) -> Array:
    """An input that all rows of a run share, the same in every request."""
    dtype, name = NUMPY_TYPES[spec.datatype], spec.name.lower()
    if told.range is None and dtype.kind in "iu":
        is_rate = values.shared == 1 and (name == "sr" or "rate" in name)
        return np.full(shape, SAMPLE_RATE if is_rate else values.shared, dtype)
    return tensor(spec, shape, Asked(0, ()), values, told)


def shape_of(spec: TensorSpec, axes: Axes, asked: Asked) -> tuple[int, ...]:
    """The shape of an input of a made-up request."""
    follows = axes.places()
    return tuple(
        asked.rows
        if axes.batch.get(spec.name) == axis
        else asked.lengths[follows[spec.name, axis]]
        if (spec.name, axis) in follows
        else dim
        if isinstance(dim, int)
        else 1
        for axis, dim in enumerate(spec.dims)
    )


def _real(shape: Sequence[int], asked: Asked, random: np.random.Generator) -> Array:
    """Noise, or every third time plain areas, as in pictures: some models are deaf to noise."""
    noise = random.standard_normal(shape)
    if asked.seed % 3 or len(shape) < 3:
        return noise
    for axis in range(2, len(shape)):
        noise = noise.take([i // 8 * 8 for i in range(shape[axis])], axis)
    return 2 * noise


def _whole(
    spec: TensorSpec,
    shape: Sequence[int],
    asked: Asked,
    values: Values,
    random: np.random.Generator,
) -> Array:
    name = spec.name.lower()
    if spec.datatype in ("UINT8", "INT8"):
        return random.integers(0, 128, shape)
    if "type" in name or "segment" in name:
        return np.zeros(shape)
    if len(shape) <= 1 and ("len" in name or "size" in name) and asked.lengths:
        return np.full(shape, asked.lengths[0])
    low = min(1, values.ids_end - 1)
    if asked.scale == 0:
        return np.full(shape, low)
    if asked.scale > 1:
        return np.full(shape, values.ids_end - 1)
    return random.integers(low, values.ids_end, shape)


def _mask(shape: Sequence[int], dtype: np.dtype[np.generic], padded: float, asked: Asked) -> Array:
    mask = np.full(shape, 1 - padded, dtype)
    if asked.is_sparse and mask.ndim > 1:
        mask[..., (mask.shape[-1] + 1) // 2 :] = padded
    return mask
