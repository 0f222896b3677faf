"""Loading and unloading of models, at the wish of operators."""

import binascii
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from xirang.errors import InvalidRequest
from xirang.frontends.documents import done, parsed
from xirang.frontends.service import Repository

_FILE = "file:"
_EXPECTED = "the body must be an object whose 'parameters' are an object"


def managing_routes(repository: Repository) -> list[Route]:
    """The `managing` of `cold_app`."""

    async def load(request: Request) -> None:
        parameters = decode(await request.body())
        await repository.load(request.path_params["model"], parameters)

    async def unload(request: Request) -> None:
        decode(await request.body())  # its one parameter is about ensembles
        await repository.unload(request.path_params["model"])

    return [
        Route(f"/v2/repository{named}/models/{{model}}/{verb}", _endpoint(act), methods=["POST"])
        for named in ("", "/{repository}")
        for verb, act in (("load", load), ("unload", unload))
    ]


def _endpoint(act: Callable[[Request], Awaitable[None]]) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        if "repository" in request.path_params:
            raise HTTPException(501, "'repository_name' specification is not supported")
        await act(request)
        return done()

    return endpoint


def decode(body: bytes) -> dict[str, str | bytes]:
    """The parameters of a request to load a model: texts, and files as bytes.

    Raises:
        InvalidRequest: It is not in that form.
    """
    document = parsed(body, _EXPECTED) if body else {}
    parameters = document.get("parameters", {})
    if not isinstance(parameters, dict):
        raise InvalidRequest(_EXPECTED)
    return {
        name: _value(name, value)
        for name, value in parameters.items()
        if name != "unload_dependents"  # the models of an ensemble stay when it goes
    }


def _value(name: str, value: Any) -> str | bytes:
    if not isinstance(value, str):
        raise InvalidRequest(f"parameter '{name}' must be a string")
    if not name.startswith(_FILE):
        return value
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError as error:  # what is no base64, or no ASCII
        raise InvalidRequest(f"parameter '{name}' must be a file in base64: {error}") from None
