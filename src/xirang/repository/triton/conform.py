"""A model as its configuration shows it: chosen outputs, declared sizes, other shapes outside."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from xirang.backends.executable import Executable, takes_lists
from xirang.backends.requests import Asked, Line, Responded, is_decoupled, takes_requests
from xirang.core.signature import Dim, TensorSpec
from xirang.repository.triton.completion import model_shape
from xirang.repository.triton.schema import Input, ModelConfig, Output
from xirang.tensors.tensor import Array

Shapes = Mapping[str, tuple[list[int], list[int]]]
"""A tensor's name to its shape on this side and on the other, -1 where it varies."""


def conformed(executable: Executable, config: ModelConfig) -> Executable:
    """The executable itself if that is what the configuration shows, else one around it."""
    outer = Conformed(executable, config)
    is_same = (outer.inputs, outer.outputs) == (tuple(executable.inputs), tuple(executable.outputs))
    tensors: list[Input | Output] = [*config.input, *config.output]
    is_reshaped = any(each.reshape is not UNSET for each in tensors)
    return executable if is_same and not is_reshaped else outer


class Conformed:
    """Stands between clients' shapes and the model's."""

    def __init__(self, executable: Executable, config: ModelConfig) -> None:
        """Wrap a model.

        Args:
            executable: It.
            config: Completed, so that it names inputs and outputs of the model.
        """
        self.platform = executable.platform
        self.is_reentrant = executable.is_reentrant
        self.keeps_inputs = executable.keeps_inputs
        self.device = getattr(executable, "device", "cpu")
        self.takes_requests = takes_requests(executable)
        self.is_decoupled = is_decoupled(executable)
        self.optional: Sequence[str] = getattr(executable, "optional", ())
        # Lists are for a model that is asked with requests, which decides what shares a run.
        self.takes_lists = self.takes_requests and takes_lists(executable)
        self._executable = executable
        self._is_batched = config.max_batch_size > 0
        taken = {spec.name: spec for spec in executable.inputs}
        given = {spec.name: spec for spec in executable.outputs}
        self.inputs = tuple(self._outside(each, taken[each.name]) for each in config.input)
        self.outputs = tuple(self._outside(each, given[each.name]) for each in config.output)
        self._inward = {name: (outer, inner) for name, outer, inner in self._shapes(config.input)}
        self._outward = {name: (inner, outer) for name, outer, inner in self._shapes(config.output)}

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the model; see `Executable.run`."""
        outputs = self._executable.run(_reshaped(inputs, self._inward), wanted)
        return _reshaped(outputs, self._outward)

    def run_requests(self, requests: Sequence[Asked], line: Line) -> list[Responded]:
        """Run the model with requests; see `requests.RequestExecutable`."""
        inner: Any = self._executable
        asked = [replace(each, inputs=_reshaped(each.inputs, self._inward)) for each in requests]
        return [
            _reshaped(result, self._outward) if isinstance(result, dict) else result
            for result in inner.run_requests(asked, _Outward(line, self._outward))
        ]

    def _outside(self, told: Input | Output, spec: TensorSpec) -> TensorSpec:
        """A tensor as clients see it; symbols of the model are kept, they tie axes together."""
        rows = spec.dims[:1] if self._is_batched else ()
        own: Sequence[Dim] = spec.dims[len(rows) :]
        if told.reshape is not UNSET:
            own = [None] * len(told.dims)
        dims = [dim if size == -1 else size for size, dim in zip(told.dims, own, strict=True)]
        return TensorSpec(spec.name, spec.datatype, (*rows, *dims))

    def _shapes(
        self, tensors: Sequence[Input] | Sequence[Output]
    ) -> Iterator[tuple[str, list[int], list[int]]]:
        """Names of those that have another shape inside, with the one outside and that inside."""
        rows = [-1] if self._is_batched else []
        for each in tensors:
            if each.reshape is not UNSET:
                inner = model_shape(each, is_batched=self._is_batched)
                yield each.name, [*rows, *each.dims], inner


class _Outward:
    """The line of a run whose model answers in parts of other shapes than clients see."""

    def __init__(self, line: Line, shapes: Shapes) -> None:
        self.call = line.call
        self._tell = line.tell
        self._shapes = shapes

    def tell(self, index: int, part: Responded) -> None:
        """Hand out one part; see `requests.Line`."""
        self._tell(index, _reshaped(part, self._shapes) if isinstance(part, dict) else part)


def _reshaped(arrays: Mapping[str, Array], shapes: Shapes) -> dict[str, Array]:
    """Arrays from one side's shapes to the other's; free sizes keep their order."""
    made = dict(arrays)
    for name in shapes.keys() & arrays.keys():
        known, sought = shapes[name]
        array = arrays[name]
        free = (size for size, dim in zip(array.shape, known, strict=True) if dim == -1)
        made[name] = array.reshape([next(free) if size == -1 else size for size in sought])
    return made
