"""Names, datatypes and shapes of a model's inputs and outputs."""

from dataclasses import dataclass, field

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
class Tie:
    """An axis whose size follows one of a request's lengths.

    Attributes:
        axis: Of the tensor.
        length: Which of the lengths: 0 for the first (tokens, or an image's height).
        stride: A model may shorten what it is given, or lengthen it: an axis is of
            (length · factor + offset) ÷ stride.
        offset: See stride.
        factor: See stride.
    """

    axis: int
    length: int = 0
    stride: int = 1
    offset: int = 0
    factor: int = 1

    def size(self, length: int) -> int:
        """The axis's size for a request of this length."""
        return (length * self.factor + self.offset) // self.stride


@dataclass(frozen=True, slots=True)
class Layout:
    """What the axes of one input or output mean.

    Attributes:
        batch_axis: Where its rows are counted; None for an input that all rows of a run share,
            and for an output that is the same for all of them.
        ties: Its axes that may differ from request to request and follow a length.
        pad_value: What an input is padded with.
        is_mask: Whether an input only says what is real and what is padding. Who leaves it out
            means that all is real.
    """

    batch_axis: int | None = 0
    ties: tuple[Tie, ...] = ()
    pad_value: float = 0
    is_mask: bool = False

    @property
    def real_value(self) -> float:
        """What a mask has where there is no padding."""
        return 1 - self.pad_value


ROWS_FIRST = Layout()
"""Rows along axis 0, nothing varies."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a model takes and gives.

    Attributes:
        inputs: In the model's order.
        outputs: In the model's order.
        is_batched: Whether rows of several requests may stand in one tensor.
        input_layouts: Input name to what its axes mean, where that is not `ROWS_FIRST`.
        output_layouts: The same for outputs.
        rows_fixed: How many rows every run must have, of a model that is frozen to more than one.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_batched: bool
    input_layouts: dict[str, Layout] = field(default_factory=dict)
    output_layouts: dict[str, Layout] = field(default_factory=dict)
    rows_fixed: int | None = None

    def input_layout(self, name: str) -> Layout:
        """What the axes of an input mean."""
        return self.input_layouts.get(name, ROWS_FIRST)

    def output_layout(self, name: str) -> Layout:
        """What the axes of an output mean."""
        return self.output_layouts.get(name, ROWS_FIRST)

    @property
    def lengths(self) -> int:
        """How many lengths a request has: none, one (text), two (images) or more."""
        ties = [tie for layout in self.input_layouts.values() for tie in layout.ties]
        return 1 + max((tie.length for tie in ties), default=-1)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(spec.name for spec in self.inputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(spec.name for spec in self.outputs)
