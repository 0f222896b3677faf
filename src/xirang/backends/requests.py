"""Requests as models see them that take requests, and what such a model may ask of the server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from xirang.backends.executable import Executable
from xirang.errors import InvalidRequest, ModelFailed, NotReady, UnknownModel, XirangError
from xirang.tensors.tensor import Array


class About(msgspec.Struct, frozen=True, gc=False):
    """What a client says of a request besides its tensors.

    Attributes:
        id: As the client numbers it; empty if it does not.
        parameters: Its own parameters, as a JSON object; empty for none.
        timeout_us: The budget that it brings; 0 for none.
        correlation: The sequence that it belongs to; 0 or empty for none.
    """

    id: str = ""
    parameters: str = ""
    timeout_us: int = 0
    correlation: int | str = 0


NOTHING_SAID = About()


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One request of a run.

    Attributes:
        inputs: Name to array, with the request's own rows.
        wanted: Names of outputs.
        about: What its client says of it.
    """

    inputs: Mapping[str, Array]
    wanted: Sequence[str]
    about: About = NOTHING_SAID


Responded = dict[str, Array] | XirangError
"""What one request gets: outputs by name, or an error of its own."""


class InnerCall(msgspec.Struct, frozen=True, gc=False):
    """A request that a model makes of another, within its run.

    Attributes:
        model: Name of the other one.
        version: Empty for whichever serves.
        inputs: Name to array.
        wanted: Names of outputs.
        about: What the model says of it.
    """

    model: str
    version: str
    inputs: Mapping[str, Array]
    wanted: Sequence[str]
    about: About = NOTHING_SAID


Respond = Callable[[Responded], None]
"""Takes an inner call's answer, on any thread."""


class Line(Protocol):
    """What the models of one run may ask of the server, from the thread that runs it."""

    def call(self, inner: InnerCall, respond: Respond) -> Callable[[], None]:
        """Ask another model; never wait for it.

        Args:
            inner: What to ask.
            respond: Called once, on another thread, unless it is taken back before.

        Returns:
            What takes it back.
        """
        ...

    def tell(self, index: int, part: Responded) -> None:
        """Hand out one part of the answer of the run's request of that number."""
        ...


class RequestExecutable(Executable, Protocol):
    """A model that takes requests as they are: nothing is stacked, each is answered for itself.

    Attributes:
        takes_requests: Whether it does; an executable without this attribute does not.
        is_decoupled: Whether a request may have another number of answers than one.
    """

    takes_requests: bool
    is_decoupled: bool

    def run_requests(self, requests: Sequence[Asked], line: Line) -> list[Responded]:
        """One response a request, in order; of a decoupled model an empty one at the end.

        Raises:
            Exception: As for `Executable.run`.
        """
        ...


def takes_requests(executable: Executable) -> bool:
    """Whether it has `run_requests`."""
    return bool(getattr(executable, "takes_requests", False))


def is_decoupled(executable: Executable) -> bool:
    """Whether its requests may have another number of answers than one."""
    return bool(getattr(executable, "is_decoupled", False))


class Unsupported(XirangError):
    """The model does not do what it was asked for."""

    status = 501


CODES = (
    "UNKNOWN",
    "INTERNAL",
    "NOT_FOUND",
    "INVALID_ARG",
    "UNAVAILABLE",
    "UNSUPPORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
)
"""Triton's codes of errors, by number."""

_KINDS: dict[str, type[XirangError]] = {
    "NOT_FOUND": UnknownModel,
    "INVALID_ARG": InvalidRequest,
    "ALREADY_EXISTS": InvalidRequest,
    "UNAVAILABLE": NotReady,
    "UNSUPPORTED": Unsupported,
}
_CODE_OF = {
    400: "INVALID_ARG",
    404: "NOT_FOUND",
    429: "UNAVAILABLE",
    499: "CANCELLED",
    501: "UNSUPPORTED",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}
"""By the status that the error has over HTTP; INTERNAL for all others."""


def error_of(code: int, text: str) -> XirangError:
    """What a model says is wrong with a request, as its client is told it."""
    kind: Any = _KINDS.get(CODES[code], ModelFailed) if code < len(CODES) else ModelFailed
    error: XirangError = kind(text)
    return error


def code_of(error: XirangError) -> int:
    """The number of Triton's code for an error."""
    return CODES.index(_CODE_OF.get(error.status, "INTERNAL"))
