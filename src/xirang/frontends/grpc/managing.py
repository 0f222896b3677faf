"""Loading and unloading of models over gRPC, at the wish of operators."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from xirang.errors import Forbidden, InvalidRequest
from xirang.frontends.grpc.status import NotServed
from xirang.frontends.service import Repository

_FILE = "file:"
_UNLOAD_DEPENDENTS = "unload_dependents"


Act = Callable[[Any], Awaitable[None]]
"""What a request's message asks to be done; the response is empty."""


class ManagingRpcs:
    """What changes the server."""

    def __init__(self, repository: Repository | None) -> None:
        """Manage a repository.

        Args:
            repository: None where operators have a port apart, over HTTP.
        """
        self._repository = repository

    def by_name(self) -> dict[str, Act]:
        """Every one of the inference service."""
        return {"RepositoryModelLoad": self._load, "RepositoryModelUnload": self._unload}

    async def _load(self, request: Any) -> None:
        repository = self._asked(request)
        await repository.load(request.model_name, parameters_of(request.parameters))

    async def _unload(self, request: Any) -> None:
        await self._asked(request).unload(request.model_name)

    def _asked(self, request: Any) -> Repository:
        if self._repository is None:
            raise Forbidden("models are loaded and unloaded at the port for operators")
        if request.repository_name:
            raise NotServed("'repository_name' specification is not supported")
        return self._repository


def parameters_of(parameters: Mapping[str, Any]) -> dict[str, str | bytes]:
    """The parameters of a request to load a model: texts, and files as bytes.

    Raises:
        InvalidRequest: One is of another type.
    """
    found: dict[str, str | bytes] = {}
    for name, parameter in parameters.items():
        if name == _UNLOAD_DEPENDENTS:  # there are no ensembles that could depend on a model
            continue
        expected = "bytes_param" if name.startswith(_FILE) else "string_param"
        choice = parameter.WhichOneof("parameter_choice")
        if choice != expected:
            raise InvalidRequest(
                f"invalid value type for load parameter '{name}', expected {expected}."
            )
        found[name] = getattr(parameter, choice)
    return found
