"""The order of answers on one HTTP/1.1 connection, hot and cold ones mixed, and when it closes.

How it works. `_turns` holds the requests not yet answered, in the order they came. A hot request
(an `Exchange`) is worked on at once, so that pipelined ones may share a batch; its response waits
until it heads the line. A cold request is uvicorn's own cycle for the ASGI application, started
only when it heads the line. `_advance` is the one place where the head is sent or started.
"""

import asyncio
import logging
from collections import deque
from typing import Any, ClassVar

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from xirang.frontends.exchange import Exchange
from xirang.frontends.headers import Line

PIPELINE_MAX = 64
"""Unanswered requests of one connection, above which it is not read from."""
LINGER_SECONDS = 2.0
"""How long a refused upload is read and dropped, so that the client gets to see why."""
JOIN_BYTES_MAX = 16384
"""Responses up to here leave in one piece; above, the copy costs more than a second write."""
TIMER_SECONDS = 0.002
"""The loop's timers are no finer than a millisecond; what is left below this is none."""

CONNECTIONS_MAX = 4096
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nx-should-retry: true\r\n"
    b"connection: close\r\ncontent-type: application/json\r\ncontent-length: 32\r\n\r\n"
    b'{"error":"too many connections"}'
)

_logger = logging.getLogger(__name__)


