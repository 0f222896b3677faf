"""A model that is served: what it takes, how it is scheduled, and what an instance does with it."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec

from xirang.backends.executable import Executable
from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.run import Done
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.clock import Clock
from xirang.errors import InvalidRequest
from xirang.tensors.assemble import Slab, assemble
from xirang.tensors.split import split
from xirang.tensors.tensor import NUMPY_TYPES, Array, Tensor

EXTENTS_MAX = 4096
"""Clients send the same shapes again and again: what was found out about one is kept."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a request is, as the scheduler sees it."""

    rows: int
    length: int
    group: Hashable


class Member(msgspec.Struct, gc=False):
    """One request's part in a run.

    Attributes:
        inputs: Name to tensor.
        extent: Its rows and length.
        wanted: Names of the outputs it asked for.
        context: Whatever the engine needs to find the owner again.
    """

    inputs: Mapping[str, Tensor]
    extent: Extent
    wanted: Sequence[str]
    context: Any = None


@dataclass(slots=True, eq=False)
class Model:
    """A loaded model with all that was found out about it.

    Attributes:
        name: Under which it is served.
        version: As clients name it.
        executable: What runs.
        signature: Its inputs and outputs, as the probe saw them.
        policy: How it is scheduled.
        cost: How long its runs take.
        budget_ns: The latency budget of a request that brings none.
        length_max: Longest row it takes; None if there is no such bound.
        verdict: What the probe said about batching, in words.
        output_names: Of the signature, kept at hand.
    """

    name: str
    executable: Executable
    signature: Signature
    policy: Policy
    budget_ns: int
    cost: CostModel = field(default_factory=CostModel)
    version: str = "1"
    length_max: int | None = None
    verdict: str = "not probed"
    output_names: tuple[str, ...] = ()
    _extents: dict[Hashable, Extent] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.output_names = self.signature.output_names

    def admit(self, inputs: Mapping[str, Tensor]) -> Extent:
        """Hold a request's inputs against the signature.

        Raises:
            InvalidRequest: Says which input is wrong, how, and what was expected.
        """
        # From a list, which is quicker than from a generator: this is done for every request.
        key = tuple(
            [
                (name, tensor.datatype, tensor.shape, len(tensor.data))
                for name, tensor in inputs.items()
            ]
        )
        extent = self._extents.get(key)
        if extent is None:
            extent = self._examine(inputs)
            if len(self._extents) >= EXTENTS_MAX:
                self._extents.clear()
            self._extents[key] = extent
        return extent

    def _examine(self, inputs: Mapping[str, Tensor]) -> Extent:
        specs = self.signature.inputs
        if len(inputs) != len(specs) or any(spec.name not in inputs for spec in specs):
            raise InvalidRequest(self._wrong_names(inputs))
        symbols: dict[Hashable, int] = {}
        for spec in specs:
            tensor = inputs[spec.name]
            if not _fits(spec, tensor):
                raise InvalidRequest(self._wrong_tensor(spec, tensor))
            self._tie(spec, tensor.shape, symbols)
        return self._extent(inputs, self._rows(inputs), symbols)

    def _rows(self, inputs: Mapping[str, Tensor]) -> int:
        if not self.signature.is_batched:
            return 1
        rows = -1
        for name, tensor in inputs.items():
            if rows not in (-1, tensor.shape[0]):
                raise InvalidRequest(
                    f"input '{name}' of model '{self.name}' has {tensor.shape[0]} rows, "
                    f"another has {rows}; expected the same first dimension for all inputs"
                )
            rows = tensor.shape[0]
        return rows

    def _tie(self, spec: TensorSpec, shape: Sequence[int], symbols: dict[Hashable, int]) -> None:
        ties = {tie.axis: tie.length for tie in self.signature.input_layout(spec.name).ties}
        first = 1 if self.signature.is_batched else 0
        for axis in range(first, len(shape)):
            dim = spec.dims[axis]
            if isinstance(dim, int):
                continue
            symbol = "length" if axis in ties else dim or (spec.name, axis)
            known = symbols.setdefault(symbol, shape[axis])
            if known != shape[axis]:
                raise InvalidRequest(
                    f"input '{spec.name}' of model '{self.name}' has {shape[axis]} along axis "
                    f"{axis}, another input has {known}; expected the same for all inputs"
                )

    def _extent(
        self, inputs: Mapping[str, Tensor], rows: int, symbols: dict[Hashable, int]
    ) -> Extent:
        length = symbols.pop("length", None)
        if length is not None:
            if self.length_max is not None and length > self.length_max:
                raise InvalidRequest(
                    f"a row of {length} is too long for model '{self.name}'; "
                    f"expected at most {self.length_max}"
                )
            if not self.policy.can_pad:
                symbols["length"] = length
        elif symbols:
            length = prod(symbols.values())  # what varies, as one number for the cost model
        group: Hashable = tuple(symbols.values()) if symbols else None
        if not self.signature.is_batched:
            group = tuple(tensor.shape for tensor in inputs.values())
        return Extent(rows, length or 1, group)

    def _wrong_names(self, inputs: Mapping[str, Tensor]) -> str:
        names = self.signature.input_names
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        wrong = f"is missing inputs {missing}" if missing else f"has unknown inputs {unknown}"
        return f"request for model '{self.name}' {wrong}; expected exactly {list(names)}"

    def _wrong_tensor(self, spec: TensorSpec, tensor: Tensor) -> str:
        subject = f"input '{spec.name}' of model '{self.name}'"
        if tensor.datatype != spec.datatype:
            return f"{subject} has datatype {tensor.datatype}; expected {spec.datatype}"
        if not _shape_fits(spec, tensor.shape):
            expected = list(spec.shape)
            return f"{subject} has shape {list(tensor.shape)}; expected {expected}, none of them 0"
        return (
            f"{subject} has {len(tensor.data)} bytes or elements of data for shape "
            f"{list(tensor.shape)} of {spec.datatype}"
        )


