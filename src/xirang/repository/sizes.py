"""From what the probe found and the operator wants to the sizes at which a model is run."""

import csv
import logging
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from xirang.backends.executable import Executable
from xirang.backends.requests import takes_requests
from xirang.config import ModelSettings
from xirang.core.batching.shaping import segment
from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.request import PRIORITY_HIGH, PRIORITY_LOW
from xirang.core.rules import BatcherRules
from xirang.core.signature import Dim, Signature, Tie
from xirang.engine.extent import Shapes
from xirang.engine.probe import Findings, Kind
from xirang.errors import InvalidSetting

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a model is batched.

    Attributes:
        signature: As found, with a length where only the configuration knows of one.
        shapes: The sizes at which it runs.
        can_batch: Whether rows of several requests share a run.
        overrides: What the configuration decided against the verdict, in words.
        rows_bound: Most rows that the model takes at all.
        pads_itself: Whether it is given lists and makes one tensor of them, as long as the longest.
    """

    signature: Signature
    shapes: Shapes
    can_batch: bool
    overrides: tuple[str, ...]
    rows_bound: int = sys.maxsize
    pads_itself: bool = False


def plan_of(
    settings: ModelSettings, findings: Findings, executable: Executable, cost: CostModel
) -> Plan:
    """Obey the verdict, save where the configuration overrides it.

    Args:
        settings: What the operator wants.
        findings: What the probe found.
        executable: May take lists, so that nothing has to be aligned.
        cost: How long runs take; decides which lengths to freeze.

    Raises:
        InvalidSetting: The histogram of lengths cannot be read.
    """
    lengths = settings.lengths or _chosen(settings, cost)
    signature = findings.signature
    paddable = findings.paddable
    if lengths and not signature.lengths:
        signature = _with_length(signature, lengths)
        paddable = tuple(range(signature.lengths))  # to name the lengths is to consent
    overrides = []
    can_batch = findings.can_batch
    if settings.allow_batching != "verdict" and signature.is_batched:
        can_batch = settings.allow_batching == "yes"
        overrides += [f"allow_batching = {settings.allow_batching}"]
    if settings.allow_padding != "verdict":
        paddable = tuple(range(signature.lengths)) if settings.allow_padding == "yes" else ()
        overrides += [f"allow_padding = {settings.allow_padding}"]
    rows_bound, length_bound = _exported_for(executable, signature)
    row_sizes = (signature.rows_fixed,) if signature.rows_fixed else settings.batch_sizes
    is_whole = findings.kind is Kind.BATCH_SENSITIVE and not can_batch
    shapes = Shapes(
        paddable=paddable,
        lengths=lengths,
        row_sizes=() if is_whole else row_sizes,
        # What a model makes of a whole request nobody else can join.
        rows_max=min(settings.max_batch_size, rows_bound)
        if is_whole or takes_requests(executable)
        else None,
        length_max=length_bound,
        can_crop=settings.crop,
        optional=frozenset(getattr(executable, "optional", ())),
        is_ragged=can_batch and (findings.is_packed or _takes_lists(executable)),
    )
    pads_itself = shapes.is_ragged and takes_requests(executable)
    return Plan(signature, shapes, can_batch, tuple(overrides), rows_bound, pads_itself)


def equal_shapes(plan: Plan) -> Plan:
    """The same, but only requests of one shape share a run."""
    shapes = replace(plan.shapes, paddable=(), is_ragged=False)
    return replace(plan, shapes=shapes, pads_itself=False)


def policy_of(
    settings: ModelSettings,
    findings: Findings,
    plan: Plan,
    instances: int,
    rules: BatcherRules | None = None,
) -> Policy:
    """How a model is scheduled.

    Args:
        settings: What the operator wants.
        findings: What the probe found.
        plan: Made of the two.
        instances: How many there are.
        rules: Of Triton's batcher, if it asks for them; then nobody is turned away by prediction.
    """
    row_sizes = plan.shapes.row_sizes
    rows_max = min(row_sizes[-1] if row_sizes else settings.max_batch_size, plan.rows_bound)
    return Policy(
        instances=instances,
        # Off is one request a run, not one row: it may have as many as a run of several has.
        batching=Batching(settings.batching) if plan.can_batch else Batching.OFF,
        max_batch_size=rows_max if plan.signature.is_batched else 1,
        elements_max=settings.max_batch_elements or findings.elements_max,
        window_ns_max=int(settings.window_ms * 1e6),
        efficiency=settings.efficiency,
        efficiencies=_efficiencies(settings),
        fast_priority=settings.fast_priority,
        fast_budget_ns=int(settings.fast_budget_ms * 1e6),
        fast_share=settings.fast_share,
        fast_wait_ns=int(settings.fast_wait_ms * 1e6),
        rejects_early=settings.reject_early and rules is None,
        depth_max=settings.queue,
        queue_ns_max=int(settings.queue_ms * 1e6),
        can_pad=plan.pads_itself or (bool(plan.shapes.paddable) and not plan.shapes.is_ragged),
        is_ragged=plan.shapes.is_ragged and not plan.pads_itself,
        row_sizes=row_sizes,
        batcher=rules,
    )


def _efficiencies(settings: ModelSettings) -> tuple[tuple[int, float], ...]:
    """Priorities that have an efficiency of their own."""
    own = ((PRIORITY_HIGH, settings.efficiency_high), (PRIORITY_LOW, settings.efficiency_low))
    return tuple((priority, efficiency) for priority, efficiency in own if efficiency >= 0)


def _exported_for(executable: Executable, signature: Signature) -> tuple[int, int | None]:
    """Most rows, and the greatest length: exported programs have bounds for their symbols."""
    bounds = getattr(executable, "bounds", {})
    rows, lengths = [sys.maxsize], []
    for spec in executable.inputs if bounds else ():
        layout = signature.input_layout(spec.name)
        axes = {tie.axis for tie in layout.ties}
        for axis, dim in enumerate(spec.dims):
            upper = bounds.get(dim, (1, None))[1]
            if upper is not None and axis == layout.batch_axis:
                rows.append(upper)
            elif upper is not None and axis in axes:
                lengths.append(upper)
    # Where there are several lengths the program itself refuses what is too long.
    return min(rows), min(lengths) if lengths and signature.lengths == 1 else None


def _takes_lists(executable: Executable) -> bool:
    return bool(getattr(executable, "takes_lists", False))


def _with_length(signature: Signature, lengths: tuple[int, ...]) -> Signature:
    """A signature in which the one axis of an input that is as long as a length follows it.

    A model without dynamic shapes does not say which axis is the length; its size does. An output
    of three axes and more that has this size on the same axis has an element for each position:
    what belongs to padding is cut off. Of a flatter one nobody can tell, and it is left as it is.
    """
    layouts, tied = dict(signature.input_layouts), set()
    for spec in signature.inputs:
        layout = signature.input_layout(spec.name)
        rows = {layout.batch_axis} if signature.is_batched else set()
        axes = [axis for axis, dim in enumerate(spec.dims) if dim in lengths and axis not in rows]
        if len(axes) == 1:
            layouts[spec.name] = replace(layout, ties=(Tie(axes[0]),))
            tied.add((axes[0], spec.dims[axes[0]]))
    if layouts == signature.input_layouts:
        log.warning("no input has one axis of %s: lengths are not used", list(lengths))
    return replace(signature, input_layouts=layouts, **_cut_back(signature, tied))


def _cut_back(signature: Signature, tied: Collection[tuple[int, Dim]]) -> dict[str, Any]:
    """Outputs and their layouts, with a length where they have one."""
    outputs, layouts = [], dict(signature.output_layouts)
    for spec in signature.outputs:
        dims = list(spec.dims)
        fitting = [axis for axis, size in tied if len(dims) > max(2, axis) and dims[axis] == size]
        layout = signature.output_layout(spec.name)
        if fitting and not layout.ties:
            dims[fitting[0]] = None
            layouts[spec.name] = replace(layout, ties=(Tie(fitting[0]),))
        outputs.append(replace(spec, dims=tuple(dims)))
    return {"outputs": tuple(outputs), "output_layouts": layouts}


def _chosen(settings: ModelSettings, cost: CostModel) -> tuple[int, ...]:
    if not settings.length_histogram:
        return ()
    histogram = _read(Path(settings.length_histogram))
    longest = settings.length_max or inf
    kept: Counter[int] = Counter()
    for length, count in histogram.items():
        if length <= longest or settings.crop:
            kept[int(min(length, longest))] += count
    lengths = segment(kept, settings.length_sizes, row_ns=cost.row_ns) if kept else ()
    log.info("lengths chosen from %s: %s", settings.length_histogram, list(lengths))
    return lengths


def _read(file: Path) -> Counter[int]:
    histogram: Counter[int] = Counter()
    try:
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                histogram[int(row["length"])] += int(row["count"])
    except OSError as error:
        raise InvalidSetting(f"cannot read {file}: {error.strerror}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSetting(
            f"{file} is no histogram ({error}); expected columns length and count of whole numbers"
        ) from error
    if not histogram or min(*histogram, *histogram.values()) < 1:
        raise InvalidSetting(f"{file} is no histogram; expected lengths and counts from 1")
    return histogram
