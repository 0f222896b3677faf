"""What a server and its worker process say to each other, over a socket pair.

Strictly in turns: the server asks, the worker answers. A message is its length, its MessagePack
and perhaps the descriptor of a new segment. Nothing is ever unpickled.
"""

import errno
import os
import socket
from typing import Any

import msgspec

from xirang.backends.isolated.segment import Placed
from xirang.core.signature import TensorSpec

LENGTH_BYTES = 4
HEAD_BYTES = 1 << 12
"""Room for most messages; what is longer comes in chunks."""

CHUNK_BYTES = 1 << 16


class Load(msgspec.Struct, tag=True, frozen=True):
    """Load a model.

    Attributes:
        kind: "python", "onnx", "torch" or "torch module".
        target: Import path of a callable or a module, or path of a file.
        name: Under which it is served.
        threads: Inside one run.
        device: Where PyTorch runs.
    """

    kind: str
    target: str
    name: str
    threads: int = 1
    device: str = "auto"


class Loaded(msgspec.Struct, tag=True, frozen=True):
    """It is loaded; what it declares.

    Attributes:
        platform: As of `Executable`, and so are the inputs and outputs.
        device: Where it runs.
        bounds: Least and greatest sizes of symbols in its shapes, where it has some.
        takes_lists: Whether it can be asked with lists.
        is_packed: Whether it takes sequences end to end.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    device: str
    bounds: dict[str, tuple[int, int | None]]
    takes_lists: bool
    is_packed: bool


class Ask(msgspec.Struct, tag=True, frozen=True):
    """Run the model.

    Attributes:
        placed: Inputs in the server's segment; in a list each name once a row.
        size_bytes: Of that segment if it is new (its descriptor comes along), else 0.
        wanted: Names of outputs.
        is_list: Whether the rows need not be of one shape.
    """

    placed: list[Placed]
    size_bytes: int
    wanted: list[str]
    is_list: bool


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
        trace: Where it came from, for the log.
    """

    kind: str
    text: str
    trace: str


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
        OSError: Its descriptor did not come through: this process has too many.
        msgspec.MsgspecError: It is no message.
    """
    data, descriptors, flags, _ = socket.recv_fds(channel, HEAD_BYTES, 1)
    if flags & socket.MSG_CTRUNC:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
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