class Memory:
    """What the bodies of all unanswered hot requests take, and how much they may."""

    __slots__ = ("bytes_max", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0


class _Starts(dict[int, bytes]):
    """How responses begin: by status, the line that tells it and the lines that all have."""

    __slots__ = ("_lines",)

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    def __missing__(self, status: int) -> bytes:
        start = self[status] = STATUS_LINE[status] + self._lines
        return start


class ColdTurn:
    """A request for the ASGI application, waiting for its turn or at it."""

    __slots__ = ("app", "cycle", "is_started")

    def __init__(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.cycle = cycle
        self.app = app
        self.is_started = False

    def abandon(self) -> None:
        """Tell the application that its client has gone away."""
        self.cycle.disconnected = True
        self.cycle.message_event.set()


class OrderedProtocol(HttpToolsProtocol):
    """The sending half of a connection; `FastProtocol` adds the receiving half.

    `HttpToolsProtocol` is not a public interface: the tests of these two are the contract.

    Attributes:
        owes_since: When the request began whose rest the client still owes; 0 if it owes none.
        owed_bytes: What has come of its body.
        memory: Of all connections together.
        unread_since: When the client stopped reading; 0 if it reads.
    """

    connections_max: ClassVar[int] = CONNECTIONS_MAX
    memory: ClassVar[Memory]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._turns: deque[Exchange | ColdTurn] = deque()
        self._is_draining = False
        self._is_lingering = False
        self._idle_since = 0.0
        self._length = b""  # of the body that comes, as announced
        self.owes_since = 0.0
        self.owed_bytes = 0
        self.unread_since = 0.0
        self._default_pairs: list[tuple[bytes, bytes]] = []
        self._starts = _Starts(b"")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client is here; one too many is told so at once."""
        super().connection_made(transport)
        self.owes_since = self.loop.time()
        if len(self.connections) > self.connections_max:
            transport.write(_FULL)
            transport.close()

    def answered(self, exchange: Exchange) -> None:
        """A route has answered; the response leaves when its turn has come."""
        self.memory.held_bytes -= exchange.held_bytes
        exchange.held_bytes = 0
        exchange.body = b""  # it may wait for its turn, and needs no more of it
        turns, flow = self._turns, self.flow
        if not turns or turns[0] is not exchange:
            return
        if len(turns) > 1 or flow.write_paused or flow.read_paused:
            self._advance()
            return
        turns.clear()  # the usual: nothing else is under way here
        if self._write(exchange):
            self._rest()

    def hold(self, exchange: Exchange, size_bytes: int) -> bool:
        """Count bytes of a request; returns whether there is room for them."""
        memory = self.memory
        exchange.held_bytes += size_bytes
        memory.held_bytes += size_bytes
        return memory.held_bytes <= memory.bytes_max

    def on_response_complete(self) -> None:
        """The ASGI application has answered the request at the head of the line."""
        self.server_state.total_requests += 1
        if self._turns:
            self._turns.popleft()
        if not self.transport.is_closing():
            self._advance()

    def _all_lines(self) -> list[Line]:
        return self.headers + ([(b"content-length", self._length)] if self._length else [])

    def _begin_cold(self, lines: list[Line]) -> None:
        """A head for the ASGI application has come; what only uvicorn needs is made now."""
        url, expects = self.url, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers += lines
        # With no cycle before it, uvicorn hands the new one to `_start_asgi_task` at once.
        super().on_headers_complete()
        self.headers = []  # trailers must not join the headers that the application looks at

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        turn = ColdTurn(cycle, app)
        self._line_up(turn)
        if self._turns[0] is turn:
            self._start(turn)

    def _start(self, turn: ColdTurn) -> None:
        turn.is_started = True
        if self._is_draining and self._turns[-1] is turn:
            turn.cycle.keep_alive = False
        super()._start_asgi_task(turn.cycle, turn.app)

    def _drop_unfinished(self, turn: ColdTurn) -> None:
        """The rest of its body will not come: its application would wait forever."""
        if turn.cycle.more_body and not turn.cycle.response_started:
            turn.abandon()
            self._turns.pop()

    def _line_up(self, turn: Exchange | ColdTurn) -> None:
        self._turns.append(turn)
        if len(self._turns) >= PIPELINE_MAX:
            self.flow.pause_reading()

    def _advance(self) -> None:
        """Send what can be sent, in order; start the cold request that comes to its turn."""
        turns, flow = self._turns, self.flow
        while turns:
            head = turns[0]
            if isinstance(head, ColdTurn):
                if not head.is_started:
                    self._start(head)
                return
            if not head.status:
                if head.awaits_continue:
                    self._continue(head)
                break
            if flow.write_paused:
                return
            turns.popleft()
            if not self._write(head):
                return
        if flow.read_paused and not flow.write_paused and len(turns) < PIPELINE_MAX:
            flow.resume_reading()
        if not turns:
            self._rest()

    def _continue(self, exchange: Exchange) -> None:
        exchange.awaits_continue = False
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _write(self, exchange: Exchange) -> bool:
        """Send a response; returns whether the connection goes on."""
        transport, state = self.transport, self.server_state
        if transport.is_closing():
            return False
        if self._default_pairs is not state.default_headers:  # their date is another every second
            self._default_pairs = state.default_headers
            self._starts = _Starts(b"".join(b"%b: %b\r\n" % pair for pair in self._default_pairs))
        closes = not exchange.is_kept_alive or (self._is_draining and not self._turns)
        body = exchange.response_body
        head = b"%b%b%bcontent-length: %d\r\n\r\n" % (
            self._starts[exchange.status],
            exchange.response_headers,
            b"connection: close\r\n" if closes else exchange.echo,
            len(body),
        )
        if len(body) <= JOIN_BYTES_MAX:
            transport.write(head + body)
        else:
            transport.write(head)
            transport.write(body)
        state.total_requests += 1
        if closes:
            self._close()
        return not closes

    def _close(self) -> None:
        """Close; after a refusal, only once the client has had time to read it.

        To close on unread bytes resets the connection, and with it the answer in flight.
        """
        if self._is_lingering and self.transport.can_write_eof():
            self.flow.resume_reading()
            self.transport.write_eof()
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                LINGER_SECONDS, self.transport.close
            )
        else:
            self.transport.close()

    def _rest(self) -> None:
        """Nothing to answer: the keep-alive time runs. One timer serves many requests."""
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def timeout_keep_alive_handler(self) -> None:
        """Close if nothing was answered since the timer was set; else set it for what is left."""
        self.timeout_keep_alive_task = None
        if self._turns or self.transport.is_closing():
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > TIMER_SECONDS:
            self.timeout_keep_alive_task = self.loop.call_later(
                left, self.timeout_keep_alive_handler
            )
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client reads too slowly: hold the responses, and take no more requests."""
        super().pause_writing()
        self.unread_since = self.loop.time()
        if not self.transport.is_closing():
            self.flow.pause_reading()

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self.unread_since = 0.0
        if not self.transport.is_closing():
            self._advance()

    def shutdown(self) -> None:
        """The server stops: what is in is answered, the last with `Connection: close`."""
        self._is_draining = True
        if not self._turns:
            self.transport.close()
        elif isinstance(last := self._turns[-1], ColdTurn):
            last.cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone away: whatever is under way for it may stop."""
        turns, self._turns = self._turns, deque()
        for turn in turns:
            if isinstance(turn, Exchange):
                self.memory.held_bytes -= turn.held_bytes
                turn.held_bytes = 0
            try:
                turn.abandon()
            except Exception:
                _logger.exception("a call could not be cancelled")
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
