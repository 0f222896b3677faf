"""The gRPC door on the server's own event loop: sockets, seconds, and when a connection ends."""

import asyncio
import logging
import socket
import ssl
from zlib import crc32

from xirang.errors import InvalidSetting
from xirang.frontends.grpc.calls import Calls, Switchboard
from xirang.frontends.grpc.framing import LEVELS
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.events import Event
from xirang.frontends.grpc.http2.frames import ErrorCode
from xirang.frontends.grpc.procedures import procedures
from xirang.frontends.grpc.servicer import Servicer
from xirang.frontends.grpc.settings import GrpcSettings
from xirang.frontends.wire.connection import LINGER_SECONDS

TICK_S = 1.0
PING_AFTER_S, PING_PATIENCE_S = 60, 20
"""A client from which nothing was heard for so long is asked whether it is there, and given up if
it does not answer: that frees what waits for it."""
BACKLOG = 1024

_logger = logging.getLogger(__name__)


class OwnDoor:
    """A gRPC server on the running event loop.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, servicer: Servicer, settings: GrpcSettings) -> None:
        """Take the port; `serve` begins to answer.

        Args:
            servicer: Answers.
            settings: Of the door.

        Raises:
            InvalidSetting: The port cannot be had.
        """
        self._loop = asyncio.get_running_loop()
        self._shutting: asyncio.Future[float] = self._loop.create_future()
        self._empty = asyncio.Event()
        self._connections: set[Connection] = set()
        self._settings = settings
        self._board = Switchboard(
            procedures(servicer, self._shutting),
            servicer,
            settings.message_bytes_max,
            LEVELS[settings.compression],
            settings.client_timeout_s,
        )
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        place = (settings.host, settings.port)
        try:
            self._listener = socket.create_server(place, family=family, backlog=BACKLOG)
        except OSError as error:
            reason = f"cannot listen on {settings.address} for gRPC: {error.strerror}"
            raise InvalidSetting(reason) from error
        self.port: int = self._listener.getsockname()[1]

    async def serve(self) -> None:
        """Answer until `shut` is called and all calls have ended."""
        tls = _tls(self._settings)
        server = await self._loop.create_server(
            self._connection,
            sock=self._listener,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else self._settings.client_timeout_s,
            backlog=BACKLOG,
        )
        ticking = asyncio.ensure_future(self._tick_on())
        grace_s = await self._shutting
        server.close()
        for connection in tuple(self._connections):
            connection.leave()
        try:
            await asyncio.wait_for(self._until_empty(), grace_s)
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        ticking.cancel()

    def shut(self, grace_s: float) -> None:
        """Take no more calls, and let those that are in end.

        Args:
            grace_s: How long they may take.
        """
        if not self._shutting.done():
            self._shutting.set_result(grace_s)

    def opened(self, connection: "Connection") -> bool:
        """One more is there; false if it is one too many."""
        self._connections.add(connection)
        return (
            len(self._connections) <= self._settings.connections_max and not self._shutting.done()
        )

    def closed(self, connection: "Connection") -> None:
        """One less."""
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def _connection(self) -> "Connection":
        return Connection(self, self._board, self._loop)

    async def _until_empty(self) -> None:
        while self._connections:
            self._empty.clear()
            await self._empty.wait()

    async def _tick_on(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._tick()

    def _tick(self) -> None:
        for connection in tuple(self._connections):
            try:
                connection.tick()
            except Exception:  # one connection's fault is not the others'
                _logger.exception("a connection is given up")
                connection.abort()


class Connection(asyncio.Protocol):
    """One client's. What its calls say in one turn of the loop leaves in one write."""

    def __init__(self, door: OwnDoor, board: Switchboard, loop: asyncio.AbstractEventLoop) -> None:
        self._door = door
        self._board = board
        self._loop = loop
        self._http = ServerConnection()
        self._transport: asyncio.Transport | None = None
        self._parting: asyncio.TimerHandle | None = None
        self._is_flushing = self._is_paused = False
        self._silent_s = self._unread_s = self._owed_s = self._received = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here; one too many is told so at once."""
        self._transport = transport
        peer = str(transport.get_extra_info("peername")).encode()
        self._calls = Calls(self._board, self._http, crc32(peer), self._flush_soon)
        if not self._door.opened(self):
            self._http.close(ErrorCode.ENHANCE_YOUR_CALM, "too many connections")
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self._handle(self._http.receive(data))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone away: whatever is under way for it may stop."""
        self._transport = None
        if self._parting is not None:
            self._parting.cancel()
        self._calls.abandon()
        self._door.closed(self)

    def pause_writing(self) -> None:
        """The client reads too slowly: hold what there is to send, and take nothing more."""
        self._is_paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_paused = False
        self._unread_s = 0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._flush_soon()

    def tick(self) -> None:
        """A second has passed."""
        self._calls.tick()
        self._handle(self._http.tick(self._board.client_timeout_s))
        if self._is_paused:
            self._unread_s += 1
            if self._unread_s > self._board.client_timeout_s:
                self.abort()  # what is unsent would wait for ever
            return
        is_silent = self._received == self._http.received
        self._received = self._http.received
        self._silent_s = self._silent_s + 1 if is_silent else 0
        self._owed_s = self._owed_s + 1 if is_silent and self._http.is_owed else 0
        if self._owed_s > self._board.client_timeout_s:
            self._handle(self._http.close(ErrorCode.ENHANCE_YOUR_CALM, "the rest did not come"))
        elif self._silent_s == PING_AFTER_S:
            self._http.ping()
            self._flush_soon()
        elif self._silent_s > PING_AFTER_S + PING_PATIENCE_S:
            self.abort()

    def leave(self) -> None:
        """The server stops: what is in is answered, then the connection ends."""
        self._http.leave()
        self._calls.end()
        self._flush_soon()

    def abort(self) -> None:
        """End it at once."""
        if self._transport is not None:
            self._transport.abort()

    def _handle(self, events: list[Event]) -> None:
        if events:
            self._calls.handle(events)
        if not self._is_flushing and self._http.has_more:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        http, transport = self._http, self._transport
        if transport is None or transport.is_closing() or self._is_paused or self._parting:
            return
        if data := http.take():
            transport.write(data)
            self._calls.sent()
        if http.is_over:
            self._part(transport)
        elif http.has_more:
            self._flush_soon()
        elif http.is_leaving and not http.streams_open:
            transport.close()

    def _part(self, transport: asyncio.Transport) -> None:
        """Close, once the client has had time to read why.

        To close on unread bytes resets the connection, and with it what was said last.
        """
        if transport.can_write_eof():
            transport.write_eof()
            self._parting = self._loop.call_later(LINGER_SECONDS, self.abort)
        else:
            transport.close()


def _tls(settings: GrpcSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(*settings.certificate)
    return context
