"""What the doors ask of the house behind them; tests stand a puppet in its place."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from xirang.engine.call import Call
from xirang.tensors.tensor import Tensor


class TensorSpec(Protocol):
    """Name, datatype and shape of one input or output; -1 is an axis that may vary."""

    @property
    def name(self) -> str:
        """As it is addressed."""

    @property
    def datatype(self) -> str:
        """A key of `NUMPY_TYPES`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading -1 when the model batches; -1 for any axis that may vary."""


class ModelInfo(Protocol):
    """What a model tells about itself.

    Name and version of a served model do not change while the server lives: doors keep them.
    """

    @property
    def name(self) -> str:
        """As it is addressed."""

    @property
    def version(self) -> str:
        """The served one."""

    @property
    def platform(self) -> str:
        """What runs it."""

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """In the model's order."""

    @property
    def outputs(self) -> Sequence[TensorSpec]:
        """In the model's order."""

    @property
    def is_ready(self) -> bool:
        """Loaded and warm."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration, in the shape of Triton's JSON."""


class Ticket(Protocol):
    """The right to take a call back."""

    def cancel(self) -> object:
        """The client went away: leave the queue, run nothing for it. Idempotent."""


class Service(Protocol):
    """The engine, as doors see it."""

    def submit(self, call: Call) -> Ticket:
        """Take a call in; its reply comes once, on the loop's thread.

        Raises:
            XirangError: The call is invalid, its model unknown, or the house too busy.
        """

    def model(self, name: str, version: str | None = None) -> ModelInfo:
        """The model of that name.

        Raises:
            UnknownModel: There is none, or not in that version.
        """

    def model_names(self) -> Sequence[str]:
        """Every served model, ready or not."""

    def is_live(self) -> bool:
        """The process works."""

    def is_ready(self) -> bool:
        """All models are loaded and warm, and the house is not draining."""

    def statistics(self, name: str | None = None) -> Mapping[str, Any]:
        """One model's statistics, or all, in the v2 form: `{"model_stats": [...]}`.

        Raises:
            UnknownModel: There is none of that name.
        """

    def metrics_text(self) -> str:
        """The metrics in Prometheus' text form."""


class TextModel(Protocol):
    """A model that reads text, with its tokenizer."""

    @property
    def embedding_output(self) -> str:
        """Name of the output that holds the embedding."""

    @property
    def dimension(self) -> int:
        """Length of an embedding."""

    @property
    def vocabulary_size(self) -> int:
        """Token ids are below this."""

    @property
    def length_max(self) -> int:
        """Most tokens of one text."""

    def encode(self, text: str) -> list[int]:
        """The text's token ids; may be called from a thread.

        Raises:
            InvalidRequest: Too long, and truncation is off.
        """

    def inputs(self, ids: Sequence[int]) -> dict[str, Tensor]:
        """The model's input tensors for one text of those ids."""
