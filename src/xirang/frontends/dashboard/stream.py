"""Sends the server's live picture to whoever looks, once a second; to nobody it makes none."""

import asyncio
from contextlib import suppress
from typing import Any

import orjson

from xirang.errors import XirangError
from xirang.frontends.service import Service, Watch

INTERVAL_S = 1.0
VIEWERS_MAX = 16

Viewer = asyncio.Queue[bytes | None]
"""What one viewer still has to be sent; None ends its stream."""


class Broadcast:
    """One watch for all viewers, open from the first one's coming to the last one's going."""

    def __init__(
        self,
        service: Service,
        *,
        version: str,
        interval_s: float = INTERVAL_S,
        viewers_max: int = VIEWERS_MAX,
    ) -> None:
        """Watch nothing yet.

        Args:
            service: Which server.
            version: Of it.
            interval_s: Between two frames.
            viewers_max: At once.
        """
        self._service = service
        self._version = version
        self._interval_s = interval_s
        self._viewers_max = viewers_max
        self._viewers: list[Viewer] = []
        self._watch: Watch | None = None
        self._known: list[str] = []

    @property
    def is_full(self) -> bool:
        """Whether nobody more may look."""
        return len(self._viewers) >= self._viewers_max

    def join(self) -> Viewer:
        """One more looks; what it is to be sent first is already there."""
        viewer: Viewer = asyncio.Queue(maxsize=4)
        self._viewers.append(viewer)
        if self._watch is None:
            self._watch = self._service.watch()
            asyncio.get_running_loop().call_later(self._interval_s, self._tick)
            viewer.put_nowait(_event("about", self._about()))
            viewer.put_nowait(_event("frame", self._watch.frame()))
        else:
            viewer.put_nowait(_event("about", self._about()))
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """One looks no more."""
        self._viewers.remove(viewer)

    def _tick(self) -> None:
        if self._watch is None:
            return
        if not self._viewers:
            self._watch.close()
            self._watch = None
            return
        frame = self._watch.frame()
        if list(self._service.model_names()) != self._known:
            self._send(_event("about", self._about()))
        self._send(_event("frame", frame))
        if frame["is_draining"] or frame["is_off"]:
            # An open stream would keep the server from its end; and one under overload makes none.
            self._send(None)
        asyncio.get_running_loop().call_later(self._interval_s, self._tick)

    def _send(self, event: bytes | None) -> None:
        for viewer in self._viewers:
            if viewer.full():
                viewer.get_nowait()  # who is slow misses a frame; the next one has all counts
            viewer.put_nowait(event)

    def _about(self) -> dict[str, Any]:
        """What does not change from frame to frame."""
        self._known = list(self._service.model_names())
        models = []
        for name in self._known:
            with suppress(XirangError):  # it went while we asked
                models.append(_model(self._service.model(name).config, name))
        assert self._watch is not None
        return {"version": self._version, "bounds": self._watch.bounds, "models": models}


def _model(config: Any, name: str) -> dict[str, Any]:
    own = config.get("xirang", {})
    told = ("verdict", "overrides", "batching", "budget_ms", "window_ms_max")
    instances = sum(group["count"] for group in config.get("instance_group", ()))
    return {
        "name": name,
        "platform": config.get("platform", ""),
        "max_batch_size": config.get("max_batch_size", 0),
        "instances": instances,
    } | {key: own.get(key) for key in told}


def _event(kind: str, content: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps(content))
