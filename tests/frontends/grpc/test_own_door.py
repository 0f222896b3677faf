"""Our gRPC door over real sockets, asked by a client of bare frames: who is let go, and when."""

import asyncio
import gc
import ssl

import pytest
import uvloop
from tests.frontends.grpc.calls import wish
from tests.frontends.grpc.http2.wire import HELLO, body_in, data, farewell_in, frames_of, headers
from tests.frontends.grpc.test_calls import head, prefixed
from tests.frontends.grpc.test_doors import until
from tests.frontends.puppets import PuppetService
from tests.frontends.test_doors import certificate

from xirang.frontends.grpc import door as door_module
from xirang.frontends.grpc.door import Connection, OwnDoor
from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.connection import ServerConnection
from xirang.frontends.grpc.http2.frames import ACK, END_STREAM, HEAD, ErrorCode, frame
from xirang.frontends.grpc.http2.sending import Stream
from xirang.frontends.grpc.lone import Lone
from xirang.frontends.grpc.servicer import STREAM_PATH, Servicer
from xirang.frontends.grpc.settings import GrpcSettings
from xirang.frontends.grpc.talk import Talk

DEADLINE_S = 30
WIDE = frames.settings({frames.INITIAL_WINDOW_SIZE: 1 << 30}) + frames.window_update(0, 1 << 30)


@pytest.fixture(autouse=True)
def _seconds_are_short(monkeypatch):
    monkeypatch.setattr(door_module, "TICK_S", 0.01)


def run(main):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, DEADLINE_S))


class House:
    """A door that is open, and its clients' connections."""

    def __init__(self, **options):
        self.service = PuppetService(is_prompt=options.pop("is_prompt", True))
        self.servicer = Servicer(self.service)
        settings = {"host": "127.0.0.1", "port": 0, "message_bytes_max": 64 << 20}
        self.door = OwnDoor(self.servicer, GrpcSettings(**settings | options))
        self.serving = asyncio.ensure_future(self.door.serve())
        self.clients = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for client in self.clients:
            client.writer.transport.abort()
        self.door.shut(0)
        await self.serving
        assert not self.door._connections
        assert self.servicer.memory.held_bytes == 0

    async def client(self, sent=b"", **options):
        client = Client(*await asyncio.open_connection("127.0.0.1", self.door.port, **options))
        client.writer.write(sent)
        self.clients.append(client)
        return client


class Client:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def until(self, kind, flags=0):
        """All frames up to one of that kind with those flags."""
        received = b""
        while True:
            start = await self.reader.readexactly(HEAD.size)
            high, low, found, had, _ = HEAD.unpack(start)
            received += start + await self.reader.readexactly(high << 16 | low)
            if found == kind and had & flags == flags:
                return received

    async def to_the_end(self):
        """All bytes until the server hangs up; a reset is one way to."""
        received = b""
        try:
            while piece := await self.reader.read(65_536):
                received += piece
        except ConnectionError:
            pass
        return received


def call(stream_id, message=None):
    message = wish("a") if message is None else message
    return headers(stream_id, head()) + data(stream_id, prefixed(message), END_STREAM)


async def answered(client, stream_id):
    """Whether one more call is answered."""
    client.writer.write(call(stream_id))
    received = await client.until(frames.HEADERS, END_STREAM)
    return body_in(received, stream_id) != b""


def test_calls_of_one_turn_are_answered_in_one_write():
    async def main():
        async with House() as house:
            client = await house.client(HELLO)
            await client.until(frames.SETTINGS, ACK)
            client.writer.write(b"".join(call(number) for number in range(1, 100, 2)))
            received = await client.reader.read(1 << 20)
            ends = [f for f in frames_of(received) if f[0] == frames.HEADERS and f[1] & END_STREAM]
            assert len(ends) == 50

    run(main())


def test_who_breaks_the_rules_is_told_and_let_go():
    async def main():
        async with House() as house:
            for sent, code in (
                (b"GET / HTTP/1.1\r\n\r\n", ErrorCode.PROTOCOL_ERROR),
                (HELLO + data(0), ErrorCode.PROTOCOL_ERROR),
                (HELLO + frame(frames.PING, 0, 0) + bytes(100_000), ErrorCode.FRAME_SIZE_ERROR),
                (HELLO + headers(1, b"\xff"), ErrorCode.COMPRESSION_ERROR),
            ):
                client = await house.client(sent)
                assert farewell_in(await client.to_the_end()) is code
            assert await answered(await house.client(HELLO), 1)

    run(main())


def test_one_too_many_is_told_so():
    async def main():
        async with House(connections_max=2) as house:
            good = [await house.client(HELLO) for _ in range(2)]
            assert await answered(good[0], 1)
            assert await answered(good[1], 1)
            late = await house.client(HELLO)
            assert farewell_in(await late.to_the_end()) is ErrorCode.ENHANCE_YOUR_CALM
            good[0].writer.close()
            await until(lambda: len(house.door._connections) == 1)
            assert await answered(await house.client(HELLO), 1)

    run(main())


@pytest.mark.parametrize(
    "sent", [b"", HELLO[:10], HELLO + b"\0\0", HELLO + headers(1, head(), 0)],
    ids=["nothing", "half a preface", "half a frame", "half a block"],
)  # fmt: skip
def test_who_begins_and_does_not_go_on_is_let_go(sent):
    async def main():
        async with House(client_timeout_s=3) as house:
            client = await house.client(sent)
            assert farewell_in(await client.to_the_end()) is ErrorCode.ENHANCE_YOUR_CALM

    run(main())


