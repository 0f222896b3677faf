"""What an instance does with the members of a run: assemble, run the model, split."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xirang.backends.executable import Executable, WorkerDied, Workers, is_packed
from xirang.backends.requests import takes_requests
from xirang.core.batching.shaping import filled
from xirang.core.memory.polynomial import size_of
from xirang.core.run import Done
from xirang.core.signature import Layout
from xirang.engine.clock import Clock
from xirang.engine.contract import Contract
from xirang.engine.extent import Extent
from xirang.engine.faults import Work
from xirang.engine.inner import InnerCalls
from xirang.engine.member import Member
from xirang.engine.memory import Place
from xirang.engine.model import Model
from xirang.engine.requesting import RequestWork
from xirang.tensors.assemble import Stack
from xirang.tensors.packed import OFFSETS, offsets, pack, unpack
from xirang.tensors.split import Shares, split
from xirang.tensors.tensor import Array, to_array


def work_of(model: Model, inner: InnerCalls | None = None, place: Place | None = None) -> Work:
    """What one instance of a model does with a run.

    Args:
        model: Whose.
        inner: Takes what a model that takes requests wants of the server meanwhile.
        place: Where the instance's runs take their memory, if that is counted.
    """
    work: Work
    if takes_requests(model.executable):
        assert inner is not None
        work = RequestWork(model, inner)
    elif model.shapes.is_ragged:
        work = PackedWork(model, place) if is_packed(model.executable) else ListWork(model)
    else:
        work = TensorWork(model, model.executable, place)
    return work if model.workers is None else WorkerWork(work, model.workers)


class WorkerWork:
    """Never waits for a process on its own: how long to wait is decided by who knows deadlines."""

    def __init__(self, work: Work, workers: Workers) -> None:
        """Put this in front of work that is done in processes."""
        self._work = work
        self._workers = workers

    def __call__(self, members: Sequence[Any], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `faults.Work`."""
        if not self._workers.wait(0):
            raise WorkerDied("no process is idle", self._workers, is_suspect=False)
        return self._work(members, clock=clock)


