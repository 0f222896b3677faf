"""Yardsticks: servers that answer every request with the same bytes, and do nothing else.

`python -m benchmarks.noop_server floor` is an asyncio.Protocol with httptools on uvloop: what the
sockets, the parser and the loop cost on this machine. `… asgi` is uvicorn with a bare ASGI
callable that reads the body: what most Python servers start from.
"""

import asyncio
import socket
import sys

import httptools
import uvicorn
import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


class Floor(asyncio.Protocol):
    def connection_made(self, transport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.transport.write(ANSWER)


async def bare(_scope, receive, send) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


async def main(kind: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    print(f"xirang serves nothing on http://{host}:{port}", flush=True)
    if kind == "floor":
        server = await asyncio.get_running_loop().create_server(Floor, sock=listener)
        await server.serve_forever()
    config = uvicorn.Config(bare, log_config=None, access_log=False, lifespan="off", ws="none")
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
