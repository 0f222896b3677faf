"""The ASGI application of every URL that is not hot: health, metadata, statistics, metrics."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from xirang.errors import InvalidRequest, NotReady, UnknownModel, XirangError
from xirang.frontends import dashboard, errors
from xirang.frontends.documents import VERBS_NOT_POST, object_of, refused, told
from xirang.frontends.extensions import Extensions
from xirang.frontends.keys import Grant, Keys
from xirang.frontends.openapi import document as openapi
from xirang.frontends.restricted import Check, api_of_path
from xirang.frontends.service import ModelInfo, Service, TextModel
from xirang.frontends.texts import openai, tei_cold
from xirang.frontends.v1 import listing
from xirang.frontends.v2.operating import client_routes
from xirang.observe import exposition

OPEN_PATHS = frozenset(
    ["/", "/metrics", "/openapi.json", "/v2/health/live", "/v2/health/ready", "/health", "/ping"]
)
"""What needs no key where the rest does."""


NO_CHECKS: Mapping[str, Check] = {}

Endpoint = Callable[[Request], Awaitable[Response]]


def cold_app(
    service: Service,
    texts: Mapping[str, TextModel],
    keys: Keys | None = None,
    managing: Sequence[Route] = (),
    extensions: Extensions | None = None,
) -> Starlette:
    """The application for `uvicorn.Config(app=…)`.

    Args:
        service: What it tells of.
        texts: Name to text model.
        keys: One of them is needed, but for `OPEN_PATHS`; None: nobody is asked.
        managing: Routes that change the server; with keys, they need one that may.
        extensions: Of the protocol.
    """
    extensions = extensions or Extensions()
    return _app(
        [
            Route("/", _front_page),
            Route("/metrics", _metrics(service)),
            Route("/openapi.json", _document(service, texts)),
            *dashboard.routes(service, version=_version()),
            *_server_routes(service, extensions),
            *client_routes(service, extensions),
            *_model_routes(service),
            *listing.routes(service, texts),
            *tei_cold.routes(service, texts, version=_version()),
        ],
        keys,
        managing,
        extensions.http_checks,
    )


def admin_app(
    service: Service,
    keys: Keys | None,
    managing: Sequence[Route],
    extensions: Extensions | None = None,
) -> Starlette:
    """The application for a port of its own: what operators ask, and what changes the server.

    Args:
        service: What it tells of.
        keys: One of them is needed, but for `OPEN_PATHS`; None: nobody is asked.
        managing: Routes that change the server; with keys, they need one that may.
        extensions: Of the protocol.
    """
    extensions = extensions or Extensions()
    asked = [Route("/metrics", _metrics(service)), *_server_routes(service, extensions)]
    asked += client_routes(service, extensions)
    return _app(asked, keys, managing, extensions.http_checks)


def metrics_app(service: Service) -> Starlette:
    """The application for a port on which there is nothing but metrics."""
    return _app([Route("/metrics", _metrics(service))], None, ())


def _app(
    routes: list[Route],
    keys: Keys | None,
    managing: Sequence[Route],
    checks: Mapping[str, Check] = NO_CHECKS,
) -> Starlette:
    if keys is not None:
        managing = [
            Route(route.path, KeyCheck(route.app, keys.admin), methods=list(route.methods or ()))
            for route in managing
        ]
    app = Starlette(
        routes=[*routes, *managing],
        exception_handlers={
            HTTPException: _http_error,
            XirangError: _xirang_error,
            ClientDisconnect: _gone,
            # Starlette raises it on, so that uvicorn logs the traceback.
            Exception: _unexpected_error,
        },
    )
    app.router.redirect_slashes = False
    if checks:
        app.add_middleware(ApiCheck, checks=checks)
    if keys is not None:
        app.add_middleware(KeyCheck, check=keys.of)
    return app


class KeyCheck:
    """Lets only those with a known key ask, but for what probes and scrapers look at."""

    def __init__(self, app: ASGIApp, check: Callable[[Mapping[bytes, bytes]], Grant]) -> None:
        self._app = app
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "http" and not _is_open(scope["path"]):
            try:
                self._check(dict(scope["headers"]))
            except XirangError as error:
                form = _form_of(scope["path"])
                await refused(*form(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


class ApiCheck:
    """Lets only those at a restricted API who bring its header."""

    def __init__(self, app: ASGIApp, checks: Mapping[str, Check]) -> None:
        self._app = app
        self._checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        check = self._checks.get(api_of_path(scope["path"])) if scope["type"] == "http" else None
        if check is not None:
            try:
                check(dict(scope["headers"]))
            except XirangError as error:
                await refused(*errors.error_response(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _form_of(path: str) -> errors.Refusal:
    """How what is wrong is told: OpenAI's clients have a form of their own."""
    return openai.error_response if path.startswith("/v1/") else errors.error_response


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or dashboard.is_open(path)


async def _front_page(_: Request) -> Response:
    return told(
        {
            "name": "xirang",
            "version": _version(),
            "endpoints": [
                "GET /v2",
                "GET /v2/health/ready",
                "GET /v2/models/{model}",
                "POST /v2/models/{model}/infer",
                "POST /v2/repository/index",
                "GET /v1/models",
                "POST /v1/embeddings",
                "POST /embed",
                "GET /metrics",
                "GET /dashboard",
                "GET /openapi.json",
            ],
        }
    )


