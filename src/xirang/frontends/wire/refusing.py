"""How a connection says no: to one request, or to all that would come after it."""

import asyncio
from typing import Any, ClassVar

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from xirang.frontends.errors import Dawdled, TooLarge, refusal
from xirang.frontends.exchange import Exchange, Match, Route
from xirang.frontends.headers import Headers
from xirang.frontends.wire.connection import ColdTurn, OrderedProtocol

BODY_BYTES_MAX = 64 << 20
DROPPED_BYTES_MAX = 1 << 20
"""Up to here a body that nobody wants is read, so that the connection goes on."""


class RefusingProtocol(OrderedProtocol):
    """What a connection knows of the request that is coming in, and how it turns it away.

    Attributes:
        match: From a URL to the route that answers a POST on it.
        body_bytes_max: Of a request, as sent and as decompressed.
    """

    match: ClassVar[Match]
    body_bytes_max: ClassVar[int] = BODY_BYTES_MAX

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._exchange: Exchange | None = None
        self._chunks: bytes | list[bytes] | None = None
        self._is_in_head = False
        # Nothing more that comes in will be answered.
        self._is_deaf = False

    def _turn_away(self, exchange: Exchange, route: Route, error: Exception) -> None:
        """Answer before the body has come, which nobody wants any more."""
        is_short = int(self._length or 0) <= DROPPED_BYTES_MAX and not (
            self.expect_100_continue or b"transfer-encoding" in exchange.headers
        )
        if is_short and exchange.is_kept_alive:
            exchange.respond(*refusal(error, route, exchange.headers))
        else:
            self._refuse(error)

    def _own_up(self, exchange: Exchange, route: Route, error: Exception) -> None:
        """One request's fault is not the connection's: it is told, and others may follow."""
        if not exchange.status:
            exchange.respond(*refusal(error, route, exchange.headers))

    def refuse_dawdler(self) -> None:
        """The rest of its request has not come in time."""
        if self._turns or self._is_in_head or self._exchange is not None:
            self._refuse(Dawdled("the rest of the request did not come in time"))
        else:
            self.transport.close()  # it has said nothing yet: there is nothing to answer

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self.body_bytes_max} bytes")

    def _refuse(self, error: Exception) -> None:
        """Answer, in turn, that the connection cannot go on, and listen no more."""
        if self._is_deaf:
            return
        self._is_deaf = self._is_lingering = True
        self._is_in_head = False
        self._chunks = None
        exchange, self._exchange = self._exchange, None
        cycle: RequestResponseCycle | None = self.cycle
        if (exchange and exchange.status) or (cycle is not None and cycle.response_complete):
            self.transport.close()  # answered before all of it had come: there is no second answer
            return
        if exchange is None:
            if self._turns and isinstance(last := self._turns[-1], ColdTurn):
                self._drop_unfinished(last)
            exchange = Exchange(self, b"", Headers())
            self._turns.append(exchange)
        exchange.is_kept_alive = False
        exchange.awaits_continue = False
        exchange.respond(*refusal(error, type(self).match(self.url), exchange.headers))
