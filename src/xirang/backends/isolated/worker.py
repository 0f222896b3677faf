"""The worker process: loads one model and runs it as it is told, until the server is gone.

`python -m xirang.backends.isolated.worker DESCRIPTOR`, with one end of a socket pair.
"""

import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from xirang.backends.executable import Executable
from xirang.backends.isolated.messages import (
    Ask,
    Load,
    Loaded,
    Message,
    Raised,
    Told,
    receive,
    send,
)
from xirang.backends.isolated.segment import Segment, new_segment, size_of
from xirang.tensors.tensor import Array


class Worker:
    """One model and the two segments, seen from inside."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._executable: Executable | None = None
        self._inputs: Segment | None = None
        self._outputs: Segment | None = None

    def serve(self) -> None:
        """Answer every message until the channel closes."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message, descriptor = receive(self._channel)
                try:
                    answer, new = self._answer(message, descriptor)
                except Exception as error:  # whatever a model raises is told, not died of
                    answer, new = Raised(type(error).__name__, str(error)), None
                send(self._channel, answer, new)

    def _answer(self, message: Message, descriptor: int | None) -> tuple[Message, int | None]:
        if isinstance(message, Load):
            self._executable = load(message)
            executable = self._executable
            return Loaded(executable.platform, executable.inputs, executable.outputs), None
        assert isinstance(message, Ask)
        assert self._executable is not None
        if descriptor is not None:
            self._inputs = Segment(descriptor, message.size_bytes)
            os.close(descriptor)
        assert self._inputs is not None
        arrays = self._inputs.read(message.placed, copy=False)
        return self._tell(self._executable.run(arrays, message.wanted))

    def _tell(self, outputs: dict[str, Array]) -> tuple[Message, int | None]:
        needed, descriptor, size_bytes = size_of(outputs), None, 0
        if self._outputs is None or self._outputs.size_bytes < needed:
            self._outputs, descriptor = new_segment(needed)
            size_bytes = self._outputs.size_bytes
        return Told(self._outputs.write(outputs), size_bytes, resident_bytes()), descriptor


def load(message: Load) -> Executable:
    """The executable that a message describes."""
    if message.kind == "python":
        from xirang.backends.python import PythonExecutable, import_object

        return PythonExecutable(import_object(message.target), name=message.name)
    if message.kind == "onnx":
        from xirang.backends.onnx import OnnxExecutable

        return OnnxExecutable(Path(message.target), threads=message.threads)
    raise ValueError(f"no worker loads a model of kind {message.kind!r}")


def resident_bytes() -> int:
    """Memory that this process holds now (its peak where the system does not tell)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    # The terminal sends it to everybody; the server ends its workers itself, after their runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING)
    Worker(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
