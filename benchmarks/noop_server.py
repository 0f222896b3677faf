"""The floor: a server that answers every request with the same bytes, and does nothing else.

An asyncio.Protocol with httptools on uvloop, a few lines; what it costs is what the sockets, the
parser and the loop cost on this machine. Run as `python -m benchmarks.noop_server`.
"""

import asyncio

import httptools
import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Floor(asyncio.Protocol):
    def connection_made(self, transport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.transport.write(ANSWER)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Floor, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"xirang serves nothing on http://{host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