def _metrics(service: Service) -> Endpoint:
    async def metrics(request: Request) -> Response:
        is_open = exposition.is_open(request.headers.get("accept", ""))
        kind = exposition.OPEN_TYPE if is_open else exposition.TEXT_TYPE
        return Response(service.metrics_text(is_open=is_open), media_type=kind)

    return metrics


def _document(service: Service, texts: Mapping[str, TextModel]) -> Endpoint:
    async def document(_: Request) -> Response:
        models = [service.model(name) for name in service.model_names()]
        return told(openapi.document(models, texts, version=_version()))

    return document


def _server_routes(service: Service, extensions: Extensions) -> list[Route]:
    async def server(_: Request) -> Response:
        names = extensions.names
        return told({"name": "xirang", "version": _version(), "extensions": names})

    async def live(_: Request) -> Response:
        return _health("live", is_well=service.is_live())

    async def ready(_: Request) -> Response:
        return _health("ready", is_well=service.is_ready())

    async def index(request: Request) -> Response:
        only_ready = _only_ready(await object_of(request))
        return told(service.index(only_ready=only_ready))

    async def statistics(_: Request) -> Response:
        return told(service.statistics())

    async def costs(_: Request) -> Response:
        return told(service.costs())

    async def memory(_: Request) -> Response:
        return told(service.memory())

    return [
        Route("/v2", server),
        Route("/v2/", server),
        Route("/v2/health/live", live),
        Route("/v2/health/ready", ready),
        Route("/v2/repository/index", index, methods=["POST"]),
        Route("/v2/repository/{repository}/index", index, methods=["POST"]),
        Route("/v2/models/stats", statistics),
        Route("/v2/xirang/costs", costs),
        Route("/v2/xirang/memory", memory),
    ]


def _model_routes(service: Service) -> list[Route]:
    def asked(request: Request) -> ModelInfo:
        number = request.path_params.get("version")
        return service.model(request.path_params["model"], None if number is None else str(number))

    async def metadata(request: Request) -> Response:
        return told(_metadata(asked(request)))

    async def ready(request: Request) -> Response:
        try:
            is_ready = asked(request).is_ready
        except (UnknownModel, NotReady):
            is_ready = False
        if is_ready:
            return told({"name": request.path_params["model"], "ready": True})
        return told({"error": "Model version not ready"}, 400)

    async def config(request: Request) -> Response:
        return told(asked(request).config)

    async def statistics(request: Request) -> Response:
        try:
            name = asked(request).name
        except UnknownModel as error:
            # Triton's status and words; its clients' tests look for them.
            name = request.path_params["model"]
            raise InvalidRequest(_not_available(service, name)) from error
        counted, number = service.statistics(name), request.path_params.get("version")
        of_version = [
            e for e in counted["model_stats"] if number is None or e["version"] == str(number)
        ]
        return told({"model_stats": of_version})

    async def infer(_: Request) -> Response:
        raise HTTPException(405, headers={"allow": "POST"})

    return [
        route
        for prefix in ("/v2/models/{model}", "/v2/models/{model}/versions/{version:int}")
        for route in (
            Route(prefix, metadata),
            Route(prefix + "/ready", ready),
            Route(prefix + "/config", config),
            Route(prefix + "/stats", statistics),
            # A POST on one of these is hot, and never comes here.
            Route(prefix + "/infer", infer, methods=VERBS_NOT_POST),
            Route(prefix + "/generate", infer, methods=VERBS_NOT_POST),
            Route(prefix + "/generate_stream", infer, methods=VERBS_NOT_POST),
        )
    ]


def _not_available(service: Service, name: str) -> str:
    if name in service.model_names():
        return f"requested model version is not available for model '{name}'"
    return f"requested model '{name}' is not available"


def _metadata(model: ModelInfo) -> dict[str, Any]:
    def specs(of: Any) -> list[dict[str, Any]]:
        return [{"name": s.name, "datatype": s.datatype, "shape": s.shape} for s in of]

    return {
        "name": model.name,
        "versions": list(model.versions),
        "platform": model.platform,
        "inputs": specs(model.inputs),
        "outputs": specs(model.outputs),
    }


def _only_ready(document: Mapping[str, Any]) -> bool:
    only_ready = document.get("ready", False)
    if type(only_ready) is not bool:
        raise InvalidRequest("the body must be an object whose 'ready' is true or false")
    return only_ready


def _version() -> str:
    try:
        return version("xirang")
    except PackageNotFoundError:
        return "0"


def _health(state: str, *, is_well: bool) -> Response:
    # The status is enough for most; KServe's client reads the body, which is the specification's.
    return told({state: is_well}, 200 if is_well else 400)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = told({"error": error.detail}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _xirang_error(_: Request, error: Exception) -> Response:
    return refused(*errors.error_response(error))


async def _gone(_: Request, _error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _unexpected_error(_: Request, _error: Exception) -> Response:
    return told({"error": "internal error; the server's log has the details"}, 500)
