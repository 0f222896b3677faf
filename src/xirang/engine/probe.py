"""Find out by running what a model's declaration does not tell, before it serves anybody.

Batching must never change an answer. So at load the model runs small made-up requests alone,
together, and padded; it is compared with itself, and believed rather than its declared shapes:
whether rows may share a run at all, whether they may be padded, which output axes are as long as
the input, how long runs take, and from which size on larger ones stop paying.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xirang.backends.executable import Executable
from xirang.core.cost import Sample
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.clock import Clock
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""Largest difference, against the largest value, that counts as the same answer."""

LENGTHS = (8, 32, 128, 512)
ROWS = (1, 2, 4, 8, 16, 32, 64)
SECONDS_MAX = 3.0
SIZES = (64, 128, 256, 512)
"""Elements of the runs whose speed decides how large a run may usefully be. Beyond the last a run
gains little even where it gains, and keeps its instance from whoever comes meanwhile."""

SATURATION_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Findings:
    """What a probe found.

    Attributes:
        signature: As observed.
        verdict: How it may be batched, in words, with the largest difference seen.
        can_batch: Whether several rows in one run leave each answer as it is.
        can_pad: Whether rows of different lengths may share a run, padded with zeros.
        samples: Measured runs for the cost model; none if the model refused made-up inputs.
        elements_max: Padded elements beyond which a run gets slower per element, if measured.
    """

    signature: Signature
    verdict: str
    can_batch: bool = False
    can_pad: bool = False
    samples: Sequence[Sample] = ()
    elements_max: int | None = None


class _Lab:
    """Makes inputs and runs them; everything is seeded, so a probe gives the same each time."""

    def __init__(self, executable: Executable, length_axes: Mapping[str, int]) -> None:
        self.executable = executable
        self.length_axes = length_axes
        self.names = [spec.name for spec in executable.outputs]
        self._rng = np.random.default_rng(0)

    def inputs(self, *, rows: int, length: int) -> dict[str, Array]:
        """Random inputs; what is called a mask is all ones, what is called a type all zeros."""
        return {
            spec.name: self._tensor(spec, rows=rows, length=length)
            for spec in self.executable.inputs
        }

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """All outputs."""
        return self.executable.run(inputs, self.names)

    def _tensor(self, spec: TensorSpec, *, rows: int, length: int) -> Array:
        axis = self.length_axes.get(spec.name)
        shape = [dim if isinstance(dim, int) else 16 for dim in spec.dims]
        if not isinstance(spec.dims[0], int):
            shape[0] = rows
        if axis is not None:
            shape[axis] = length
        if spec.datatype == "BYTES":
            return np.full(shape, b"probe", object)
        dtype, name = NUMPY_TYPES[spec.datatype], spec.name.lower()
        if "mask" in name:
            return np.ones(shape, dtype)
        if "type" in name:
            return np.zeros(shape, dtype)
        if dtype.kind == "f":
            return self._rng.standard_normal(shape).astype(dtype)
        if dtype.kind == "b":
            return self._rng.random(shape) < 0.5
        return self._rng.integers(1, 50, shape).astype(dtype)  # small: an id of any vocabulary


def probe(
    executable: Executable, *, rows_max: int, length_max: int | None, clock: Clock
) -> Findings:
    """Run a model on made-up inputs and say how it may be batched.

    Args:
        executable: The loaded model.
        rows_max: Most rows that it will ever be given.
        length_max: Longest row that it takes, if that is known.
        clock: Measures the runs.
    """
    is_batched = all(s.dims and not isinstance(s.dims[0], int) for s in executable.inputs)
    length_axes = _length_axes(executable.inputs) if is_batched else {}
    lab = _Lab(executable, length_axes)
    try:
        lab.run(lab.inputs(rows=1, length=6))
    except Exception as error:  # a model may refuse what no client would send
        log.info("probe: the model refuses made-up inputs: %s", error)
        signature = _signature(executable, is_batched=is_batched)
        verdict = "not probed: it refuses made-up inputs; only equal shapes share a run"
        return Findings(signature, verdict, can_batch=is_batched)
    if not is_batched:
        signature = _signature(executable, is_batched=False)
        samples = tuple(_measure(lab, [(1, 1)], clock))
        return Findings(signature, "batch-fixed: runs singly", samples=samples)
    return _probe_batches(lab, rows_max=rows_max, length_max=length_max, clock=clock)


