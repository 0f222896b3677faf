"""What a server and its worker process say to each other, over a socket pair.

Strictly in turns: the server asks, the worker answers. A message is its length, its MessagePack
and perhaps the descriptor of a new segment. Nothing is ever unpickled.
"""

import os
import socket
from typing import Any

import msgspec

from xirang.backends.isolated.segment import Placed
from xirang.core.signature import TensorSpec

LENGTH_BYTES = 4
CHUNK_BYTES = 1 << 16


class Load(msgspec.Struct, tag=True, frozen=True):
    """Load a model.

    Attributes:
        kind: "python", "onnx" or "torch".
        target: Import path of a callable, or path of a file.
        name: Under which it is served.
        threads: Inside one run.
    """

    kind: str
    target: str
    name: str
    threads: int


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """It is loaded; what it declares."""

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Run the model.

    Attributes:
        placed: Inputs in the server's segment.
        size_bytes: Of that segment if it is new (its descriptor comes along), else 0.
        wanted: Names of outputs.
    """

    placed: list[Placed]
    size_bytes: int
    wanted: list[str]


class Told(msgspec.Struct, tag=True, frozen=True):
    """It ran.

    Attributes:
        placed: Outputs in the worker's segment.
        size_bytes: Of that segment if it is new, else 0.
        resident_bytes: Memory that the worker holds.
    """

    placed: list[Placed]
    size_bytes: int
    resident_bytes: int


class Raised(msgspec.Struct, tag=True, frozen=True):
    """It raised.

    Attributes:
        kind: Name of the exception's class.
        text: Its message.
    """

    kind: str
    text: str


Message = Load | Loaded | Ask | Told | Raised

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def send(channel: socket.socket, message: Message, descriptor: int | None = None) -> None:
    """Send a message, perhaps with a descriptor, which is closed on this side.

    Raises:
        OSError: The other side is gone.
    """
    body = _ENCODER.encode(message)
    data = len(body).to_bytes(LENGTH_BYTES, "little") + body
    if descriptor is None:
        channel.sendall(data)
        return
    try:
        sent = socket.send_fds(channel, [data], [descriptor])
    finally:
        os.close(descriptor)
    channel.sendall(data[sent:])


def receive(channel: socket.socket) -> tuple[Message, int | None]:
    """The next message and the descriptor that came with it.

    Raises:
        EOFError: The other side is gone.
        TimeoutError: Nothing came within the socket's timeout.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, CHUNK_BYTES, 1)
    body = bytearray(data)
    while len(body) < LENGTH_BYTES or len(body) < LENGTH_BYTES + _length(body):
        if not data:
            raise EOFError("the other side closed the channel")
        data = channel.recv(CHUNK_BYTES)
        body += data
    message: Any = _DECODER.decode(memoryview(body)[LENGTH_BYTES:])
    return message, descriptors[0] if descriptors else None


def _length(body: bytearray) -> int:
    return int.from_bytes(body[:LENGTH_BYTES], "little")