class TensorWork:
    """The members' rows stand in one tensor, padded to the run's lengths."""

    def __init__(self, model: Model, executable: Executable, place: Place | None = None) -> None:
        """Prepare for a model's runs.

        Args:
            model: What to run.
            executable: The copy of it that this instance runs.
            place: Where its runs take their memory, if that is counted.
        """
        self._place = place
        signature = model.signature
        self._names = model.output_names
        self._contract = Contract(signature)
        self._executable = executable
        self._row_sizes = model.shapes.row_sizes
        self._is_strict = model.is_probed
        self._stacks = [
            Stack(spec, _seen(signature.input_layout(spec.name), signature.is_batched))
            for spec in signature.inputs
        ]
        self._layouts = {
            name: _seen(signature.output_layout(name), signature.is_batched)
            for name in signature.output_names
        }

    def __call__(self, members: Sequence[Member], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `faults.Work`."""
        started_ns = clock.now_ns()
        extents = [member.extent for member in members]
        shares = self._shares(extents)
        filler = shares.total - sum(shares.rows)
        place = self._place
        take = None if place is None else place.open(shares.total, size_of(tuple(shares.target)))
        inputs = {
            stack.name: stack(
                [member.inputs[stack.name] for member in members],
                rows=shares.total - filler,
                target=shares.target,
                filler=filler,
                take=take,
            )
            for stack in self._stacks
        }
        assembled_ns = clock.now_ns()
        wanted = _wanted(members, self._names)
        outputs = _run(self._executable, place, inputs, wanted)
        self._contract.check(outputs, wanted)
        ran_ns = clock.now_ns()
        results = _handed_out(split(outputs, shares, self._layouts), members, self._names)
        memory_bytes = 0 if self._place is None else self._place.peak_bytes
        return results, _done((started_ns, assembled_ns, ran_ns, clock.now_ns()), memory_bytes)

    def _shares(self, extents: Sequence[Extent]) -> Shares:
        rows = [extent.rows for extent in extents]
        target: tuple[int, ...] = extents[0].padded
        if len(target) == 1:
            target = max([extent.padded for extent in extents])
        elif target:
            target = tuple(map(max, zip(*(extent.padded for extent in extents), strict=True)))
        lengths = [extent.own for extent in extents]
        total = filled(sum(rows), self._row_sizes)
        return Shares(rows, lengths, target, total, self._is_strict)


class ListWork:
    """The model takes lists: every row is given as it came, whatever the others are."""

    def __init__(self, model: Model) -> None:
        """Prepare for a model's runs.

        Args:
            model: Its executable has `run_lists`.
        """
        self._names = model.output_names
        self._contract = Contract(model.signature)
        self._run: Any = model.executable.run_lists  # type: ignore[attr-defined]
        self._inputs = model.signature.input_names

    def __call__(self, members: Sequence[Member], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `faults.Work`."""
        started_ns = clock.now_ns()
        columns = {
            name: [row for member in members for row in to_array(member.inputs[name])]
            for name in self._inputs
        }
        assembled_ns = clock.now_ns()
        wanted = _wanted(members, self._names)
        outputs = self._run(columns, wanted)
        count = sum([member.extent.rows for member in members])
        self._contract.check_lists(outputs, wanted, count)
        ran_ns = clock.now_ns()
        parts: dict[str, list[Array]] = {name: [] for name in outputs}
        begin = 0
        for member in members:
            end = begin + member.extent.rows
            for name, rows in outputs.items():
                parts[name].append(np.stack(rows[begin:end]))
            begin = end
        results = _handed_out(parts, members, self._names)
        return results, _done((started_ns, assembled_ns, ran_ns, clock.now_ns()))


class PackedWork:
    """The members' rows stand end to end in one tensor; offsets say which is whose."""

    def __init__(self, model: Model, place: Place | None = None) -> None:
        """Prepare for a model's runs.

        Args:
            model: Its executable is packed.
            place: Where its runs take their memory, if that is counted.
        """
        self._place = place
        signature = model.signature
        self._names = model.output_names
        self._contract = Contract(signature)
        self._executable = model.executable
        self._inputs = {name: signature.input_layout(name) for name in signature.input_names}
        self._outputs = signature.output_layouts

    def __call__(self, members: Sequence[Member], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `faults.Work`."""
        started_ns = clock.now_ns()
        rows = [member.extent.rows for member in members]
        lengths = [member.extent.own[0] for member in members]
        place, take = self._place, None
        if place is not None:
            elements = sum([count * length for count, length in zip(rows, lengths, strict=True)])
            take = place.open(sum(rows), (elements, max(lengths)))
        inputs = {
            name: pack([member.inputs[name] for member in members], layout, take)
            for name, layout in self._inputs.items()
        }
        inputs[OFFSETS] = offsets(rows=rows, lengths=lengths)
        assembled_ns = clock.now_ns()
        wanted = _wanted(members, self._names)
        outputs = _run(self._executable, place, inputs, wanted)
        self._contract.check(outputs, wanted)
        ran_ns = clock.now_ns()
        parts = unpack(outputs, rows=rows, lengths=lengths, layouts=self._outputs)
        results = _handed_out(parts, members, self._names)
        memory_bytes = 0 if place is None else place.peak_bytes
        return results, _done((started_ns, assembled_ns, ran_ns, clock.now_ns()), memory_bytes)


def _run(
    executable: Executable, place: Place | None, inputs: Mapping[str, Array], wanted: Sequence[str]
) -> dict[str, Array]:
    if place is None:
        return executable.run(inputs, wanted)
    return place.run(executable, inputs, wanted)


def _seen(layout: Layout, is_batched: bool) -> Layout:  # noqa: FBT001
    """A layout as a run sees it: without rows, if nothing is ever stacked."""
    return layout if is_batched else replace(layout, batch_axis=None)


def _wanted(members: Sequence[Member], names: Sequence[str]) -> Sequence[str]:
    if any(len(member.wanted) == len(names) for member in members):
        return names
    wanted = {name for member in members for name in member.wanted}
    return [name for name in names if name in wanted]


def _handed_out(
    parts: Mapping[str, Sequence[Array]], members: Sequence[Member], names: Sequence[str]
) -> list[dict[str, Array]]:
    """Each member's outputs: those it asked for."""
    if [len(member.wanted) for member in members].count(len(names)) == len(members):
        if len(parts) == 1:
            ((name, owned),) = parts.items()
            return [{name: each} for each in owned]
        return [dict(zip(parts, owned, strict=True)) for owned in zip(*parts.values(), strict=True)]
    return [
        {name: owned[index] for name, owned in parts.items() if name in member.wanted}
        for index, member in enumerate(members)
    ]


def _done(times_ns: tuple[int, int, int, int], memory_bytes: int = 0) -> Done:
    started_ns, assembled_ns, ran_ns, ended_ns = times_ns
    return Done(
        ran_ns=ended_ns - started_ns,
        assemble_ns=assembled_ns - started_ns,
        split_ns=ended_ns - ran_ns,
        memory_bytes=memory_bytes,
    )