def test_a_client_that_says_nothing_is_asked_and_then_given_up(monkeypatch):
    monkeypatch.setattr(door_module, "PING_AFTER_S", 3)
    monkeypatch.setattr(door_module, "PING_PATIENCE_S", 3)

    async def main():
        async with House(is_prompt=False) as house:
            client = await house.client(HELLO + call(1))
            for _ in range(3):
                await client.until(frames.PING)
                client.writer.write(frame(frames.PING, ACK, 0, bytes(8)))
            assert not house.service.tickets[0].is_cancelled
            await client.to_the_end()
            assert house.service.tickets[0].is_cancelled

    run(main())


def test_a_client_that_does_not_read_is_dropped_with_all_it_asked():
    async def main():
        async with House(client_timeout_s=3) as house:
            big = wish("a", raw=bytes(16 << 20))
            big.inputs[0].shape[:] = [1, 4 << 20]
            client = await house.client(HELLO + WIDE)
            body = prefixed(big)
            client.writer.write(headers(1, head()))
            await client.until(frames.SETTINGS, ACK)
            client.writer.write(data(1, body[:16_000]))
            await client.until(frames.WINDOW_UPDATE)
            client.reader._transport.pause_reading()
            at = 16_000
            while at < len(body):
                client.writer.write(data(1, body[at : at + 16_000], at + 16_000 >= len(body)))
                at += 16_000
            await client.writer.drain()
            await until(lambda: house.service.tickets)
            await until(lambda: not house.door._connections)

    run(main())


def test_an_answer_longer_than_all_windows_arrives_whole():
    async def main():
        async with House() as house:
            big = wish("a", raw=bytes(3 << 20))
            big.inputs[0].shape[:] = [1, 3 << 18]
            client = await house.client(HELLO + headers(1, head()))
            body, at, came, read = prefixed(big), 0, 0, b""
            while at < len(body):
                client.writer.write(data(1, body[at : at + 16_000], at + 16_000 >= len(body)))
                at += 16_000
            while not read.endswith(b"grpc-status\x010"):
                piece = await client.reader.read(1 << 16)
                read += piece
                came += len(piece)
                if came > 20_000:
                    update = frames.window_update(0, came) + frames.window_update(1, came)
                    client.writer.write(update)
                    came = 0
            assert len(body_in(read, 1)) > 3 << 20

    run(main())


def test_encryption_offers_http2(tmp_path):
    chain, key = certificate(tmp_path)

    async def main():
        trusted = ssl.create_default_context(cafile=chain)
        trusted.set_alpn_protocols(["http/1.1", "h2"])
        async with House(certificate=(str(chain), str(key))) as house:
            client = await house.client(HELLO, ssl=trusted)
            spoken = client.writer.get_extra_info("ssl_object").selected_alpn_protocol()
            assert spoken == "h2"
            assert await answered(client, 1)
            bad = await house.client(b"GET / HTTP/1.1\r\n\r\n", ssl=trusted)
            assert farewell_in(await bad.to_the_end()) is ErrorCode.PROTOCOL_ERROR

    run(main())


def test_shutting_finishes_what_is_in_and_begins_nothing():
    async def main():
        async with House(is_prompt=False) as house:
            client, idle = await house.client(HELLO + call(1)), await house.client(HELLO)
            await until(lambda: house.service.calls)
            await idle.until(frames.SETTINGS, ACK)
            house.door.shut(DEADLINE_S)
            assert farewell_in(await idle.to_the_end()) is ErrorCode.NO_ERROR
            await client.until(frames.GOAWAY)
            client.writer.write(call(3))
            house.service.answer()
            rest = await client.to_the_end()
            assert {stream for _, _, stream, _ in frames_of(rest)} == {1}
            await house.serving

    run(main())


def test_who_is_not_done_in_time_is_cut_off():
    async def main():
        async with House(is_prompt=False) as house:
            client = await house.client(HELLO + call(1))
            await until(lambda: house.service.calls)
            house.door.shut(0.01)
            await house.serving
            assert house.service.tickets[0].is_cancelled
            await client.to_the_end()

    run(main())


def alive():
    """What there is of connections and calls."""
    gc.collect()
    kinds = (Connection, ServerConnection, Lone, Talk, Stream)
    return [each for each in gc.get_objects() if isinstance(each, kinds)]


def test_nothing_is_left_of_clients_that_went_away_in_the_middle():
    middles = [
        HELLO[:9],
        HELLO + headers(1, head(), 0),
        HELLO + headers(1, head()) + data(1, b"\0\0\x0f\0\0" + bytes(16_000)),
        HELLO + call(1) + headers(3, head(STREAM_PATH)) + data(3, prefixed(wish("b"))[:-2]),
        HELLO + call(1) + data(0),
    ]

    async def main():
        async with House(is_prompt=False) as house:
            before = len(alive())
            for number in range(100):
                client = await house.client(middles[number % len(middles)])
                await client.until(frames.SETTINGS)
                client.writer.transport.abort()
            await until(lambda: not house.door._connections)
            assert all(ticket.is_cancelled for ticket in house.service.tickets)
            assert house.servicer.memory.held_bytes == 0
            house.service.calls.clear()
            house.service.tickets.clear()
            assert len(alive()) <= before

    run(main())
