"""Finds out at load how much memory a model's runs take, from a few tiny ones."""

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from xirang.backends.executable import Executable, Footprint
from xirang.backends.isolated.executable import IsolatedExecutable
from xirang.backends.isolated.leases import Fed, Lesson
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.torch import TorchExecutable
from xirang.backends.torch_study import Feed
from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import Traffic, of_traffic
from xirang.core.memory.polynomial import size_of
from xirang.core.signature import Layout, Signature, TensorSpec
from xirang.engine.clock import Clock
from xirang.engine.extent import shape_of
from xirang.engine.model import Model
from xirang.memory.footprint import NativeFootprint
from xirang.memory.native.library import Library
from xirang.memory.packed import LENGTHS, PackedFeed
from xirang.memory.room import recorded_alone
from xirang.repository.tiny_runs import (
    Size,
    inputs_law,
    packed_feed,
    packed_law,
    planned_lengths,
    tiny_sizes,
)
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

SECONDS = 0.6
"""After this no more sizes are run."""

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
    if model.shapes.is_ragged:
        if isinstance(inner, TorchExecutable) and inner.is_governed:
            return _packed(model, inner)
        return None
    if isinstance(inner, IsolatedExecutable):
        return _apart(model, inner, lengths_run=lengths_run) if inner.is_governed else None
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
    for size in tiny_sizes(signature, lengths_run):
        if samples and clock.now_ns() - begun_ns > SECONDS * 1e9:
            break
        traffic = _traffic(library, model, *size)
        if traffic:
            sizes.append(size)
            samples.append(Traced(size[0], size_of(size[1]), of_traffic(traffic)))
    if not samples:
        log.info("%s: nothing was seen of its memory", model.name)
        return None
    found = NativeFootprint(
        library, samples, inputs_law(signature, sizes), planned_lengths(model, sizes)
    )
    longest, rows = found.lengths[-1], model.policy.max_batch_size
    most = found.peak_bytes(rows if signature.is_batched else 1, longest)
    log.info(
        "%s: %d allocations a run, %.1f MB at most of length %s; found in %.2f s",
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
    for size in tiny_sizes(model.signature, lengths_run):
        inputs = feed(model.signature, *size)
        try:
            given = inner.heard(lambda: model.executable.run(inputs, model.output_names))  # noqa: B023
        except Exception as error:  # a model may refuse what no client would send
            log.info("%s: %d × %s was not tried: %s", model.name, *size, error)
            continue
        sizes.append(size)
        feeds.append(Feed(size[0], size_of(size[1]), given))
    planned = planned_lengths(model, sizes) if sizes else []
    found = inner.study(feeds, inputs_law(model.signature, sizes), planned)
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


def _packed(model: Model, inner: TorchExecutable) -> Footprint | None:
    """The same for rows end to end, which PyTorch alone takes."""
    signature, length_max = model.signature, model.shapes.length_max
    taken = [run for run in LENGTHS if length_max is None or max(run) <= length_max]
    feeds = [PackedFeed(run, packed_feed(signature, run)) for run in taken]
    found = inner.study_packed(feeds, packed_law(signature))
    log.info("%s: %s", model.name, inner.planning)
    model.executable.planning = inner.planning  # type: ignore[attr-defined]
    if found is not None:
        model.executable.footprint = found  # type: ignore[attr-defined]
    return found


def _apart(
    model: Model, inner: IsolatedExecutable, *, lengths_run: Sequence[Sequence[int]]
) -> Footprint | None:
    """The same for a model in processes: they are shown the tiny runs, and find out for us."""
    feeds: list[Fed] = []
    sizes: list[Size] = []
    wanted: list[str] = []
    for size in tiny_sizes(model.signature, lengths_run):
        inputs = feed(model.signature, *size)
        try:
            given, wanted = inner.heard(lambda: model.executable.run(inputs, model.output_names))  # noqa: B023
        except Exception as error:  # a model may refuse what no client would send
            log.info("%s: %d × %s was not tried: %s", model.name, *size, error)
            continue
        sizes.append(size)
        feeds.append(Fed(size[0], size_of(size[1]), given))
    if not feeds:
        return None
    rows = model.policy.max_batch_size if model.signature.is_batched else 1
    bytes_of_inputs = inputs_law(model.signature, sizes)
    lesson = Lesson(
        feeds, wanted, bytes_of_inputs, planned_lengths(model, sizes), rows, WORTH_BYTES
    )
    try:
        found = inner.study(lesson)
    except Exception as error:  # whatever it is, the model serves as it did before
        log.warning("%s: its memory is not governed: %s", model.name, error)
        return None
    if inner.planning:
        log.info("%s: %s", model.name, inner.planning)
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
