"""What the doors ask of the house behind them; tests stand a puppet in its place."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from xirang.core.event import Function
from xirang.engine.call import Call
from xirang.tensors.tensor import Array, Tensor
from xirang.text.folder import TextFolder
from xirang.text.task import Task
from xirang.text.tokenizer import Manner, Tokens


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

    Another version may serve the same name at any time: doors keep none of this, and an answer says
    of which version it is.
    """

    @property
    def name(self) -> str:
        """As it is addressed."""

    @property
    def version(self) -> str:
        """The served one."""

    @property
    def versions(self) -> Sequence[str]:
        """All that are served, or the one that was asked for."""

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
    def budget_ns(self) -> int:
        """Latency budget of a request that brings none."""

    @property
    def is_ready(self) -> bool:
        """Loaded and warm."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration, in the shape of Triton's JSON."""

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """Output name to the names of its classes, where they are known."""


class Ticket(Protocol):
    """The right to take a call back."""

    def cancel(self) -> object:
        """The client went away: leave the queue, run nothing for it. Idempotent."""


class Watch(Protocol):
    """A live look, from its making to its close."""

    @property
    def bounds(self) -> Mapping[str, Sequence[float]]:
        """Upper bounds of the histograms in a frame."""

    def frame(self) -> Mapping[str, Any]:
        """What was counted, what is, and what happened since the last frame."""

    def close(self) -> object:
        """Look no more."""


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

    def now_ns(self) -> int:
        """The time, on the clock that budgets are kept by."""

    def index(self, *, only_ready: bool = False) -> Sequence[Mapping[str, str]]:
        """All versions that are or might be served: name, version, state and reason, if known."""

    def model_names(self) -> Sequence[str]:
        """Every served model, ready or not."""

    def is_off(self, function: Function) -> bool:
        """Whether overload has switched something off."""

    def is_live(self) -> bool:
        """The process works."""

    def is_ready(self) -> bool:
        """All models are loaded and warm, and the house is not draining."""

    def statistics(self, name: str | None = None) -> Mapping[str, Any]:
        """One model's statistics, or all, in the v2 form: `{"model_stats": [...]}`.

        Raises:
            UnknownModel: There is none of that name.
        """

    def metrics_text(self, *, is_open: bool = False) -> str:
        """The metrics in Prometheus' text form, or in OpenMetrics'."""

    def costs(self) -> Mapping[str, Any]:
        """Device time and padding by model and tenant."""

    def memory(self) -> Mapping[str, Any]:
        """What models share of the memory pool; empty where nobody counts."""

    def watch(self) -> Watch:
        """A live look at the server."""


class Repository(Protocol):
    """Models that come and go at an operator's wish."""

    async def load(self, name: str, parameters: Mapping[str, str | bytes]) -> None:
        """Load a model, or what has changed of it; return when it serves.

        Args:
            name: Of the model.
            parameters: `config` and files that stand in the place of its own.

        Raises:
            XirangError: It cannot be loaded, or nobody may wish it.
        """

    async def unload(self, name: str) -> None:
        """Serve a model no more; who is in is still answered.

        Raises:
            XirangError: Nobody may wish it.
        """


class TextModel(Protocol):
    """A model that reads text, with its tokenizer; see `xirang.text.tokenizer.TextModel`."""

    @property
    def task(self) -> Task:
        """What it is for."""

    @property
    def output(self) -> str:
        """Name of the output that holds its answer."""

    @property
    def hidden(self) -> str:
        """Name of the output with one vector a token; empty if there is none."""

    @property
    def dimension(self) -> int:
        """Values of its answer."""

    @property
    def vocabulary_size(self) -> int:
        """Token ids are below this."""

    @property
    def length_max(self) -> int:
        """Most tokens of one text."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Of its classes."""

    @property
    def folder(self) -> TextFolder:
        """What its folder says of pooling, prompts and labels."""

    def encode(self, text: str, manner: Manner = ..., /) -> Tokens:
        """A text's tokens; may be called from a thread.

        Raises:
            TextTooLong: And cutting is off.
            InvalidRequest: There is no prompt of that name.
        """

    def encode_pair(self, first: str, second: str, manner: Manner = ..., /) -> Tokens:
        """The tokens of two texts that are read together.

        Raises:
            TextTooLong: And cutting is off.
        """

    def pieces(self, text: str, *, has_specials: bool) -> list[dict[str, Any]]:
        """A text's tokens, each with where it stands in the text."""

    def decode(self, ids: Sequence[int], *, has_specials: bool) -> str:
        """The text of token ids."""

    def prompt(self, name: str | None) -> str:
        """What is put before a text.

        Raises:
            InvalidRequest: There is no prompt of that name.
        """

    def pooled(self, hidden: Array, *, is_normalised: bool) -> Array:
        """The vector of a text from the states of its tokens."""

    def inputs(self, tokens: Tokens) -> dict[str, Tensor]:
        """The model's input tensors for one text of those tokens."""
