"""HTTP/1.1 for the hot routes, inside uvicorn: they are answered without ASGI, all else with it."""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from xirang.engine.clock import MonotonicClock
from xirang.errors import InvalidRequest
from xirang.frontends.errors import NO_ROOM, HeadTooLarge, NoRoom
from xirang.frontends.exchange import Exchange, MakeExchange, Match, Route, welcome_of
from xirang.frontends.headers import Headers, without_upgrade
from xirang.frontends.wire.compression import decompress
from xirang.frontends.wire.connection import CONNECTIONS_MAX, Memory
from xirang.frontends.wire.familiar import FamiliarHead, head_of
from xirang.frontends.wire.refusing import BODY_BYTES_MAX, RefusingProtocol

MEMORY_BYTES_MAX = 1 << 30
HEAD_BYTES_MAX = 64 << 10
"""Request line and headers; nginx takes 32 KiB, node 16 KiB. Trailers are counted with them."""
FRAMING_MAX = 8
"""Bytes around each byte of a body; chunks of one byte have five. More is only noise."""
_UNUSUAL = frozenset([b"expect", b"upgrade", b"transfer-encoding", b"content-encoding"])
"""A head with one of these is always read by the parser."""


class FastProtocol(RefusingProtocol):
    """The receiving half of a connection; `serve_protocol` makes the class uvicorn is given.

    Attributes:
        now_ns: The engine's clock.
        exchange: Makes one of a head.
    """

    exchange: ClassVar[MakeExchange]
    now_ns: ClassVar[Callable[[], int]]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._make, self._now_ns = type(self).exchange, type(self).now_ns
        self._route: Route | None = None
        self._is_whole = True  # no request is under way of which the rest is still to come
        self._fed_bytes = 0
        self._headers = Headers()  # of the request before this one: most often the same again
        self._may_recur = False  # whether its head is worth being known again
        self._familiar: FamiliarHead | None = None  # that head, if it is known

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._is_deaf:
            return
        familiar = self._familiar
        if familiar is None or not self._is_whole:
            self._parse(data)
            return
        # The way of most: nothing is read but what differs from the request before.
        body = familiar.body_in(data)
        if body is None or not self._is_taken_again(body):
            self._parse(data)

    def _is_taken_again(self, body: bytes) -> bool:
        """Take the request before this one once more, with another body, if there is room."""
        headers, route, memory, size_bytes = self._headers, self._route, self.memory, len(body)
        held_bytes = memory.held_bytes + size_bytes
        if route is None or held_bytes > memory.bytes_max or size_bytes > self.body_bytes_max:
            return False
        exchange = self._make(self, self.url, headers)
        exchange.begun_ns = self._now_ns()
        exchange.body = body
        exchange.held_bytes = size_bytes
        memory.held_bytes = held_bytes
        self._line_up(exchange)
        try:
            if headers.reader is not route:
                welcome_of(route)(exchange)
            route(exchange)
        except Exception as error:
            self._own_up(exchange, route, error)
        return True

    def _parse(self, data: bytes) -> None:
        begins = self._is_whole
        unfinished = self.headers if self.owes_since else None
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(InvalidRequest("this is not an HTTP/1.1 request"))
            return
        if self._is_whole:
            if begins and self._may_recur:
                self._familiar = head_of(data, self._length)
            return
        if not self.owes_since:
            self.owes_since = self.loop.time()
        elif self.headers is unfinished:
            self._fed_bytes += len(data)
            if self._fed_bytes > HEAD_BYTES_MAX + (1 + FRAMING_MAX) * self.owed_bytes:
                self._refuse(HeadTooLarge(f"the head is larger than {HEAD_BYTES_MAX} bytes"))

    def _upgraded(self, rest: bytes) -> None:
        """After a head with an Upgrade header; what follows it is in `rest`, unparsed.

        Only websockets are a change of protocol here. A client that offers another, as Java's
        offers h2c with its first POST, goes on in HTTP/1.1: the head is read again without it.
        """
        if self._should_upgrade():
            self.handle_websocket_upgrade()
            return
        parser = self.parser
        if parser.get_method() == b"CONNECT":
            self._refuse(InvalidRequest("this is no proxy"))
            return
        version = parser.get_http_version().encode()
        start = b"%b %b HTTP/%b" % (parser.get_method(), self.url, version)
        head = without_upgrade(start, self._all_lines(), closes=not parser.should_keep_alive())
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.data_received(head + rest)

    def on_message_begin(self) -> None:
        """The first byte of a request; what only ASGI needs is made in `_begin_cold`."""
        self.url = b""
        self.headers = []
        self.cycle = None  # type: ignore[assignment]
        self.expect_100_continue = False
        self._exchange = None
        self._length = b""
        self._is_whole = False
        self._is_in_head = True
        self._may_recur = False
        self._familiar = None
        self._fed_bytes = 0
        self.owes_since = 0.0
        self.owed_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line; the one that differs where all else is alike is kept apart."""
        name = name.lower()
        if name == b"content-length":
            self._length = value
        else:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Decide whether the request is hot, and whether its body is welcome."""
        self._is_in_head = False
        if self._is_deaf:
            return
        headers = self._headers
        is_new = headers.lines != self.headers
        if is_new:
            headers = self._headers = Headers(self.headers)
        if b"expect" in headers:
            self.expect_100_continue = headers[b"expect"].lower() == b"100-continue"
        if b"upgrade" in headers and self.parser.should_upgrade() and not self._should_upgrade():
            return
        size_bytes = int(self._length or 0)
        if size_bytes > self.body_bytes_max:
            self._refuse(self._too_large())
            return
        route = type(self).match(self.url)
        if route is None or self.parser.get_method() != b"POST":
            self._begin_cold(self._all_lines())
            return
        if self.memory.held_bytes + size_bytes > self.memory.bytes_max:
            self._refuse(NoRoom(NO_ROOM))
            return
        exchange = self._make(self, self.url, headers)
        self._begin_hot(exchange, route)
        # Who has sent the same headers twice will do so again. Never what changes how it is read.
        is_usual = exchange.is_kept_alive and not exchange.echo
        self._may_recur = not is_new and is_usual and _UNUSUAL.isdisjoint(headers)

    def _begin_hot(self, exchange: Exchange, route: Route) -> None:
        exchange.begun_ns = self._now_ns()
        self._exchange, self._route = exchange, route
        self._chunks = None
        if not self.parser.should_keep_alive():
            exchange.is_kept_alive = False
        elif b"connection" in exchange.headers and self.parser.get_http_version() == "1.0":
            exchange.echo = b"connection: keep-alive\r\n"
        self._line_up(exchange)
        if exchange.headers.reader is not route:  # these are new to it
            try:
                welcome_of(route)(exchange)
            except Exception as error:
                self._turn_away(exchange, route, error)
                return
        if self.expect_100_continue:
            exchange.awaits_continue = True
            if self._turns[0] is exchange:
                self._continue(exchange)

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        if self._is_deaf:
            return
        self.owed_bytes += len(body)
        exchange = self._exchange
        if self.owed_bytes > self.body_bytes_max:
            self._refuse(self._too_large())
        elif exchange is None:
            super().on_body(body)
        elif exchange.status:
            return  # it was turned away by its head
        elif not self.hold(exchange, len(body)):
            self._refuse(NoRoom(NO_ROOM))
        elif self._chunks is None:
            self._chunks = body
        elif isinstance(self._chunks, list):
            self._chunks.append(body)
        else:
            self._chunks = [self._chunks, body]

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_deaf:
            return
        self._is_whole = True
        self.owes_since = 0.0
        exchange, route = self._exchange, self._route
        if exchange is None or route is None:
            if self.cycle is not None:
                super().on_message_complete()
                self._is_deaf = not self.cycle.keep_alive
            return
        self._exchange = None
        if exchange.status:
            return  # it was turned away by its head
        exchange.awaits_continue = False
        # The client has announced that nothing follows.
        self._is_deaf = not exchange.is_kept_alive
        chunks = self._chunks
        if chunks is not None:
            exchange.body = b"".join(chunks) if isinstance(chunks, list) else chunks
            self._chunks = None
        try:
            coding = exchange.headers.get(b"content-encoding")
            if coding is not None:
                self._unpack(exchange, coding)
            route(exchange)
        except Exception as error:
            self._own_up(exchange, route, error)

    def _unpack(self, exchange: Exchange, coding: bytes) -> None:
        packed = exchange.body
        exchange.body = decompress(packed, coding, bytes_max=self.body_bytes_max)
        if not self.hold(exchange, len(exchange.body) - len(packed)):
            raise NoRoom(NO_ROOM)


def serve_protocol(
    match: Match,
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    connections_max: int = CONNECTIONS_MAX,
    memory_bytes_max: int = MEMORY_BYTES_MAX,
    now_ns: Callable[[], int] = MonotonicClock.now_ns,
    exchange: MakeExchange = Exchange,
) -> type[FastProtocol]:
    """The class for `uvicorn.Config(http=…)`.

    Args:
        match: From a URL, query and all, to the route that answers a POST on it, or None.
        body_bytes_max: Of a request, as sent and as decompressed; above it 413.
        connections_max: Open at once; one more gets 503.
        memory_bytes_max: Of all bodies together that are unfinished or unanswered; beyond it 503.
        now_ns: The engine's clock, from which a request's budget runs.
        exchange: Makes one of a head: some are followed.
    """
    members = {
        "match": staticmethod(match),
        "body_bytes_max": body_bytes_max,
        "connections_max": connections_max,
        "memory": Memory(memory_bytes_max),
        "now_ns": staticmethod(now_ns),
        "exchange": staticmethod(exchange),
    }
    return type("FastProtocol", (FastProtocol,), members)
