"""Run every size once before anybody waits for it: the first run of a size is the slowest."""

import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from xirang.core.cost import Sample
from xirang.core.signature import Layout, TensorSpec
from xirang.engine.clock import Clock
from xirang.engine.extent import shape_of
from xirang.engine.model import Model
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

TIMED_NS = 500_000_000
"""After this no run is begun whose time is only to be compared with what is known."""

Size = tuple[int, tuple[int, ...]]
"""Rows and lengths of a run."""


def warm_up(
    model: Model,
    *,
    lengths_run: Sequence[Sequence[int]],
    ran: Collection[Size],
    seconds: float,
    clock: Clock,
) -> list[Size]:
    """Run the sizes that the scheduler may choose, small ones first.

    Args:
        model: Ready to serve.
        lengths_run: For each of its lengths, sizes that it is known to take.
        ran: Sizes at which it has run already.
        seconds: No run is begun that would last beyond this.
        clock: Measures it.

    Returns:
        The sizes that were run.
    """
    # Each process has its own first time, and they take their turns.
    copies = model.workers.living if model.workers is not None else 1
    if copies > 1:
        ran = ()  # by one of them
    sizes = sorted(
        {size for size in sizes_of(model, lengths_run) if size not in ran},
        key=lambda size: size[0] * prod(size[1]),
    )
    begun_ns = clock.now_ns()
    warmed: list[Size] = []
    for rows, lengths in sizes:
        predicted_ns = model.cost.predict_ns(rows=rows, length=prod(lengths))
        if clock.now_ns() - begun_ns + predicted_ns * copies > seconds * 1e9:
            break
        try:
            for _ in range(copies):
                model.executable.run(_inputs(model, rows, lengths), model.output_names)
        except Exception as error:  # a model may refuse what no client would send
            log.info("%s: warm-up of %d × %s failed: %s", model.name, rows, lengths, error)
            continue
        warmed.append((rows, lengths))
    log.info(
        "%s: %d of %d sizes warmed up in %.2f s, %d were warm",
        *(model.name, len(warmed), len(sizes), (clock.now_ns() - begun_ns) / 1e9, len(ran)),
    )
    return warmed


def timed(model: Model, sizes: Sequence[Size], *, clock: Clock) -> list[Sample]:
    """How long a few runs take now.

    Args:
        model: Ready to serve.
        sizes: At which it is warm, the small ones first; some of them are run.
        clock: Measures.
    """
    samples: list[Sample] = []
    left_ns = TIMED_NS
    for rows, lengths in _spread(sizes):
        inputs = _inputs(model, rows, lengths)
        times_ns: list[int] = []
        while len(times_ns) < 2 and left_ns > 0:
            begun_ns = clock.now_ns()
            model.executable.run(inputs, model.output_names)
            times_ns.append(max(1, clock.now_ns() - begun_ns))
            left_ns -= times_ns[-1]
        if times_ns:
            samples.append(Sample(rows, prod(lengths), min(times_ns)))
    return samples


def _spread(sizes: Sequence[Size]) -> list[Size]:
    return list(dict.fromkeys([sizes[0], sizes[len(sizes) // 2], sizes[-1]])) if sizes else []


def sizes_of(model: Model, lengths_run: Sequence[Sequence[int]]) -> Iterator[Size]:
    """All sizes of a frozen model; of another the corners: few and many rows, short and long.

    Args:
        model: Ready to serve.
        lengths_run: For each of its lengths, sizes that it is known to take.
    """
    policy, shapes = model.policy, model.shapes
    choices = []
    for length in range(model.signature.lengths):
        known = lengths_run[length] if length < len(lengths_run) else ()
        sizes = model.sizes(length) or _ends([*known, shapes.length_max or 0])
        if not sizes:
            return  # nothing is known that it would take
        choices.append(sizes)
    for lengths in product(*choices):
        fit = policy.max_batch_size
        if policy.elements_max is not None:
            fit = max(1, min(fit, policy.elements_max // max(1, prod(lengths))))
        if not shapes.row_sizes:
            yield from {(1, lengths), (fit, lengths)}
            continue
        for rows in shapes.row_sizes:
            if rows <= fit or rows == shapes.row_sizes[0]:
                yield (rows, lengths)


def _ends(sizes: Sequence[int]) -> tuple[int, ...]:
    known = [size for size in sizes if size >= 1]
    return tuple(sorted({min(known), max(known)})) if known else ()


def _inputs(model: Model, rows: int, lengths: tuple[int, ...]) -> dict[str, Array]:
    signature = model.signature
    return {
        spec.name: _filled(spec, signature.input_layout(spec.name), rows, lengths)
        for spec in signature.inputs
    }


def _filled(spec: TensorSpec, layout: Layout, rows: int, lengths: tuple[int, ...]) -> Array:
    shape = shape_of(spec, layout, rows=rows, lengths=lengths)
    if spec.datatype == "BYTES":
        return np.full(shape, b"", object)
    # Zero is an id of any vocabulary; a mask says that all is real.
    return np.full(shape, layout.real_value if layout.is_mask else 0, NUMPY_TYPES[spec.datatype])
