"""Runs a model on made-up requests: alone, together, padded; and cuts the answers apart again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from xirang.backends.executable import Executable
from xirang.core.signature import ROWS_FIRST, Layout, TensorSpec
from xirang.engine.probe.declared import NOTHING, Declared
from xirang.engine.probe.findings import Ran
from xirang.engine.probe.reading import read, settled
from xirang.engine.probe.values import Asked, Values, first_values, shape_of, shared, tensor
from xirang.tensors.tensor import Array

Outputs = dict[str, Array]


class Lab:
    """Everything is seeded, so a probe gives the same each time."""

    def __init__(
        self,
        executable: Executable,
        declared: Mapping[str, Declared],
    ) -> None:
        self.executable = executable
        self.declared = declared
        self.inputs = tuple(settled(executable.inputs, declared))
        self.axes = read(self.inputs, declared)
        self.values = first_values(self.inputs, declared)
        self.names = [spec.name for spec in executable.outputs]
        self.layouts: Mapping[str, Layout] = {}
        self.rows_fixed: int | None = None
        self.length_max: int | None = None
        self.ran: set[Ran] = set()
        self._alone: dict[Asked, Outputs] = {}

    def fill_differently(self, values: Values) -> None:
        """From now on other made-up values."""
        self.values = values
        self._alone.clear()

    def request(self, asked: Asked) -> dict[str, Array]:
        """The tensors of a request."""
        return {spec.name: self._tensor(spec, asked) for spec in self.inputs}

    def run(self, inputs: Mapping[str, Array], ran: Ran) -> Outputs:
        """All outputs."""
        outputs = self.executable.run(inputs, self.names)
        self.ran.add(ran)
        return outputs

    def alone(self, asked: Asked) -> Outputs:
        """A request's own answer."""
        if asked not in self._alone:
            (answer,) = self.together([asked], asked.lengths, is_cut=self.rows_fixed is not None)
            self._alone[asked] = answer
        return self._alone[asked]

    def together(
        self, members: Sequence[Asked], targets: tuple[int, ...], *, is_cut: bool = True
    ) -> list[Outputs]:
        """The members' answers from one run that is padded to the target sizes."""
        requests = [self.request(member) for member in members]
        rows = [member.rows for member in members]
        if self.rows_fixed is not None:
            filler = self.rows_fixed - sum(rows)
            requests += [self.request(replace(members[-1], rows=1))] * filler
        stacked = {
            spec.name: self._stack(spec, [one[spec.name] for one in requests], targets)
            for spec in self.inputs
        }
        outputs = self.run(stacked, Ran(self.rows_fixed or sum(rows), targets))
        if not is_cut:
            return [outputs]
        return self._cut(outputs, members)

    def own(self, outputs: Outputs, member: Asked) -> Outputs:
        """What of a run's outputs is the first member's."""
        (answer,) = self._cut(outputs, [member])
        return answer

    def _tensor(self, spec: TensorSpec, asked: Asked) -> Array:
        shape = shape_of(spec, self.axes, asked)
        told = self.declared.get(spec.name, NOTHING)
        if spec.name not in self.axes.batch and spec.datatype != "BYTES":
            return shared(spec, shape, self.values, told)
        return tensor(spec, shape, asked, self.values, told)

    def _stack(self, spec: TensorSpec, parts: Sequence[Array], targets: tuple[int, ...]) -> Array:
        follows = self.axes.places()
        padded = []
        for part in parts:
            shape = [
                targets[follows[spec.name, axis]] if (spec.name, axis) in follows else size
                for axis, size in enumerate(part.shape)
            ]
            if tuple(shape) == part.shape:
                padded.append(part)
                continue
            whole = np.full(shape, self.values.pad(spec.name), part.dtype)
            whole[tuple(slice(0, size) for size in part.shape)] = part
            padded.append(whole)
        axis = self.axes.batch.get(spec.name)
        return padded[0] if axis is None else np.concatenate(padded, axis)

    def _cut(self, outputs: Outputs, members: Sequence[Asked]) -> list[Outputs]:
        begin = 0
        answers = []
        for member in members:
            end = begin + member.rows
            answers.append(
                {
                    name: _part(array, self.layouts.get(name, ROWS_FIRST), member, (begin, end))
                    for name, array in outputs.items()
                }
            )
            begin = end
        return answers


def _part(array: Array, layout: Layout, member: Asked, rows: tuple[int, int]) -> Array:
    index = [slice(None)] * array.ndim
    if layout.batch_axis is not None and layout.batch_axis < array.ndim:
        index[layout.batch_axis] = slice(*rows)
    for tie in layout.ties:
        index[tie.axis] = slice(0, tie.size(member.lengths[tie.length]))
    return array[tuple(index)]
