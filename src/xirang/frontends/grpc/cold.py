"""What is asked seldom: health, metadata, configuration, statistics, and what is switched off."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, NoReturn

import orjson

from xirang.errors import InvalidRequest, NotReady, UnknownModel
from xirang.frontends.cold import EXTENSIONS
from xirang.frontends.grpc.status import NotServed, SwitchedOff
from xirang.frontends.service import ModelInfo, Service

Rpc = Callable[[Any], Mapping[str, Any]]
"""From a request's message to the fields of its response."""

OPEN = frozenset({"ServerLive", "ServerReady"})
"""What needs no key where the rest does."""

SERVING, NOT_SERVING = 1, 2


def version_of(text: str) -> str | None:
    """The version that a request asks for; None for the served one.

    Raises:
        InvalidRequest: It is no number.
    """
    if text in ("", "-1"):
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidRequest(
            f"failed to get model version from specified version string '{text}', "
            "version should be an integral value > 0"
        )
    return text


class ColdRpcs:
    """Answers them from the service behind the doors."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def by_name(self) -> dict[str, Rpc]:
        """Every one of the inference service but those that infer, load and unload."""
        return {
            "ServerLive": lambda _: {"live": self._service.is_live()},
            "ServerReady": lambda _: {"ready": self._service.is_ready()},
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelConfig": self._model_config,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "SystemSharedMemoryStatus": _no_region("system"),
            "SystemSharedMemoryRegister": _refuse_region,
            "SystemSharedMemoryUnregister": _nothing,
            "CudaSharedMemoryStatus": _no_region("cuda"),
            "CudaSharedMemoryRegister": _refuse_cuda_region,
            "CudaSharedMemoryUnregister": _nothing,
            "TraceSetting": _trace_setting,
            "LogSettings": _log_settings,
        }

    def health(self, _: Any) -> Mapping[str, Any]:
        """GRPC's own health check; as in Triton, any service's name means the server."""
        return {"status": SERVING if self._service.is_ready() else NOT_SERVING}

    def _asked(self, request: Any) -> ModelInfo:
        return self._service.model(request.name, version_of(request.version))

    def _model_ready(self, request: Any) -> Mapping[str, Any]:
        try:
            return {"ready": self._asked(request).is_ready}
        except (UnknownModel, NotReady):
            return {"ready": False}

    def _server_metadata(self, _: Any) -> Mapping[str, Any]:
        return {"name": "xirang", "version": version("xirang"), "extensions": EXTENSIONS}

    def _model_metadata(self, request: Any) -> Mapping[str, Any]:
        model = self._asked(request)
        inputs, outputs = (
            [{"name": s.name, "datatype": s.datatype, "shape": s.shape} for s in specs]
            for specs in (model.inputs, model.outputs)
        )
        return {
            "name": model.name,
            "versions": model.versions,
            "platform": model.platform,
            "inputs": inputs,
            "outputs": outputs,
        }

    def _model_config(self, request: Any) -> Mapping[str, Any]:
        """What is our own rides in the parameters, as it does in a `config.pbtxt`."""
        config = dict(self._asked(request).config)
        own = config.pop("xirang", {})
        config["parameters"] = dict(config.get("parameters", {})) | {
            f"xirang.{key}": {"string_value": _told(value)}
            for key, value in own.items()
            if value is not None
        }
        return {"config": config}

    def _model_statistics(self, request: Any) -> Mapping[str, Any]:
        if not request.name:
            return self._service.statistics()
        try:
            told = self._service.statistics(self._asked(request).name)["model_stats"]
            version = request.version
            return {"model_stats": [e for e in told if version in {"", e["version"]}]}
        except UnknownModel as error:
            raise InvalidRequest(f"requested model '{request.name}' is not available") from error

    def _repository_index(self, request: Any) -> Mapping[str, Any]:
        return {"models": self._service.index(only_ready=request.ready)}


def _told(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _nothing(_: Any) -> Mapping[str, Any]:
    """Clients unregister all regions before they begin: there are none, so that is done."""
    return {}


def _no_region(kind: str) -> Rpc:
    def status(request: Any) -> Mapping[str, Any]:
        if request.name:
            raise UnknownModel(f"Unable to find {kind} shared memory region: '{request.name}'")
        return {}

    return status


def _refuse_region(request: Any) -> NoReturn:
    raise NotServed(
        f"failed to register shared memory region '{request.name}': regions are not served here; "
        "send tensors in the request"
    )


def _refuse_cuda_region(request: Any) -> NoReturn:
    raise InvalidRequest(
        f"failed to register CUDA shared memory region: '{request.name}', GPUs not supported"
    )


def _trace_setting(_: Any) -> NoReturn:
    raise SwitchedOff("the server does not support tracing")


def _log_settings(_: Any) -> NoReturn:
    raise SwitchedOff("the server does not support dynamic logging")