def _probe_batches(lab: _Lab, *, rows_max: int, length_max: int | None, clock: Clock) -> Findings:
    executable, length_axes = lab.executable, lab.length_axes
    tied_axes = _tied_axes(lab) if length_axes else {}
    together = _difference(lab, tied_axes or {}, lengths=(9, 9, 9))
    if together > TOLERANCE:
        signature = _signature(executable, is_batched=True, length_axes=length_axes)
        verdict = f"batch-sensitive: rows change each other by up to {together:.1e}; runs singly"
        samples = tuple(_measure(lab, [(1, length) for length in LENGTHS[:3]], clock))
        return Findings(signature, verdict, samples=samples)
    padded = float("inf")
    if length_axes and tied_axes is not None:
        padded = max(
            _difference(lab, tied_axes, lengths=(4, 9, 6)),
            _difference(lab, tied_axes, lengths=(5, 64)),
        )
    can_pad = padded <= TOLERANCE
    signature = _signature(
        executable,
        is_batched=True,
        length_axes=length_axes,
        tied_axes=tied_axes if can_pad else None,
    )
    longest = min(length_max or LENGTHS[-1], LENGTHS[-1])
    samples = tuple(_measure(lab, _grid(length_axes, rows_max, longest), clock))
    elements_max = _saturation(lab, rows_max, clock) if can_pad else None
    verdict = _words(together, padded, has_length=bool(length_axes))
    return Findings(
        signature,
        verdict,
        can_batch=True,
        can_pad=can_pad,
        samples=samples,
        elements_max=elements_max,
    )


def _length_axes(inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """The one axis along which rows may vary, if it is one and the same for all inputs."""
    axes: dict[str, int] = {}
    symbols = set()
    for spec in inputs:
        varying = [i for i, dim in enumerate(spec.dims) if i and not isinstance(dim, int)]
        if len(varying) > 1:
            return {}
        if varying:
            axes[spec.name] = varying[0]
            symbols.add(spec.dims[varying[0]] or (spec.name, varying[0]))
    return axes if len(symbols) == 1 else {}


def _tied_axes(lab: _Lab) -> dict[str, int] | None:
    """Output axes as long as the input; None if one moves in a way that cannot be cut back."""
    short, long = (lab.run(lab.inputs(rows=1, length=length)) for length in (6, 9))
    tied: dict[str, int] = {}
    for name in lab.names:
        if short[name].ndim != long[name].ndim:
            return None
        for axis, sizes in enumerate(zip(short[name].shape, long[name].shape, strict=True)):
            if sizes[0] != sizes[1]:
                if sizes != (6, 9) or axis == 0 or name in tied:
                    return None
                tied[name] = axis
    return tied


def _difference(lab: _Lab, tied_axes: Mapping[str, int], *, lengths: Sequence[int]) -> float:
    """Largest difference between rows run alone and the same rows in one padded run."""
    longest = max(lengths)
    alone = [lab.inputs(rows=1, length=length) for length in lengths]
    together = {
        spec.name: np.concatenate([_padded(lab, spec, one[spec.name], longest) for one in alone])
        for spec in lab.executable.inputs
    }
    try:
        outputs = lab.run(together)
        expected = [lab.run(one) for one in alone]
    except Exception as error:
        log.info("probe: the model refuses rows of lengths %s in one run: %s", lengths, error)
        return float("inf")
    worst = 0.0
    for name in lab.names:
        if outputs[name].ndim == 0 or outputs[name].shape[0] != len(lengths):
            return float("inf")
        for row, (one, length) in enumerate(zip(expected, lengths, strict=True)):
            got = outputs[name][row : row + 1]
            if name in tied_axes:
                got = got.take(range(length), axis=tied_axes[name])
            worst = max(worst, _distance(one[name], got))
    return worst


def _padded(lab: _Lab, spec: TensorSpec, array: Array, longest: int) -> Array:
    axis = lab.length_axes.get(spec.name)
    if axis is None or array.shape[axis] == longest:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, longest - array.shape[axis])
    return np.pad(array, widths)


