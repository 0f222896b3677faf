"""Finds out at load how much memory a model's runs take, from a few tiny ones."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np

from xirang.backends.executable import Executable, Footprint
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.torch import TorchExecutable
from xirang.backends.torch_study import Feed
from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import Traffic, of_traffic
from xirang.core.memory.polynomial import Measured, Polynomial, fit
from xirang.core.signature import Layout, Signature, TensorSpec
from xirang.engine.clock import Clock
from xirang.engine.extent import shape_of
from xirang.engine.model import Model
from xirang.memory.footprint import NativeFootprint
from xirang.memory.native.library import Library
from xirang.memory.room import recorded_alone
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

Size = tuple[int, tuple[int, ...]]
"""Rows, and each of the lengths."""

ROWS = (1, 2, 3)
LENGTHS = (8, 16, 24)
"""Where nothing is known of a model's lengths: three tell L² from L."""

SECONDS = 0.6
"""After this no more sizes are run."""

LENGTH_MAX = 512
"""Plans are made for lengths up to here unless the model says how far it goes."""

WORTH_BYTES = 1 << 20
"""Below this a place in an arena costs more than it saves."""


def calibrate(
    model: Model, inner: Executable, *, lengths_run: Sequence[Sequence[int]], clock: Clock
) -> Footprint | None:
    """Find a model's footprint, and tell its executable of it.

    Args:
        model: Ready to serve.
        inner: What it comes down to, without what stands around it.
        lengths_run: For each of its lengths, sizes that it is known to take.
        clock: Measures how long it takes.

    Returns:
        None for a model that allocates as it likes.
    """
    if isinstance(inner, TorchExecutable) and inner.is_governed:
        return _studied(model, inner, lengths_run=lengths_run)
    if not isinstance(inner, OnnxExecutable):
        return None
    found = None
    if inner.library is not None:
        found = _found(model, inner, inner.library, lengths_run=lengths_run, clock=clock)
    inner.trim()
    return found


def _found(
    model: Model,
    inner: OnnxExecutable,
    library: Library,
    *,
    lengths_run: Sequence[Sequence[int]],
    clock: Clock,
) -> NativeFootprint | None:
    begun_ns = clock.now_ns()
    signature = model.signature
    sizes: list[Size] = []
    samples: list[Traced] = []
    for size in _sizes(signature, lengths_run):
        if samples and clock.now_ns() - begun_ns > SECONDS * 1e9:
            break
        traffic = _traffic(library, model, *size)
        if traffic:
            sizes.append(size)
            samples.append(Traced(size[0], prod(size[1]), of_traffic(traffic)))
    if not samples:
        log.info("%s: nothing was seen of its memory", model.name)
        return None
    found = NativeFootprint(library, samples, _inputs(signature, sizes), _planned(model, sizes))
    longest, rows = found.lengths[-1], model.policy.max_batch_size
    most = found.peak_bytes(rows if signature.is_batched else 1, longest)
    log.info(
        "%s: %d allocations a run, %.1f MB at most of length %d; found in %.2f s",
        *(model.name, len(samples[0].lifetimes), most / 1e6, longest),
        (clock.now_ns() - begun_ns) / 1e9,
    )
    inner.is_bare = most < WORTH_BYTES
    if inner.is_bare:
        return None
    model.executable.footprint = found  # type: ignore[attr-defined]
    return found


def _studied(
    model: Model, inner: TorchExecutable, *, lengths_run: Sequence[Sequence[int]]
) -> Footprint | None:
    """The same for PyTorch, whose graph says most of it."""
    sizes: list[Size] = []
    feeds: list[Feed] = []
    for size in _sizes(model.signature, lengths_run):
        inputs = feed(model.signature, *size)
        try:
            given = inner.heard(lambda: model.executable.run(inputs, model.output_names))  # noqa: B023
        except Exception as error:  # a model may refuse what no client would send
            log.info("%s: %d × %s was not tried: %s", model.name, *size, error)
            continue
        sizes.append(size)
        feeds.append(Feed(size[0], prod(size[1]), given))
    planned = _planned(model, sizes) if sizes else []
    found = inner.study(feeds, _inputs(model.signature, sizes), planned)
    rows = model.policy.max_batch_size if model.signature.is_batched else 1
    if found is not None and found.peak_bytes(rows, planned[-1]) < WORTH_BYTES:
        inner.planning = "runs unplanned: its tensors are too small to be worth a place"
        found = None
    log.info("%s: %s", model.name, inner.planning)
    # What stands around it tells of it too.
    model.executable.planning = inner.planning  # type: ignore[attr-defined]
    if found is not None:
        model.executable.footprint = found  # type: ignore[attr-defined]
    return found


