"""What a model file imports as `triton_python_backend_utils`.

It stands under that name in the module table of a worker that runs such a file, and nowhere else:
whoever imports xirang does not find it there. Names and meanings are those of Triton 2.51.
"""

import logging
from typing import Any

from xirang.backends.triton_python.configuration import (
    ModelConfig,
    get_input_config_by_name,
    get_output_config_by_name,
    using_decoupled_model_transaction_policy,
)
from xirang.backends.triton_python.exchange import (
    RESPONSE_COMPLETE_FINAL as TRITONSERVER_RESPONSE_COMPLETE_FINAL,
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
)
from xirang.backends.triton_python.tensors import (
    TRITON_STRING_TO_NUMPY,
    Tensor,
    TritonError,
    TritonModelException,
    numpy_to_triton_type,
    triton_string_to_numpy,
    triton_to_numpy_type,
)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2

_log = logging.getLogger("triton_python_backend")
_log.setLevel(logging.INFO)

__all__ = [
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "InferenceRequest",
    "InferenceResponse",
    "InferenceResponseSender",
    "Logger",
    "ModelConfig",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "numpy_to_triton_type",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "using_decoupled_model_transaction_policy",
]


def get_input_tensor_by_name(inference_request: InferenceRequest, name: str) -> Tensor | None:
    """An input of a request; None if it has none of that name."""
    return next((each for each in inference_request.inputs() if each.name() == name), None)


def get_output_tensor_by_name(inference_response: InferenceResponse, name: str) -> Tensor | None:
    """An output of a response; None if it has none of that name."""
    return next((each for each in inference_response.output_tensors() if each.name() == name), None)


class Logger:
    """The server's log."""

    INFO = logging.INFO
    WARNING = logging.WARNING
    ERROR = logging.ERROR
    VERBOSE = logging.DEBUG

    class LogLevel:
        """The same levels, as Triton has them too."""

        INFO = logging.INFO
        WARNING = logging.WARNING
        ERROR = logging.ERROR
        VERBOSE = logging.DEBUG

    @staticmethod
    def log(message: str, level: int = logging.INFO) -> None:
        """Say something at a level."""
        _log.log(level, "%s", message)

    @staticmethod
    def log_info(message: str) -> None:
        """Say that something happened."""
        _log.info("%s", message)

    @staticmethod
    def log_warn(message: str) -> None:
        """Say that something is odd."""
        _log.warning("%s", message)

    @staticmethod
    def log_error(message: str) -> None:
        """Say that something went wrong."""
        _log.error("%s", message)

    @staticmethod
    def log_verbose(message: str) -> None:
        """Say what is of interest to those who look closely."""
        _log.debug("%s", message)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"triton_python_backend_utils has no {name!r} in xirang")
