"""The gRPC door over grpcio's asyncio server: the one file that knows grpcio.

What a call costs here is grpcio's (see `benchmarks/grpc_door.py`). The servicer does not depend on
it, so that another transport can take this file's place.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from zlib import crc32

import grpc
import grpc.aio

from xirang.errors import InvalidSetting, XirangError
from xirang.frontends.grpc.servicer import HEALTH_PATH, INFER_PATH, Envelope, Servicer, Unary
from xirang.frontends.grpc.settings import GrpcSettings
from xirang.frontends.grpc.status import Status, status_of
from xirang.frontends.grpc.stream import BeginStream, Stream, streams_of
from xirang.frontends.grpc.watching import health_changes

UNANSWERED_MAX = 1024
"""Requests of one stream that are in, or answered and not yet sent; the client waits beyond it.
The same bound holds for the calls of one connection."""

KEEPALIVE = (
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
)
"""A client that vanished is noticed within minutes, which frees what waits for it; clients that ask
every ten seconds whether we are there are not taken for a nuisance, as they are by default."""

ANSWERED = b""
"""Behind the last response to a request of a stream; a response is longer."""

LEVELS = {"low": 1, "medium": 2, "high": 3}
"""Of compression, as gRPC counts them."""

CODES = {code.value[0]: code for code in grpc.StatusCode}
PUSHBACK = "grpc-retry-pushback-ms"
"""Trailing metadata by which gRPC's own retries are told when to come back."""


class GrpcioDoor:
    """A gRPC server on the running event loop.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, servicer: Servicer, settings: GrpcSettings) -> None:
        """Take the port; `serve` begins to answer.

        Args:
            servicer: Answers.
            settings: Of the door. How many connections there are, and how slow, is not bounded.

        Raises:
            InvalidSetting: The port cannot be had.
        """
        self._servicer = servicer
        self._readers: set[asyncio.Future[None]] = set()
        self._shutting: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),  # two servers on a port would share its calls unnoticed
                ("grpc.max_receive_message_length", settings.message_bytes_max),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", UNANSWERED_MAX),
                *KEEPALIVE,
                *_packing(settings.compression),
            ]
        )
        self._server.add_generic_rpc_handlers((_ByPath(self._handlers()),))
        address = settings.address
        try:
            if settings.certificate is None:
                self.port = self._server.add_insecure_port(address)
            else:
                chain, key = (Path(file).read_bytes() for file in settings.certificate)
                credentials = grpc.ssl_server_credentials([(key, chain)])
                self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise InvalidSetting(f"cannot listen on {address} for gRPC: {error}") from error

    async def serve(self) -> None:
        """Answer until `shut` is called and all calls have ended."""
        await self._server.start()
        grace_s = await self._shutting
        for reader in self._readers:
            reader.cancel()  # its stream ends as soon as all that came is answered
        await self._server.stop(grace_s)

    def shut(self, grace_s: float) -> None:
        """Take no more calls, and let those that are in end.

        Args:
            grace_s: How long they may take.
        """
        if not self._shutting.done():
            self._shutting.set_result(grace_s)

    def _handlers(self) -> dict[str, Any]:
        """By path."""
        handlers: dict[str, Any] = {
            path: grpc.unary_unary_rpc_method_handler(partial(_answer, answer))
            for path, answer in self._servicer.unary.items()
        }
        handlers[INFER_PATH] = grpc.unary_unary_rpc_method_handler(self._infer)
        handlers[f"{HEALTH_PATH}Watch"] = grpc.unary_stream_rpc_method_handler(self._watch)
        for path, begin in streams_of(self._servicer).items():
            handlers[path] = grpc.stream_stream_rpc_method_handler(partial(self._stream, begin))
        return handlers

    async def _infer(self, message: bytes, context: Any) -> bytes:
        future: asyncio.Future[bytes | Status] = asyncio.get_running_loop().create_future()

        def reply(result: bytes | Status) -> None:
            if not future.done():
                future.set_result(result)

        ticket = self._servicer.infer(message, _envelope(context), reply)
        try:
            result = await future
        except asyncio.CancelledError:
            if ticket is not None:
                ticket.cancel()
            raise
        return await _abort(context, result) if isinstance(result, Status) else result

    async def _watch(self, message: bytes, context: Any) -> None:
        try:
            seen = health_changes(self._servicer, message, _envelope(context), self._shutting)
            async for now in seen:
                await context.write(now)
        except XirangError as error:
            await _abort(context, status_of(error))

    async def _stream(self, begin: BeginStream, _: Any, context: Any) -> None:
        outbox: asyncio.Queue[bytes | Status | None] = asyncio.Queue()
        answered, finished = partial(outbox.put_nowait, ANSWERED), partial(outbox.put_nowait, None)
        stream = begin(outbox.put_nowait, answered, finished)
        room = asyncio.Semaphore(UNANSWERED_MAX)
        reader = asyncio.ensure_future(_read(stream, context, room, outbox.put_nowait))
        self._readers.add(reader)
        try:
            while (message := await outbox.get()) is not None:
                if message is ANSWERED:
                    room.release()
                elif isinstance(message, Status):
                    await _abort(context, message)
                else:
                    await context.write(message)
        finally:
            self._readers.discard(reader)
            reader.cancel()
            stream.abandon()


def _packing(compression: str) -> tuple[tuple[str, int], ...]:
    if compression == "none":
        return ()
    return (("grpc.default_compression_level", LEVELS[compression]),)


class _ByPath(grpc.GenericRpcHandler):
    """Finds the procedure of a call; what is not found grpcio answers as unimplemented."""

    def __init__(self, handlers: dict[str, Any]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a path, or None."""
        return self._handlers.get(handler_call_details.method)


async def _answer(answer: Unary, message: bytes, context: Any) -> bytes:
    try:
        return await answer(message, _envelope(context))
    except Exception as error:
        status = status_of(error)
    return await _abort(context, status)


async def _read(
    stream: Stream, context: Any, room: asyncio.Semaphore, fail: Callable[[Status], None]
) -> None:
    """Hand a stream its messages until there are no more, or it is told to stop."""
    try:
        while True:
            await room.acquire()
            message = await context.read()
            if message is grpc.aio.EOF:
                return
            stream.receive(message, _envelope(context))
    except Exception as error:
        fail(status_of(error))
    finally:
        stream.end()


def _envelope(context: Any) -> Envelope:
    headers = {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in context.invocation_metadata() or ()
    }
    left_s = context.time_remaining()
    left_ns = None if left_s is None else int(left_s * 1e9)
    return Envelope(headers, crc32(context.peer().encode()), left_ns)


async def _abort(context: Any, status: Status) -> NoReturn:
    pushback = () if status.pushback_ms is None else ((PUSHBACK, str(status.pushback_ms)),)
    await context.abort(CODES[status.code], status.text, pushback)
    raise AssertionError("abort raises")
