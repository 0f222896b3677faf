"""The client against a scripted server on loopback: keep-alive, closing, garbage, silence."""

import asyncio
import contextlib

import pytest

from xirang.errors import InvalidSetting
from xirang.lab.load.client import Connection, Fault, Target, fetch

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Wire(asyncio.Protocol):
    """One accepted connection: gives each whole request the next scripted answer."""

    def __init__(self, server):
        self.server = server
        server.accepted += 1

    def connection_made(self, transport):
        self.transport = transport
        self.server.transports.append(transport)

    def data_received(self, data):
        self.server.requests.append(data)
        self.server.reached.set()
        answer = self.server.answers.pop(0) if self.server.answers else OK
        for piece in [answer] if isinstance(answer, bytes) else answer:
            if piece is None:
                self.transport.close()
            else:
                self.transport.write(piece)


class ScriptedServer:
    """Answers with a list of answers: bytes, or a list of bytes and None for hanging up."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.transports = []
        self.accepted = 0
        self.reached = asyncio.Event()

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Wire(self), "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.target = Target("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *failure):
        self.server.close()
        for transport in self.transports:
            transport.abort()
        await self.server.wait_closed()


class Notes:
    """A listener that keeps outcomes and can be waited for."""

    def __init__(self):
        self.outcomes = asyncio.Queue()

    def on_answer(self, connection, status, body):
        self.outcomes.put_nowait((status, bytes(body)))

    def on_fault(self, connection, fault):
        self.outcomes.put_nowait(fault)


async def outcomes_of(server, count, target=None):
    """Send so many requests, one after the other, on one connection."""
    notes = Notes()
    connection = Connection(target or server.target, notes)
    seen = []
    for _ in range(count):
        connection.send(connection.target.post(b"{}"))
        seen.append(await asyncio.wait_for(notes.outcomes.get(), 10))
    connection.close()
    return seen


def run(server, count=1):
    async def main():
        async with server:
            return await outcomes_of(server, count)

    return asyncio.run(main())


def test_one_connection_carries_many_requests():
    server = ScriptedServer()
    assert run(server, 3) == [(200, b"hi")] * 3
    assert server.accepted == 1
    assert server.requests[0] == (
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 2\r\n\r\n{}" % server.port
    )


def test_an_answer_in_pieces_chunks_or_after_an_interim_one_is_whole():
    server = ScriptedServer(
        [b"HTTP/1.1 20", b"0 OK\r\nContent-Le", b"ngth: 4\r\n\r\nab", b"cd"],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 No\r\nContent-Length: 1\r\n\r\nx",
    )
    assert run(server, 3) == [(200, b"abcd"), (200, b"abc"), (429, b"x")]
    assert server.accepted == 1


def test_a_server_that_closes_after_an_answer_is_opened_again():
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nby"
    server = ScriptedServer([closing, None], closing, OK)
    assert run(server, 3) == [(200, b"by"), (200, b"by"), (200, b"hi")]
    assert server.accepted == 3


def test_an_answer_without_a_length_ends_with_its_connection():
    server = ScriptedServer([b"HTTP/1.1 200 OK\r\n\r\nall of", b" it", None])
    assert run(server, 2) == [(200, b"all of it"), (200, b"hi")]


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"SSH-2.0-OpenSSH_9.9\r\n", Fault.GARBLED),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Fault.GARBLED),
        (OK + OK, Fault.GARBLED),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", Fault.GARBLED),
        ([None], Fault.RESET),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None], Fault.RESET),
    ],
)
def test_a_broken_answer_is_a_fault_and_the_next_request_works(answer, fault):
    assert run(ScriptedServer(answer), 2) == [fault, (200, b"hi")]


def test_a_silent_server_is_given_up_and_its_late_answer_is_not_mistaken():
    async def main():
        async with ScriptedServer(b"", OK) as server:
            notes = Notes()
            connection = Connection(server.target, notes)
            connection.send(server.target.post(b"{}"))
            await asyncio.wait_for(server.reached.wait(), 10)
            connection.expire()
            assert notes.outcomes.get_nowait() is Fault.TIMEOUT
            with contextlib.suppress(OSError):
                server.transports[0].write(b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")
            connection.send(server.target.post(b"{}"))
            assert await asyncio.wait_for(notes.outcomes.get(), 10) == (200, b"hi")
            connection.close()

    asyncio.run(main())


def test_nobody_listening_is_refused():
    async def main():
        async with ScriptedServer() as server:
            target = server.target
        return await outcomes_of(server, 2, target)

    assert asyncio.run(main()) == [Fault.REFUSED, Fault.REFUSED]


def test_fetch_gives_one_answer_or_an_error():
    async def main():
        async with ScriptedServer(OK, [None]) as server:
            assert await fetch(server.target, server.target.get()) == (200, b"hi")
            with pytest.raises(OSError, match="reset"):
                await fetch(server.target, server.target.get())
            server.answers = [b""]
            with pytest.raises(OSError, match="no answer within"):
                await fetch(server.target, server.target.get(), timeout_s=0.05)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:8000", Target("127.0.0.1", 8000)),
        ("localhost:8000/", Target("localhost", 8000)),
        ("http://[::1]:81/proxy/", Target("::1", 81, "/proxy")),
        ("http://example", Target("example", 80)),
    ],
)
def test_urls_are_read(url, target):
    assert Target.parse(url) == target


@pytest.mark.parametrize(
    "url", ["https://host", "ftp://host", "http://", "http://host:port", "http://a b", "http://hé"]
)
def test_other_urls_are_refused(url):
    with pytest.raises(InvalidSetting, match="http"):
        Target.parse(url)


def test_a_route_is_added_once_and_headers_are_kept():
    server = Target.parse("http://[::1]:81/proxy/v1/embeddings")
    target = server.at("/v1/embeddings", (("A", "b"),)).with_headers(("C", "d"))
    assert target.get() == (
        b"GET /proxy/v1/embeddings HTTP/1.1\r\nHost: [::1]:81\r\nA: b\r\nC: d\r\n\r\n"
    )
    assert server.at("/metrics").prefix == "/proxy/v1/embeddings"
    assert target.at("/metrics").prefix == "/proxy"
