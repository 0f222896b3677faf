"""Clients that cost next to nothing, over gRPC and HTTP: bytes made once, answers counted.

Whoever loads a server shares the machine with it, and how fast a client turns an answer into the
next request decides how many come at once. These two do the same, so that what differs is the door.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from hpack import Encoder

from xirang.frontends.grpc.http2.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEAD,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PREFACE,
    SETTINGS,
    frame,
    settings,
    window_update,
)

ROOM = 1 << 30


class HttpClient(asyncio.Protocol):
    """One connection that sends the same request again whenever it is answered."""

    def __init__(self, request: bytes, end_s: float) -> None:
        self._request = request
        self._end_s = end_s
        self._size_bytes = self._came = self.count = 0
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self._size_bytes:
            head, _, body = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            self._size_bytes = len(data)
            assert b"content-length: %d" % len(body) in head.lower(), "all of it, at once"
        self._came += len(data)
        if self._came == self._size_bytes:
            self._came = 0
            self.count += 1
            if perf_counter() < self._end_s:
                self._transport.write(self._request)
            else:
                self.finished.set_result(None)

    def connection_lost(self, exc) -> None:
        if not self.finished.done():
            self.finished.set_exception(exc or ConnectionError("the server closed it"))


class GrpcClient(asyncio.Protocol):
    """One connection that keeps so many calls, or requests of one call, in flight."""

    def __init__(self, path: str, message: bytes, width: int, end_s: float) -> None:
        self._fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "benchmark"),
            ("grpc-accept-encoding", "identity, deflate, gzip"),
        ]
        self._encoder = Encoder()
        self._body = b"\0" + len(message).to_bytes(4) + message
        self._is_stream = path.endswith("StreamInfer")
        self._width = width
        self._end_s = end_s
        self._stream_id = -1
        self._buffer = b""
        self._in_flight = self._came = 0
        self.count = 0
        self.finished = asyncio.get_running_loop().create_future()

    def connection_made(self, transport) -> None:
        self._transport = transport
        start = PREFACE + settings({INITIAL_WINDOW_SIZE: ROOM}) + window_update(0, ROOM)
        transport.write(start)
        self._ask(self._width)

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        at, done = 0, 0
        while len(data) - at >= HEAD.size:
            high, low, kind, flags, _ = HEAD.unpack_from(data, at)
            stop = at + HEAD.size + (high << 16 | low)
            if stop > len(data):
                break
            if kind == SETTINGS and not flags & ACK:
                self._transport.write(frame(SETTINGS, ACK, 0))
            elif kind == DATA:
                self._came += stop - at
                done += self._is_stream
            elif kind == HEADERS and flags & END_STREAM:
                done += not self._is_stream
            at = stop
        self._buffer = data[at:]
        self.count += done
        self._in_flight -= done
        if perf_counter() < self._end_s:
            self._ask(done)
        elif not self._in_flight and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, exc) -> None:
        if not self.finished.done():
            self.finished.set_exception(exc or ConnectionError("the server closed it"))

    def _ask(self, count: int) -> None:
        out = []
        if self._came > ROOM // 2:
            out.append(window_update(0, self._came))
            self._came = 0
        for _ in range(count):
            if not self._is_stream or self._stream_id < 0:
                self._stream_id += 2
                block = self._encoder.encode(self._fields)
                out.append(frame(HEADERS, END_HEADERS, self._stream_id, block))
            ends = 0 if self._is_stream else END_STREAM
            out.append(frame(DATA, ends, self._stream_id, self._body))
        self._in_flight += count
        self._transport.write(b"".join(out))


async def load_http(place: str, request: bytes, width: int, seconds: float) -> tuple[int, float]:
    """How many answers came, and in how many seconds.

    Args:
        place: Host and port.
        request: All of it.
        width: How many connections, each with one request in flight.
        seconds: For how long to ask.
    """
    end_s = perf_counter() + seconds
    return await _load(place, lambda: HttpClient(request, end_s), width)


async def load_grpc(
    place: str, path: str, message: bytes, width: tuple[int, int], seconds: float
) -> tuple[int, float]:
    """The same over gRPC.

    Args:
        place: Host and port.
        path: Of the procedure.
        message: Of each request.
        width: How many connections, and how many requests in flight on each.
        seconds: For how long to ask.
    """
    end_s = perf_counter() + seconds
    return await _load(place, lambda: GrpcClient(path, message, width[1], end_s), width[0])


async def _load(place: str, make: Callable[[], Any], count: int) -> tuple[int, float]:
    host, port = place.split(":")
    loop, start_s = asyncio.get_running_loop(), perf_counter()
    pairs = [await loop.create_connection(make, host, int(port)) for _ in range(count)]
    for _, client in pairs:
        await client.finished
    took_s = perf_counter() - start_s
    for transport, _ in pairs:
        transport.abort()
    return sum(client.count for _, client in pairs), took_s