def feed(signature: Signature, rows: int, lengths: tuple[int, ...]) -> dict[str, Array]:
    """Inputs of a size, with one padded position.

    A model that leaves a mask of ones alone must show its usual way.
    """
    return {
        spec.name: _filled(spec, signature.input_layout(spec.name), rows, lengths)
        for spec in signature.inputs
    }


def _filled(spec: TensorSpec, layout: Layout, rows: int, lengths: tuple[int, ...]) -> Array:
    shape = shape_of(spec, layout, rows=rows, lengths=lengths)
    if spec.datatype == "BYTES":
        return np.full(shape, b"", object)
    filled = np.full(shape, layout.real_value if layout.is_mask else 0, NUMPY_TYPES[spec.datatype])
    if layout.is_mask and filled.size > 1:
        filled.flat[-1] = layout.pad_value
    return filled


def _traffic(library: Library, model: Model, rows: int, lengths: tuple[int, ...]) -> Traffic | None:
    inputs: Mapping[str, Array] = feed(model.signature, rows, lengths)
    try:
        return recorded_alone(library, model.executable, inputs, model.output_names)
    except Exception as error:  # a model may refuse what no client would send
        log.info("%s: %d × %s was not traced: %s", model.name, rows, lengths, error)
        return None


def _sizes(signature: Signature, lengths_run: Sequence[Sequence[int]]) -> Iterator[Size]:
    """Sizes that tell the terms of the law apart, the small ones first."""
    choices = [
        _tiny(lengths_run[n] if n < len(lengths_run) else ()) for n in range(signature.lengths)
    ]
    steps: list[tuple[int, ...]] = list(zip(*choices, strict=False)) if choices else [()]
    rows = ROWS if signature.is_batched else (1,)
    if signature.rows_fixed:
        rows = (signature.rows_fixed,)
    yield from sorted(
        ((count, lengths) for count in rows for lengths in steps),
        key=lambda size: size[0] * prod(size[1]),
    )


def _tiny(known: Sequence[int]) -> list[int]:
    """Three lengths: usual ones where the model takes any, else of those that it took."""
    sizes = sorted({size for size in known if size >= 1})
    if not sizes or (sizes[0] <= LENGTHS[0] and sizes[-1] >= LENGTHS[-1]):
        return list(LENGTHS)
    return sizes[: len(LENGTHS)]


def _inputs(signature: Signature, sizes: Sequence[Size]) -> list[Polynomial]:
    """What each input takes."""
    found = []
    for spec in signature.inputs:
        if spec.datatype == "BYTES":
            continue
        layout, itemsize = signature.input_layout(spec.name), NUMPY_TYPES[spec.datatype].itemsize
        measured = [
            Measured(
                rows,
                prod(lengths),
                itemsize * prod(shape_of(spec, layout, rows=rows, lengths=lengths)),
            )
            for rows, lengths in sizes
        ]
        found.append(fit(measured)[0])
    return found


def _planned(model: Model, sizes: Sequence[Size]) -> list[int]:
    """Lengths for which plans are made: octaves, up to the longest."""
    first = min(prod(lengths) for _, lengths in sizes)
    if not model.signature.lengths:
        return [first]
    if model.signature.lengths > 1:
        return sorted({prod(lengths) for _, lengths in sizes})
    longest = max(first, model.shapes.length_max or LENGTH_MAX)
    octaves = [first << k for k in range(32) if first << k < longest]
    return [*octaves, longest]
