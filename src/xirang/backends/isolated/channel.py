"""One end of the socket pair between a server and its worker process.

A message is its length, its MessagePack and perhaps the descriptor of a new segment. Nothing is
ever unpickled.
"""

import errno
import os
import socket
import struct
import sys
import threading
from collections import deque

import msgspec

from xirang.backends.isolated.messages import Message

LENGTH_BYTES = 4
CHUNK_BYTES = 1 << 14
"""Room for most messages; what is longer comes in chunks."""

_CONTROL_BYTES = socket.CMSG_SPACE(4)
_TRUNCATED = int(socket.MSG_CTRUNC)
_TIME = struct.Struct("@ll")
"""Seconds and microseconds, as the system has them."""

_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Channel:
    """One end of the socket pair: whole messages, and the descriptors that come with them.

    Any thread may send; one at a time may receive.
    """

    def __init__(self, end: socket.socket) -> None:
        """Speak over one end."""
        self._end = end
        self._sending = threading.Lock()
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._outgoing = bytearray()
        self._incoming = b""
        self._descriptors: deque[int] = deque()
        self._timeout_s: float | None = None

    def fileno(self) -> int:
        """Of the socket."""
        return self._end.fileno()

    def has_more(self) -> bool:
        """Whether some of the next message is here already, so that the socket need not say so."""
        return bool(self._incoming)

    def wait_at_most(self, timeout_s: float) -> None:
        """From now on nobody waits longer for the other side than this."""
        if timeout_s == self._timeout_s:
            return
        # The system keeps the time: Python's own timeout would cost a system call each time.
        seconds, rest = divmod(max(1, int(timeout_s * 1e6)), 1_000_000)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._end.setsockopt(socket.SOL_SOCKET, option, _TIME.pack(seconds, rest))
        self._timeout_s = timeout_s

    def send(self, message: Message, descriptor: int | None = None) -> None:
        """Send a message, perhaps with a descriptor, which is closed on this side.

        Raises:
            OSError: The other side is gone, or does not listen.
        """
        with self._sending:
            data = self._outgoing
            self._encode(message, data, LENGTH_BYTES)
            data[:LENGTH_BYTES] = (len(data) - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "little")
            if descriptor is None:
                self._end.sendall(data)
                return
            try:
                sent = socket.send_fds(self._end, [data], [descriptor])
            finally:
                os.close(descriptor)
            if sent < len(data):  # or the other side may be gone already, with all it needed
                self._end.sendall(memoryview(data)[sent:])

    def receive(self) -> tuple[Message, int | None]:
        """The next message and the descriptor that came with it.

        Raises:
            EOFError: The other side is gone.
            TimeoutError: Nothing came within the time that is waited.
            OSError: Its descriptor did not come through: this process has too many.
            msgspec.MsgspecError: It is no message.
        """
        body = self._incoming or self._more()
        while len(body) < LENGTH_BYTES or len(body) < (end := LENGTH_BYTES + _length(body)):
            body += self._more()
        message: Message = _DECODER.decode(memoryview(body)[LENGTH_BYTES:end])
        self._incoming = body[end:]
        # A descriptor comes with a message's first byte at the latest, and they come in order.
        has_one = getattr(message, "size_bytes", 0) > 0
        return message, self._descriptors.popleft() if has_one and self._descriptors else None

    def _more(self) -> bytes:
        try:
            data, ancillary, flags, _ = self._end.recvmsg(CHUNK_BYTES, _CONTROL_BYTES)
        except BlockingIOError:
            raise TimeoutError("nothing came in time") from None
        if flags & _TRUNCATED:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        for _, _, descriptor in ancillary:
            self._descriptors.append(int.from_bytes(descriptor, sys.byteorder))
        if not data:
            raise EOFError("the other side closed the channel")
        return data

    def close(self) -> None:
        """Speak no more."""
        self._end.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())


def _length(body: bytes) -> int:
    return int.from_bytes(body[:LENGTH_BYTES], "little")
