"""GET /dashboard and what its page asks for."""

import asyncio
from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from xirang.frontends.dashboard import assets
from xirang.frontends.dashboard.stream import Broadcast
from xirang.frontends.service import Service

PAGE, EVENTS = "/dashboard", "/dashboard/events"

_POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'self'; img-src 'self' data: blob:; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The page loads nothing from anywhere else; the plot library writes styles into it."""


def routes(service: Service, *, version: str) -> list[Route]:
    """The routes of a server's dashboard."""
    broadcast = Broadcast(service, version=version)

    async def events(_: Request) -> Response:
        if broadcast.is_full:
            raise HTTPException(503, "too many dashboards are open", {"retry-after": "10"})
        return StreamingResponse(
            _events(broadcast),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    return [
        Route(PAGE, _page),
        Route(EVENTS, events),
        Route("/dashboard/{digest}/{name}", _part),
    ]


def is_open(path: str) -> bool:
    """Whether a path needs no key: the page and its parts say nothing about the server."""
    return path == PAGE or (path.startswith(PAGE + "/") and path != EVENTS)


async def _page(_: Request) -> Response:
    headers = {"cache-control": "no-cache", "content-security-policy": _POLICY}
    return Response(assets.page(), media_type="text/html; charset=utf-8", headers=headers)


async def _part(request: Request) -> Response:
    # The library is megabytes: compressing it must not hold up whoever wants an answer.
    found = await asyncio.to_thread(assets.asset, request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    is_current = request.path_params["digest"] == assets.digest()
    headers = {
        "cache-control": "public, max-age=31536000, immutable" if is_current else "no-store",
        "vary": "accept-encoding",
        "x-content-type-options": "nosniff",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(found.gzipped, media_type=found.media_type, headers=headers)
    return Response(found.body, media_type=found.media_type, headers=headers)


async def _events(broadcast: Broadcast) -> AsyncIterator[bytes]:
    viewer = broadcast.join()
    try:
        while (event := await viewer.get()) is not None:
            yield event
    finally:
        broadcast.leave(viewer)
