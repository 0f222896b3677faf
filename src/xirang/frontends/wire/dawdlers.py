"""Connections that hold memory and give nothing: found once a second, and closed.

One timer for all connections, instead of one for each request: a request pays two assignments.
"""

import asyncio
from collections.abc import Collection
from typing import Any

SWEEP_SECONDS = 1.0
RATE_BYTES_MIN = 16 << 10
"""An upload that comes at least so fast, in bytes a second, may take as long as it takes."""


class Dawdlers:
    """Watches over the connections of a server."""

    def __init__(
        self, connections: Collection[Any], *, loop: asyncio.AbstractEventLoop, seconds: float
    ) -> None:
        """Start to watch.

        Args:
            connections: Those that are open now; the server keeps it up to date.
            loop: Where they live.
            seconds: How long a client may take to finish a request, or to go on reading.
        """
        self._connections = connections
        self._loop = loop
        self._seconds = seconds
        self._timer = loop.call_later(SWEEP_SECONDS, self._tick)

    def close(self) -> None:
        """Watch no more."""
        self._timer.cancel()

    def _tick(self) -> None:
        self.sweep()
        self._timer = self._loop.call_later(SWEEP_SECONDS, self._tick)

    def sweep(self) -> None:
        """Close every connection whose client is out of time."""
        now = self._loop.time()
        for connection in tuple(self._connections):
            if connection.unread_since and now - connection.unread_since > self._seconds:
                connection.transport.abort()  # what is unsent would wait for ever
            elif connection.owes_since and not connection.flow.read_paused:
                allowed = self._seconds + connection.owed_bytes / RATE_BYTES_MIN
                if now - connection.owes_since > allowed:
                    connection.owes_since = 0.0
                    connection.refuse_dawdler()
