"""Names, datatypes and shapes of a model's inputs and outputs."""

from dataclasses import dataclass

Dim = int | str | None
"""A fixed size, a symbol that ties axes of the same name, or unknown."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: As the model has it.
        datatype: Of the Open Inference Protocol: FP32, INT64, BYTES, …
        dims: Batch axis included.
    """

    name: str
    datatype: str
    dims: tuple[Dim, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims as a client sees them: -1 where they may vary."""
        return tuple(dim if isinstance(dim, int) else -1 for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model takes and gives.

    Attributes:
        inputs: In the model's order.
        outputs: In the model's order.
        is_batched: Whether axis 0 of every input is the batch axis and may vary.
        length_axes: Input name to the axis that holds its length, for inputs that have one.
        tied_axes: Output name to the axis that is as long as the inputs' length axis.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_batched: bool
    length_axes: dict[str, int]
    tied_axes: dict[str, int]

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(spec.name for spec in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(spec.name for spec in self.outputs)
