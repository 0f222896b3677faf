"""One hot request and its response, as a route sees them: the seam between HTTP and meaning."""

from collections.abc import Callable
from typing import ClassVar, Protocol

import msgspec

from xirang.engine.call import Reply
from xirang.frontends.headers import Headers


class Wire(Protocol):
    """Where answered exchanges go."""

    def answered(self, exchange: "Exchange") -> None:
        """Send its response when its turn has come."""

    def hold(self, exchange: "Exchange", size_bytes: int) -> bool:
        """Count bytes until it is answered; returns whether there is room for them."""


class Exchange(msgspec.Struct, eq=False):
    """A POST on a hot URL. It is answered exactly once, now or later, by `respond`.

    Attributes:
        wire: Where it goes when it is answered; None for nowhere.
        url: As it stood in the request line.
        headers: Without the body's length.
        body: All of it, content coding removed.
        on_disconnect: Called when the client goes away before the answer.
        status: Of the response; 0 before `respond`.
        response_headers: Lines that each end in CR LF; length and connection are not among them.
        response_body: Bytes.
        is_kept_alive: Whether the connection outlives the response.
        echo: A header line that the connection adds, for HTTP/1.0 clients that asked to keep it.
        awaits_continue: The client holds the body back until it is told to continue.
        begun_ns: When its head was there, on the engine's clock: its budget runs from then.
        held_bytes: What it takes of the memory for requests; given back with the answer.
        is_followed: Whether a witness sees what becomes of it: see `following.py`.
    """

    is_followed: ClassVar[bool] = False

    wire: Wire | None
    url: bytes
    headers: Headers
    body: bytes = b""
    on_disconnect: Callable[[], object] | None = None
    status: int = 0
    response_headers: bytes = b""
    response_body: bytes = b""
    is_kept_alive: bool = True
    echo: bytes = b""
    awaits_continue: bool = False
    begun_ns: int = 0
    held_bytes: int = 0

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """Answer. Does nothing when the client has gone away."""
        assert not self.status, "an exchange is answered once"
        self.status = status
        self.response_headers = headers
        self.response_body = body
        if self.wire is not None:
            self.wire.answered(self)

    def follow(self, reply: Reply, model: str, identity: str = "") -> Reply:
        """What takes a call's answer; of a followed exchange the witness sees it first."""
        return reply

    def abandon(self) -> None:
        """The client has gone away: whatever was begun for it may stop."""
        self.wire = None
        if self.on_disconnect is not None and not self.status:
            self.on_disconnect()


def degraded(lacks: str) -> bytes:
    """The header line of an answer that is less than usual, under overload."""
    return b"x-xirang-degraded: %b\r\n" % lacks.encode()


Route = Callable[[Exchange], None]
MakeExchange = Callable[[Wire | None, bytes, Headers], Exchange]


def welcome_of(route: object) -> Route:
    """How a route looks at a head before its body has come, if it does; it raises what is wrong."""
    own: Route = getattr(route, "welcome", _everybody)
    return own


def _everybody(_exchange: Exchange) -> None:
    """Its body decides."""


Match = Callable[[bytes], Route | None]
"""From a URL, query and all, to the route that answers a POST on it."""
