"""The course of a probe: open, explore, compare, time; and the findings at its end."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xirang.backends.executable import Executable, is_packed
from xirang.core.signature import ROWS_FIRST, Layout, Signature, Tie
from xirang.engine.clock import Clock
from xirang.engine.probe.allowance import Allowance
from xirang.engine.probe.comparing import INCOMPARABLE, NONE, Difference
from xirang.engine.probe.declared import Declared
from xirang.engine.probe.findings import Findings, Kind, Ran
from xirang.engine.probe.lab import Lab
from xirang.engine.probe.movement import Movement, explore, observed
from xirang.engine.probe.opening import opening
from xirang.engine.probe.padding import Padding, find_padding
from xirang.engine.probe.safety import end_to_end, in_company
from xirang.engine.probe.timing import grid_of, measure, saturation
from xirang.engine.probe.verdict import how_equal, how_padded, kind_of, words
from xirang.tensors.packed import can_pack

log = logging.getLogger(__name__)

OPENING_SECONDS, EXPLORING_SECONDS, SAFETY_SECONDS, PADDING_SECONDS = 2.0, 1.0, 0.4, 0.7
"""After these no further attempt begins; the first of each kind is made on any machine."""

WHOLE_SECONDS = 3.7
"""After this nothing is timed any more: a server shall not be long in coming up."""

RAN_MAX = 64


def probe(
    executable: Executable,
    *,
    rows_max: int,
    length_max: int | None,
    clock: Clock,
    declared: Mapping[str, Declared] | None = None,
) -> Findings:
    """Run a model on made-up inputs and say how it may be batched.

    Args:
        executable: The loaded model.
        rows_max: Most rows that it will ever be given.
        length_max: Longest row that it takes, if that is known.
        clock: Measures the runs.
        declared: What the operator says about inputs; it is believed.
    """
    whole = Allowance(clock, WHOLE_SECONDS)
    lab = Lab(executable, declared or {})
    lab.length_max = length_max if len(lab.axes.lengths) == 1 else None
    base = opening(lab, Allowance(clock, OPENING_SECONDS))
    if isinstance(base, str):
        log.info("probe: the model refuses made-up inputs: %s", base)
        return _unprobed(executable)
    movement = explore(lab, base, Allowance(clock, EXPLORING_SECONDS))
    lab.layouts = movement.layouts
    if not movement.can_grow and not _freeze(lab, movement):
        return _fixed(lab, movement, whole)
    together = INCOMPARABLE
    if not movement.is_entangled:
        together = in_company(lab, movement.taken, Allowance(clock, SAFETY_SECONDS))
    if not together.is_rounding:
        if lab.rows_fixed is not None:
            return _fixed(lab, movement, whole)
        return _sensitive(lab, movement, together, rows_max=rows_max, whole=whole)
    candidates = [k for k in range(len(movement.taken)) if k not in movement.loose]
    padding = Padding((), INCOMPARABLE)
    packed = _end_to_end(lab, movement)
    if packed is not None and packed.is_rounding:
        return _packed(lab, movement, together.worst(packed), rows_max=rows_max, whole=whole)
    if candidates:
        allowance = Allowance(clock, PADDING_SECONDS)
        padding = find_padding(lab, movement.taken, candidates, allowance)
    return _batched(lab, movement, together, padding, rows_max=rows_max, whole=whole)


def _batched(
    lab: Lab,
    movement: Movement,
    together: Difference,
    padding: Padding,
    *,
    rows_max: int,
    whole: Allowance,
) -> Findings:
    taken = movement.taken
    kind = kind_of(together, padding.difference if taken else None)
    worst = together.worst(padding.difference) if taken else together
    if lab.rows_fixed is not None:
        grid = [(lab.rows_fixed, tuple(sizes[0] for sizes in taken))]
    else:
        grid = grid_of(taken, rows_max=rows_max, length_max=lab.length_max)
    can_pad = bool(taken) and len(padding.paddable) == len(taken)
    samples = tuple(measure(lab, grid, whole))
    elements_max = None
    if can_pad and len(taken) == 1 and lab.rows_fixed is None:
        elements_max = saturation(lab, rows_max=rows_max, whole=whole)
    padded = [name for name, k in _followers(lab) if k in padding.paddable]
    verdict = words(
        kind,
        worst,
        lengths=len(taken),
        paddable=padding.paddable,
        how=how_padded(lab.values, padded) if padding.paddable else how_equal(together),
    )
    findings = _findings(lab, movement, kind, verdict, worst)
    return replace(
        findings,
        can_batch=True,
        can_pad=can_pad,
        paddable=padding.paddable,
        residual=(worst if padding.paddable else together).absolute or 0.0,
        samples=samples,
        elements_max=elements_max,
        ran=_ran(lab),
    )


def _end_to_end(lab: Lab, movement: Movement) -> Difference | None:
    """How far rows that stand one behind the other change each other; None if they cannot."""
    if not is_packed(lab.executable) or len(movement.taken) != 1 or lab.rows_fixed is not None:
        return None
    layouts = {spec.name: _input_layout(lab, spec.name) for spec in lab.inputs}
    if not can_pack(layouts | movement.layouts):
        return None
    return end_to_end(lab, movement.taken[0], layouts)


def _packed(
    lab: Lab, movement: Movement, worst: Difference, *, rows_max: int, whole: Allowance
) -> Findings:
    kind = kind_of(worst, None)
    grid = grid_of(movement.taken, rows_max=rows_max, length_max=lab.length_max)
    samples = tuple(measure(lab, grid, whole))
    verdict = f"{words(kind, worst, lengths=0, paddable=())}; rows stand end to end, unpadded"
    return replace(
        _findings(lab, movement, kind, verdict, worst),
        can_batch=True,
        is_packed=True,
        residual=worst.absolute or 0.0,
        samples=samples,
        ran=_ran(lab),
    )


def _sensitive(
    lab: Lab, movement: Movement, worst: Difference, *, rows_max: int, whole: Allowance
) -> Findings:
    grid = grid_of(movement.taken, rows_max=rows_max, length_max=lab.length_max)
    samples = tuple(measure(lab, grid, whole))
    kind = Kind.BATCH_SENSITIVE
    verdict = words(kind, worst, lengths=len(movement.taken), paddable=())
    return replace(_findings(lab, movement, kind, verdict, worst), samples=samples, ran=_ran(lab))


def _fixed(lab: Lab, movement: Movement, whole: Allowance) -> Findings:
    lab.rows_fixed = None
    lab.axes = replace(lab.axes, batch={})
    sizes = list(dict.fromkeys(zip(*((each[0], each[-1]) for each in movement.taken), strict=True)))
    samples = tuple(measure(lab, [(1, each) for each in sizes or [()]], whole))
    kind = Kind.BATCH_FIXED
    verdict = words(kind, NONE, lengths=0, paddable=())
    found = _findings(lab, movement, kind, verdict, NONE)
    return replace(
        found,
        signature=replace(found.signature, is_batched=False),
        difference=None,
        relative=None,
        samples=samples,
        ran=_ran(lab),
    )


def _unprobed(executable: Executable) -> Findings:
    is_batched = all(s.dims and not isinstance(s.dims[0], int) for s in executable.inputs)
    signature = Signature(executable.inputs, executable.outputs, is_batched)
    verdict = "not probed: it refuses made-up inputs; only equal shapes share a run"
    return Findings(signature, verdict, can_batch=is_batched)


def _freeze(lab: Lab, movement: Movement) -> bool:
    """Whether axis 0 may count rows although it is fixed; the lab fills runs up from now on."""
    firsts = {spec.dims[0] if spec.dims else 0 for spec in lab.inputs}
    shapes = [shape for run in movement.seen for shape in run.shapes.values()]
    firsts |= {shape[0] if shape else 0 for shape in shapes}
    if lab.axes.batch or movement.is_entangled or len(firsts) != 1:
        return False
    (rows,) = firsts
    if not isinstance(rows, int) or rows < 2:
        return False
    lab.axes = replace(lab.axes, batch={spec.name: 0 for spec in lab.inputs})
    lab.rows_fixed = rows
    lab.layouts = {name: replace(layout, batch_axis=0) for name, layout in lab.layouts.items()}
    movement.layouts = dict(lab.layouts)
    lab.fill_differently(lab.values)
    return True


def _findings(
    lab: Lab, movement: Movement, kind: Kind, verdict: str, worst: Difference
) -> Findings:
    outputs = tuple(observed(spec, movement) for spec in lab.executable.outputs)
    signature = Signature(
        inputs=lab.inputs,
        outputs=outputs,
        is_batched=True,
        input_layouts=_told({spec.name: _input_layout(lab, spec.name) for spec in lab.inputs}),
        output_layouts=_told(movement.layouts),
        rows_fixed=lab.rows_fixed,
    )
    return Findings(
        signature,
        verdict,
        kind=kind,
        difference=worst.absolute,
        relative=worst.relative,
        lengths_run=tuple(tuple(sizes) for sizes in movement.taken),
    )


def _input_layout(lab: Lab, name: str) -> Layout:
    ties = [Tie(axis, k) for (of, axis), k in lab.axes.places().items() if of == name]
    return Layout(
        batch_axis=lab.axes.batch.get(name),
        ties=tuple(sorted(ties, key=lambda tie: tie.axis)),
        pad_value=lab.values.pad(name),
        is_mask=name in lab.values.masks,
    )


def _told(layouts: Mapping[str, Layout]) -> dict[str, Layout]:
    return {name: layout for name, layout in layouts.items() if layout != ROWS_FIRST}


def _followers(lab: Lab) -> Sequence[tuple[str, int]]:
    return list(dict.fromkeys((name, k) for (name, _), k in lab.axes.places().items()))


def _ran(lab: Lab) -> tuple[Ran, ...]:
    ran = sorted(lab.ran, key=lambda each: (each.rows, each.lengths))
    return tuple(ran[:RAN_MAX])