class TensorWork:
    """What one instance of a model does with a run: assemble, run, split."""

    def __init__(self, model: Model, executable: Executable) -> None:
        self._model = model
        self._executable = executable
        self._slabs = {name: Slab() for name in model.signature.input_names}

    def __call__(
        self, members: Sequence[Member], *, length: int, clock: Clock
    ) -> tuple[list[Any], Done]:
        """See `instances.Work`."""
        started_ns = clock.now_ns()
        inputs = self._assemble(members, length)
        assembled_ns = clock.now_ns()
        wanted = self._wanted(members)
        outputs = self._executable.run(inputs, wanted)
        ran_ns = clock.now_ns()
        results = split(
            outputs,
            rows=[member.extent.rows for member in members],
            lengths=[member.extent.length for member in members],
            length=length,
            layouts=self._model.signature.output_layouts,
        )
        for member, result in zip(members, results, strict=True):
            if len(member.wanted) < len(result):
                for name in [name for name in result if name not in member.wanted]:
                    del result[name]
        ended_ns = clock.now_ns()
        done = Done(
            ran_ns=ended_ns - started_ns,
            assemble_ns=assembled_ns - started_ns,
            split_ns=ended_ns - ran_ns,
        )
        return results, done

    def _assemble(self, members: Sequence[Member], length: int) -> dict[str, Array]:
        signature = self._model.signature
        can_pad = self._model.policy.can_pad
        ties = {n: layout.ties for n, layout in signature.input_layouts.items() if can_pad}
        if self._executable.keeps_inputs:
            self._slabs = {name: Slab() for name in signature.input_names}
        return {
            spec.name: assemble(
                spec,
                [member.inputs[spec.name] for member in members],
                axis=ties[spec.name][0].axis if ties.get(spec.name) else None,
                length=length,
                slab=self._slabs[spec.name],
            )
            for spec in signature.inputs
        }

    def _wanted(self, members: Sequence[Member]) -> Sequence[str]:
        names = self._model.output_names
        if any(len(member.wanted) == len(names) for member in members):
            return names
        wanted = {name for member in members for name in member.wanted}
        return [name for name in names if name in wanted]


def _fits(spec: TensorSpec, tensor: Tensor) -> bool:
    if tensor.datatype != spec.datatype or not _shape_fits(spec, tensor.shape):
        return False
    count = prod(tensor.shape)
    if spec.datatype != "BYTES":
        count *= NUMPY_TYPES[spec.datatype].itemsize
    return len(tensor.data) == count


def _shape_fits(spec: TensorSpec, shape: Sequence[int]) -> bool:
    if len(shape) != len(spec.dims):
        return False
    for size, dim in zip(shape, spec.dims, strict=True):
        if size < 1 or (isinstance(dim, int) and size != dim):
            return False
    return True
