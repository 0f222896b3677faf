"""Requests and responses as model files for Triton's Python backend know them."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xirang.backends.isolated.conversation import Conversation
from xirang.backends.requests import About, Asked, InnerCall, Responded, code_of, error_of
from xirang.backends.triton_python.tensors import Tensor, TritonError, TritonModelException, sent
from xirang.errors import XirangError

RESPONSE_COMPLETE_FINAL = 1
"""The flag of a response that is a request's last."""


class InferenceResponse:
    """What a request gets: outputs, or an error."""

    __slots__ = ("_error", "_tensors")

    def __init__(
        self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None
    ) -> None:
        tensors = list(output_tensors)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise TypeError("output_tensors of an InferenceResponse; expected a list of Tensor")
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(
                f"error of an InferenceResponse is a {type(error).__name__}; expected a TritonError"
            )
        self._tensors = tensors
        self._error = error

    def output_tensors(self) -> list[Tensor]:
        """The outputs."""
        return self._tensors

    def has_error(self) -> bool:
        """Whether there is an error."""
        return self._error is not None

    def error(self) -> TritonError | None:
        """The error, if there is one."""
        return self._error


class InferenceResponseSender:
    """Takes the responses to one request, one by one; from any thread.

    Attributes:
        is_taken: Whether the model has asked for it.
    """

    def __init__(self, tell: Callable[[Responded], None] | None, names: Sequence[str]) -> None:
        """Wait for responses.

        Args:
            tell: Hands out one of several; None where only one is expected.
            names: Of the outputs that are wanted.
        """
        self._tell = tell
        self._names = names
        self.is_taken = False
        self._closed = threading.Event()
        self._last: Responded | None = None

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        """Send one response, or say with a flag that it was the last."""
        if self._closed.is_set():
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if response is not None:
            result = result_of(response, self._names)
            if self._tell is not None and not flags & RESPONSE_COMPLETE_FINAL:
                self._tell(result)
            elif self._last is not None and self._tell is None:
                raise TritonModelException(
                    "Unable to send response. A model that is not decoupled sends one a request."
                )
            else:
                self._last = result
        if flags & RESPONSE_COMPLETE_FINAL:
            self._closed.set()

    def is_cancelled(self) -> bool:
        """Nobody says so here."""
        return False

    def last(self) -> Responded:
        """Wait for the last response; empty if all were handed out before."""
        if self.is_taken:
            self._closed.wait()
        if self._last is None and self._tell is None:
            return error_of(int(TritonError.INTERNAL), "the model gave a request no response")
        return {} if self._last is None else self._last


class InferenceRequest:
    """A request: one that came, or one that the model makes of another."""

    _server: ClassVar[Conversation | None] = None

    def __init__(  # noqa: PLR0913, PLR0917  # the arguments are Triton's
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: Any = None,
        trace: Any = None,
        parameters: Mapping[str, Any] | str | None = None,
    ) -> None:
        self._inputs = list(inputs)
        self._names = list(requested_output_names)
        self._model = (model_name, "" if model_version < 0 else str(model_version))
        self._flags = flags
        self._trace = trace
        told = parameters if isinstance(parameters, str) else json.dumps(parameters or {})
        self._about = About(request_id, told, timeout, correlation_id)
        self._sender: InferenceResponseSender | None = None

    @classmethod
    def received(cls, asked: Asked, sender: InferenceResponseSender) -> "InferenceRequest":
        """One that came from a client, and what takes its responses."""
        request = cls.__new__(cls)
        request._inputs = [Tensor(name, array) for name, array in asked.inputs.items()]
        request._names = list(asked.wanted)
        request._model = ("", "")
        request._flags = 0
        request._trace = None
        request._about = asked.about
        request._sender = sender
        return request

    def inputs(self) -> list[Tensor]:
        """All inputs."""
        return self._inputs

    def requested_output_names(self) -> set[str]:
        """Names of the outputs that are wanted."""
        return set(self._names)

    def request_id(self) -> str:
        """As the client numbers it."""
        return self._about.id

    def correlation_id(self) -> int | str:
        """Of the sequence that it belongs to."""
        return self._about.correlation

    def parameters(self) -> str:
        """The client's own, as a JSON object."""
        return self._about.parameters or "{}"

    def timeout(self) -> int:
        """The budget that it brings, in microseconds; 0 for none."""
        return self._about.timeout_us

    def flags(self) -> int:
        """Of a sequence."""
        return self._flags

    def set_flags(self, flags: int) -> None:
        """Of a sequence; without effect."""
        self._flags = flags

    def trace(self) -> Any:
        """Whatever it was made with."""
        return self._trace

    def is_cancelled(self) -> bool:
        """Nobody says so here."""
        return False

    def get_response_sender(self) -> InferenceResponseSender:
        """What takes its responses one by one."""
        if self._sender is None:
            raise TritonModelException("a request that the model makes itself has no sender")
        self._sender.is_taken = True
        return self._sender

    def exec(self, decoupled: bool = False) -> InferenceResponse:  # noqa: FBT001, FBT002
        """Ask another model and wait for its answer; from any thread, while requests are executed.

        Raises:
            TritonModelException: It cannot be asked now, or not in this way.
        """
        if decoupled:
            raise TritonModelException("decoupled models cannot be asked by other models here")
        server = self._server
        if server is None or not server.is_in_run:
            raise TritonModelException("other models can be asked while requests are executed only")
        inputs = {tensor.name(): sent(tensor) for tensor in self._inputs}
        result = server.call(InnerCall(*self._model, inputs, self._names, self._about))
        if isinstance(result, XirangError):
            return InferenceResponse(error=TritonError(str(result), code_of(result)))
        return InferenceResponse([Tensor(name, array) for name, array in result.items()])

    async def async_exec(self, decoupled: bool = False) -> InferenceResponse:  # noqa: FBT001, FBT002
        """The same for those who have something else to do meanwhile."""
        return await asyncio.to_thread(self.exec, decoupled)


def result_of(response: Any, names: Sequence[str]) -> Responded:
    """A response as the server takes it: the outputs that are wanted, by name.

    Raises:
        TritonModelException: It is none.
    """
    if not isinstance(response, InferenceResponse):
        raise TritonModelException(
            "Expected an 'InferenceResponse' object in the execute function return list, "
            f"found type '{type(response)}'."
        )
    error = response.error()
    if error is not None:
        return error_of(int(error.code()), error.message())
    by_name = {tensor.name(): tensor for tensor in response.output_tensors()}
    return {name: sent(by_name[name]) for name in names if name in by_name}
