"""The extensions that operators and clients set up with: shared memory, tracing, logging."""

from collections.abc import Awaitable, Callable
from typing import NoReturn

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xirang.errors import InvalidRequest, UnknownModel
from xirang.frontends.documents import done, object_of, told
from xirang.frontends.extensions import Extensions
from xirang.frontends.service import Service
from xirang.frontends.v2.shared_memory import UnknownRegion
from xirang.frontends.v2.special import unsigned
from xirang.observe.dials import unknown_model

Endpoint = Callable[[Request], Awaitable[Response]]
_SYSTEM, _CUDA = "/v2/systemsharedmemory", "/v2/cudasharedmemory"


def client_routes(service: Service, extensions: Extensions) -> list[Route]:
    """What clients may do: share memory, and see how much is traced and logged."""
    seen, _ = _dials(service, extensions)
    return [*_system_routes(extensions), *_cuda_routes(), *seen]


def turning_routes(service: Service, extensions: Extensions) -> list[Route]:
    """What operators may do: change how much is traced and logged."""
    _, turned = _dials(service, extensions)
    return turned


def _system_routes(extensions: Extensions) -> list[Route]:
    regions = extensions.regions

    async def status(request: Request) -> Response:
        found = regions.status(_name(request))
        return told(
            [
                {"name": r.name, "key": r.key, "offset": r.offset, "byte_size": r.size_bytes}
                for r in found
            ]
        )

    async def register(request: Request) -> Response:
        document = await object_of(request)
        for field in ("key", "byte_size"):
            if field not in document:
                raise InvalidRequest(f"Shared memory register request has no '{field}' field")
        if type(document["key"]) is not str:
            raise InvalidRequest("'key' must be a string")
        offset, size_bytes = unsigned(document, "offset"), unsigned(document, "byte_size")
        regions.register(_name(request), document["key"], offset, size_bytes)
        return done()

    async def unregister(request: Request) -> Response:
        regions.unregister(_name(request))
        return done()

    return _region_routes(_SYSTEM, "system", status, register, unregister)


def _cuda_routes() -> list[Route]:
    async def status(request: Request) -> Response:
        refuse_unknown_cuda(_name(request))
        return told([])

    async def register(request: Request) -> Response:
        refuse_cuda(_name(request))

    async def unregister(_: Request) -> Response:
        return done()  # clients do so before they begin

    return _region_routes(_CUDA, "cuda", status, register, unregister)


def _region_routes(
    prefix: str, kind: str, status: Endpoint, register: Endpoint, unregister: Endpoint
) -> list[Route]:
    async def nameless(_: Request) -> Response:
        raise InvalidRequest(f"'region name' is necessary to register {kind} shared memory region")

    named = f"{prefix}/region/{{region}}"
    return [
        Route(f"{prefix}/status", status, methods=["GET"]),
        Route(f"{named}/status", status, methods=["GET"]),
        Route(f"{prefix}/register", nameless, methods=["POST"]),
        Route(f"{named}/register", register, methods=["POST"]),
        Route(f"{prefix}/unregister", unregister, methods=["POST"]),
        Route(f"{named}/unregister", unregister, methods=["POST"]),
    ]


def refuse_unknown_cuda(name: str) -> None:
    """Say that there is no region of a name in a GPU's memory, if one is asked for.

    Raises:
        UnknownRegion: It is.
    """
    if name:
        raise UnknownRegion(f"Unable to find cuda shared memory region: '{name}'")


def refuse_cuda(name: str) -> NoReturn:
    """Say that memory of GPUs is not shared.

    Raises:
        InvalidRequest: In any case.
    """
    raise InvalidRequest(
        f"failed to register CUDA shared memory region: '{name}', GPUs not supported; "
        "expected system shared memory, or tensors in the request"
    )


def _dials(service: Service, extensions: Extensions) -> tuple[list[Route], list[Route]]:
    """The routes that show, and those that turn."""
    dials = extensions.dials

    async def tracing(request: Request) -> Response:
        name = request.path_params.get("model", "")
        check_model(service, name)
        if request.method == "POST":
            return told(dials.turn_tracing(await object_of(request), name).told())
        return told(dials.tracing(name).told())

    async def logged(request: Request) -> Response:
        if request.method == "POST":
            return told(dials.turn_logging(await object_of(request)).told())
        return told(dials.logging.told())

    paths: dict[str, Endpoint] = {
        "/v2/trace/setting": tracing,
        "/v2/models/{model}/trace/setting": tracing,
        "/v2/models/{model}/versions/{version:int}/trace/setting": tracing,
        "/v2/logging": logged,
    }
    seen = [Route(path, endpoint, methods=["GET"]) for path, endpoint in paths.items()]
    turned = [Route(path, endpoint, methods=["POST"]) for path, endpoint in paths.items()]
    return seen, turned


def check_model(service: Service, name: str) -> None:
    """Refuse settings of a model that is not served.

    Raises:
        InvalidRequest: There is none of that name.
    """
    if name:
        try:
            service.model(name)
        except UnknownModel:
            raise unknown_model(name) from None


def _name(request: Request) -> str:
    return str(request.path_params.get("region", ""))
