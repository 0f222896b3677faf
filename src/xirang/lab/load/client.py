"""A cheap HTTP/1.1 client: keep-alive connections with one outstanding request each.

A load client that costs as much as the server measures itself. So requests are
bytes prepared before the run, the parser is httptools, and the result of a request
is one plain call: no Future, no Task, no object per request.
"""

import asyncio
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

import httptools

from xirang.errors import InvalidSetting

ANSWER_BYTES_MAX = 256 * 1024 * 1024
"""A longer answer is taken for a broken server; without a bound it would fill the memory."""


class Fault(IntEnum):
    """Why a request got no answer; negative, so that it shares a column with HTTP statuses."""

    REFUSED = -1
    UNREACHABLE = -2
    RESET = -3
    TIMEOUT = -4
    GARBLED = -5


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go, and the head that they share.

    Attributes:
        host: Name or address of the server.
        port: Its TCP port.
        prefix: Path in front of every route, empty or without a slash at its end.
        path: The route behind the prefix.
        headers: Further header fields of every request.
    """

    host: str
    port: int = 80
    prefix: str = ""
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `http://host[:port][/prefix]`; anything else is an InvalidSetting."""
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme != "http":
            raise InvalidSetting(f"{url!r}: only http:// URLs can be loaded, not {parts.scheme}://")
        try:
            port = parts.port or 80
        except ValueError:
            raise InvalidSetting(f"{url!r}: the port must be a number from 1 to 65535") from None
        if not parts.hostname or not url.isascii() or any(byte.isspace() for byte in url):
            raise InvalidSetting(f"{url!r} is not a URL of the form http://host:port")
        return cls(parts.hostname, port, parts.path.rstrip("/"))

    def at(self, path: str, headers: tuple[tuple[str, str], ...] = ()) -> "Target":
        """The same server, another route; a prefix that already ends in it is kept as it is."""
        prefix = self.prefix.removesuffix(path) if path != "/" else self.prefix
        return replace(self, prefix=prefix, path=path, headers=headers)

    def with_headers(self, *headers: tuple[str, str]) -> "Target":
        """The same route, with more header fields."""
        return replace(self, headers=(*self.headers, *headers))

    def get(self) -> bytes:
        """The whole GET request for this route."""
        return f"GET {self.prefix}{self.path} HTTP/1.1\r\n{self._fields()}\r\n".encode()

    def post(self, body: bytes) -> bytes:
        """The whole POST request that carries this body."""
        head = (
            f"POST {self.prefix}{self.path} HTTP/1.1\r\n{self._fields()}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _fields(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        fields = (("Host", f"{host}:{self.port}"), *self.headers)
        return "".join(f"{name}: {value}\r\n" for name, value in fields)


class Listener(Protocol):
    """Who is told what became of a request."""

    def on_answer(self, connection: "Connection", status: int, body: bytes) -> None:
        """The server answered; the connection is free again."""

    def on_fault(self, connection: "Connection", fault: Fault) -> None:
        """No answer will come; the next `send` opens the connection anew."""


@dataclass(slots=True, eq=False, repr=False)
class Connection(asyncio.Protocol):
    """One client's line to the server; it opens itself when there is something to send.

    Attributes:
        target: The server.
        listener: Is told each outcome, outside the parser's callbacks.
        busy: A request is outstanding.
        headers: Header fields of the answer, as sent.
        payload_index: Which body is out; the caller's to set, like the two instants.
        due_ns: When the outstanding request should have left.
        sent_ns: When it left.
    """

    target: Target
    listener: Listener
    busy: bool = False
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    payload_index: int = 0
    due_ns: int = 0
    sent_ns: int = 0
    _transport: asyncio.Transport | None = None
    _connecting: asyncio.Task[None] | None = None
    _waiting: bytes = b""
    _parser: httptools.HttpResponseParser = field(init=False)
    _parts: list[bytes] = field(default_factory=list)
    _size_bytes: int = 0
    _head_seen: bool = False
    _complete: bool = False
    _stays_open: bool = False

    def send(self, request: bytes) -> None:
        """Send a whole request; the outcome comes to the listener, never from this call."""
        assert not self.busy, "one outstanding request a connection"
        self.busy = True
        if self._transport is not None:
            self._transport.write(request)
        else:
            self._waiting = request
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def expire(self) -> None:
        """Give up on the outstanding request."""
        self._fail(Fault.TIMEOUT)

    def close(self) -> None:
        """Hang up without a word to the listener."""
        self.busy = False
        self._drop()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self, self.target.host, self.target.port)
        except ConnectionRefusedError:
            self._connecting = None
            self._fail(Fault.REFUSED)
        except OSError:
            self._connecting = None
            self._fail(Fault.UNREACHABLE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The line is open: send what waited for it."""
        line = cast("asyncio.Transport", transport)  # uvloop's class only behaves like one
        self._transport = line
        self._connecting = None
        self._parser = httptools.HttpResponseParser(self)
        self._reset()
        request, self._waiting = self._waiting, b""
        line.write(request)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; an answer is handed on after it, so the listener may send at once."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(Fault.GARBLED)
            return
        if self._complete:
            self._deliver()

    def eof_received(self) -> None:
        """Let the transport close itself; `connection_lost` tells what that means."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The line is gone: a request without an answer is lost with it."""
        self._transport = None
        if not self.busy:
            return
        if exc is None and self._head_seen and self._ends_with_connection():
            self._deliver()
        else:
            self._fail(Fault.RESET)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser: one header field."""
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Parser: the head is whole."""
        self._head_seen = True

    def on_body(self, body: bytes) -> None:
        """Parser: a piece of the body."""
        self._parts.append(body)
        self._size_bytes += len(body)
        if self._size_bytes > ANSWER_BYTES_MAX:
            raise httptools.HttpParserError("answer too long")

    def on_message_complete(self) -> None:
        """Parser: the answer is whole, unless it is an interim one (1xx)."""
        if self._complete:
            raise httptools.HttpParserError("two answers to one request")
        if self._parser.get_status_code() >= 200:
            self._complete = True
            self._stays_open = self._parser.should_keep_alive()  # false outside this callback
        else:
            self._reset()

    def _ends_with_connection(self) -> bool:
        # RFC 9112 6.3: without a length an answer ends where the connection does.
        named = {name.lower() for name, _ in self.headers}
        return named.isdisjoint({b"content-length", b"transfer-encoding"})

    def _deliver(self) -> None:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        status = self._parser.get_status_code()
        if not self.busy:  # an answer that nobody asked for: the line cannot be trusted
            self._drop()
            return
        if not self._stays_open:
            self._hang_up()
        self.busy = False
        self.listener.on_answer(self, status, body)
        self._reset()

    def _fail(self, fault: Fault) -> None:
        self._drop()
        if self.busy:
            self.busy = False
            self.listener.on_fault(self, fault)

    def _drop(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._hang_up()
        self._reset()

    def _hang_up(self) -> None:
        if self._transport is not None:
            # The transport will still call connection_lost; by then the line may be
            # in use again, so the old transport gets a protocol that listens to nobody.
            transport, self._transport = self._transport, None
            transport.set_protocol(asyncio.Protocol())
            transport.abort()

    def _reset(self) -> None:
        self.headers.clear()
        self._parts = []
        self._size_bytes = 0
        self._head_seen = self._complete = self._stays_open = False


@dataclass(slots=True, eq=False)
class _OneAnswer:
    """A listener for a single request outside a measured run."""

    future: "asyncio.Future[tuple[int, bytes]]"

    def on_answer(self, connection: Connection, status: int, body: bytes) -> None:
        if not self.future.done():
            self.future.set_result((status, body))

    def on_fault(self, connection: Connection, fault: Fault) -> None:
        if not self.future.done():
            self.future.set_exception(OSError(f"{connection.target.path}: {fault.name.lower()}"))


async def fetch(target: Target, request: bytes, *, timeout_s: float = 10.0) -> tuple[int, bytes]:
    """Send one request on a connection of its own: (status, body), or an OSError."""
    answer = _OneAnswer(asyncio.get_running_loop().create_future())
    connection = Connection(target, answer)
    try:
        async with asyncio.timeout(timeout_s):
            connection.send(request)
            return await answer.future
    except TimeoutError:
        raise OSError(f"{target.path}: no answer within {timeout_s:g} s") from None
    finally:
        connection.close()
