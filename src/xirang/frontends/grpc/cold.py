"""What is asked seldom: health, metadata, configuration, statistics, and what is switched off."""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import orjson

from xirang.errors import Forbidden, InvalidRequest, NotReady, UnknownModel
from xirang.frontends.extensions import Extensions
from xirang.frontends.grpc.infer import value_of
from xirang.frontends.service import ModelInfo, Service
from xirang.frontends.v2.operating import check_model, refuse_cuda, refuse_unknown_cuda

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

    def __init__(self, service: Service, extensions: Extensions, *, may_turn: bool = True) -> None:
        """Answer from a service.

        Args:
            service: Answers.
            extensions: Of the protocol.
            may_turn: Whether settings may be changed here, and not at a port for operators alone.
        """
        self._service = service
        self._may_turn = may_turn
        self._extensions = extensions
        self._regions = extensions.regions

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
            "SystemSharedMemoryStatus": self._region_status,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
            "CudaSharedMemoryStatus": _cuda_status,
            "CudaSharedMemoryRegister": lambda request: refuse_cuda(request.name),
            "CudaSharedMemoryUnregister": _nothing,
            "TraceSetting": self._trace_setting,
            "LogSettings": self._log_settings,
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
        return {
            "name": "xirang",
            "version": version("xirang"),
            "extensions": self._extensions.names,
        }

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

    def _region_status(self, request: Any) -> Mapping[str, Any]:
        return {
            "regions": {
                r.name: {
                    "name": r.name,
                    "key": r.key,
                    "offset": r.offset,
                    "byte_size": r.size_bytes,
                }
                for r in self._regions.status(request.name)
            }
        }

    def _register(self, request: Any) -> Mapping[str, Any]:
        self._regions.register(request.name, request.key, request.offset, request.byte_size)
        return {}

    def _unregister(self, request: Any) -> Mapping[str, Any]:
        self._regions.unregister(request.name)
        return {}

    def _trace_setting(self, request: Any) -> Mapping[str, Any]:
        check_model(self._service, request.model_name)
        dials = self._extensions.dials
        settings = {name: list(each.value) for name, each in request.settings.items()}
        if settings:
            self._check_turning()
            dials.turn_tracing(settings, request.model_name)
        shown = dials.tracing(request.model_name).told()
        return {
            "settings": {
                name: {"value": value if type(value) is list else [value]}
                for name, value in shown.items()
            }
        }

    def _check_turning(self) -> None:
        if not self._may_turn:
            raise Forbidden("settings are changed at the port for operators")

    def _log_settings(self, request: Any) -> Mapping[str, Any]:
        dials = self._extensions.dials
        if request.settings:
            self._check_turning()
            dials.turn_logging({n: value_of(each) for n, each in request.settings.items()})
        return {
            "settings": {
                name: {_LOG_FIELDS[type(value)]: value}
                for name, value in dials.logging.told().items()
            }
        }


_LOG_FIELDS = {bool: "bool_param", int: "uint32_param", str: "string_param"}


def _told(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _nothing(_: Any) -> Mapping[str, Any]:
    """Clients unregister all regions before they begin: there are none, so that is done."""
    return {}


def _cuda_status(request: Any) -> Mapping[str, Any]:
    refuse_unknown_cuda(request.name)
    return {}