def _distance(expected: Array, got: Array) -> float:
    if expected.shape != got.shape:
        return float("inf")
    if expected.dtype.kind not in "fiub":
        return 0.0 if (expected == got).all() else float("inf")
    a, b = expected.astype(np.float64), got.astype(np.float64)
    if not a.size or np.array_equal(a, b, equal_nan=True):
        return 0.0
    distance = float(np.abs(a - b).max() / max(1.0, float(np.abs(a).max())))
    return distance if np.isfinite(distance) else float("inf")


def _grid(length_axes: Mapping[str, int], rows_max: int, longest: int) -> list[tuple[int, int]]:
    if not length_axes:
        return [(rows, 1) for rows in ROWS if rows <= rows_max]
    lengths = [length for length in LENGTHS if length <= longest] or [longest]
    pairs = [
        (rows, length)
        for length in lengths
        for rows in (1, 4, 16, 32)
        if rows <= rows_max and (rows == 1 or rows * length <= SIZES[-1])
    ]
    return sorted(pairs, key=lambda pair: pair[0] * pair[1])


def _measure(lab: _Lab, grid: Sequence[tuple[int, int]], clock: Clock) -> Iterator[Sample]:
    """Time runs, the small ones first, until the time for it is spent."""
    begun_ns = clock.now_ns()
    for rows, length in grid:
        ran_ns = _best_ns(lab, rows=rows, length=length, clock=clock)
        if ran_ns is not None:
            yield Sample(rows, length, ran_ns)
        if clock.now_ns() - begun_ns > SECONDS_MAX * 1e9:
            return


def _best_ns(lab: _Lab, *, rows: int, length: int, clock: Clock) -> int | None:
    inputs = lab.inputs(rows=rows, length=length)
    times_ns = []
    try:
        for _ in range(3):  # the first warms caches and arenas up
            start_ns = clock.now_ns()
            lab.run(inputs)
            times_ns.append(max(1, clock.now_ns() - start_ns))
    except Exception as error:
        log.info("probe: the model refuses %d rows of length %d: %s", rows, length, error)
        return None
    return min(times_ns)


def _saturation(lab: _Lab, rows_max: int, clock: Clock) -> int | None:
    """The largest size whose time per element is within 4 % of the best size's.

    Up to there the cost model decides; beyond it runs get slower in a way that no law of rows and
    length shows (on a CPU they leave its caches).

    The sizes take turns, and the best of their turns counts: a busy machine slows some of them.
    """
    length = LENGTHS[1]
    rows_of = {min(rows_max, size // length) for size in SIZES}
    best_ns: dict[int, float] = {}
    for _ in range(SATURATION_ROUNDS):
        for rows in sorted(rows_of):
            ran_ns = _best_ns(lab, rows=rows, length=length, clock=clock)
            if ran_ns is not None:
                elements = rows * length
                best_ns[elements] = min(best_ns.get(elements, ran_ns), ran_ns / elements)
    if not best_ns:
        return None
    return max(size for size, ns in best_ns.items() if ns <= 1.04 * min(best_ns.values()))


def _signature(
    executable: Executable,
    *,
    is_batched: bool,
    length_axes: Mapping[str, int] | None = None,
    tied_axes: Mapping[str, int] | None = None,
) -> Signature:
    return Signature(
        inputs=executable.inputs,
        outputs=executable.outputs,
        is_batched=is_batched,
        input_layouts=_layouts(length_axes),
        output_layouts=_layouts(tied_axes),
    )


def _layouts(axes: Mapping[str, int] | None) -> dict[str, Layout]:
    return {name: Layout(ties=(Tie(axis),)) for name, axis in (axes or {}).items()}


def _words(together: float, padded: float, *, has_length: bool) -> str:
    worst = together if not has_length else max(together, padded)
    if worst == 0.0:
        return "exact: batching and padding leave every answer as it is"
    if worst <= TOLERANCE:
        return f"tolerant: batching moves answers by at most {worst:.1e} of their largest value"
    return f"pad-unsafe: padding moves answers by {padded:.1e}; only equal shapes share a run"
