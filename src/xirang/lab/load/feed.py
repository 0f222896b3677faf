"""Decides which connection sends next, and when: one feed for closed, one for open loops."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from xirang.lab.load.client import Connection
from xirang.lab.load.timer import Timer

RETRY_PAUSE_S = 0.01
"""A client that got no answer waits this long; else it would only measure its own loop."""


class Sender(Protocol):
    """What a feed asks of the point that it feeds."""

    def now_ns(self) -> int:
        """Time since the start of the point."""

    def connect(self) -> Connection:
        """One more connection, still silent."""

    def send(self, connection: Connection, due_ns: int) -> None:
        """Send the next body, which was due then."""


@dataclass(slots=True, eq=False)
class ClosedFeed:
    """So many clients, each of which waits for its answer before it sends again.

    Attributes:
        clients: Connections that are kept busy.
        warmup_ns: Requests from then on count against `request_count`.
        end_ns: No request leaves from then on.
        request_count: Requests to be sent after the warm-up, at most.
        exhausted: Nothing more will be sent.
        waiting: Always empty: a closed loop has no backlog.
        resting: Clients in the pause after a fault.
    """

    sender: Sender
    clients: int
    warmup_ns: int
    end_ns: int
    request_count: int | None
    exhausted: bool = False
    waiting: deque[int] = field(default_factory=deque)
    resting: int = 0
    _counted: int = 0
    _closed: bool = False

    def start(self) -> None:
        """Let every client send its first request."""
        for _ in range(self.clients):
            self.free(self.sender.connect())

    def free(self, connection: Connection) -> None:
        """The client has its answer: let it send again, unless the end has come."""
        now_ns = self.sender.now_ns()
        if now_ns >= self.warmup_ns:
            if now_ns >= self.end_ns or self._counted == self.request_count:
                self.exhausted = True
                return
            self._counted += 1
        self.sender.send(connection, now_ns)

    def broken(self, connection: Connection) -> None:
        """The client got no answer: let it try again after a pause."""
        self.resting += 1
        asyncio.get_running_loop().call_later(RETRY_PAUSE_S, self._rested, connection)

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True

    def _rested(self, connection: Connection) -> None:
        self.resting -= 1
        if not self._closed:
            self.free(connection)


@dataclass(slots=True, eq=False)
class OpenFeed:
    """Requests leave at their instants on whatever connection is free.

    Attributes:
        due_ns: Every intended instant, in order.
        connections: Most connections; beyond it requests wait.
        exhausted: Nothing more will become due.
        waiting: Instants of requests that are due and have no connection yet.
        waiting_max: The longest that queue was.
        resting: Always 0: an open loop does not pause after a fault.
    """

    sender: Sender
    due_ns: list[int]
    connections: int
    exhausted: bool = False
    waiting: deque[int] = field(default_factory=deque)
    waiting_max: int = 0
    resting: int = 0
    _opened: int = 0
    _next: int = 0
    _idle: deque[Connection] = field(default_factory=deque)
    _timer: Timer | None = None

    def start(self) -> None:
        """Begin to send what becomes due."""
        self._timer = Timer(self._pace)
        self._pace()

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.close()

    def free(self, connection: Connection) -> None:
        """A connection has its answer: the request that waits longest takes it."""
        if self.waiting:
            self.sender.send(connection, self.waiting.popleft())
        else:
            # Taken again from the other end: the longest idle one first, as many users would.
            self._idle.append(connection)

    def broken(self, connection: Connection) -> None:
        """A connection without an answer opens itself anew for the next request."""
        self.free(connection)

    def _pace(self) -> None:
        now_ns = self.sender.now_ns()
        while self._next < len(self.due_ns) and self.due_ns[self._next] <= now_ns:
            self._dispatch(self.due_ns[self._next])
            self._next += 1
        if self._next == len(self.due_ns):
            self.exhausted = True
            return
        assert self._timer is not None
        self._timer.arm(self.due_ns[self._next] - now_ns)

    def _dispatch(self, due_ns: int) -> None:
        if self._idle:
            self.sender.send(self._idle.popleft(), due_ns)
        elif self._opened < self.connections:
            self._opened += 1
            self.sender.send(self.sender.connect(), due_ns)
        else:
            self.waiting.append(due_ns)
            self.waiting_max = max(self.waiting_max, len(self.waiting))


Feed = ClosedFeed | OpenFeed
