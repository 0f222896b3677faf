"""The worker process: loads one model and runs it as it is told, until the server is gone.

`python -m xirang.backends.isolated.worker DESCRIPTOR`, with one end of a socket pair.
"""

import contextlib
import ctypes
import logging
import os
import resource
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from xirang.backends.executable import Executable, is_packed, takes_lists
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
from xirang.backends.isolated.segment import Named, Segment, mapped, size_of, written

_PR_SET_PDEATHSIG = 1

_FAULTS = (Exception, SystemExit)
"""What ends one run; `sys.exit` in a model is as little a reason to go as any other."""


class Worker:
    """One model and the two segments, seen from inside."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._memory = Memory()
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
                except _FAULTS as error:  # whatever a model raises is told, not died of
                    trace = "".join(traceback.format_exception(error))
                    answer, new = Raised(type(error).__name__, str(error), trace), None
                send(self._channel, answer, new)

    def _answer(self, message: Message, descriptor: int | None) -> tuple[Message, int | None]:
        if isinstance(message, Load):
            loaded = self._executable = load(message)
            answer = Loaded(
                platform=loaded.platform,
                inputs=loaded.inputs,
                outputs=loaded.outputs,
                device=str(getattr(loaded, "device", "cpu")),
                bounds=getattr(loaded, "bounds", {}),
                takes_lists=takes_lists(loaded),
                is_packed=is_packed(loaded),
            )
            return answer, None
        assert isinstance(message, Ask)
        if descriptor is not None:
            self._inputs = None  # should there be no room, the old one must not pass for the new
            self._inputs = mapped(descriptor, message.size_bytes)
        assert self._inputs is not None
        executable: Any = self._executable
        # What a callable keeps must not change under it when the next inputs come.
        arrays = self._inputs.read(message.placed, copy=executable.keeps_inputs)
        if message.is_list:
            outputs = executable.run_lists(in_columns(arrays), message.wanted)
            return self._tell([(name, row) for name, rows in outputs.items() for row in rows])
        return self._tell(list(executable.run(dict(arrays), message.wanted).items()))

    def _tell(self, outputs: list[Named]) -> tuple[Message, int | None]:
        if self._outputs is not None and size_of(outputs) <= self._outputs.size_bytes:
            return Told(self._outputs.write(outputs), 0, self._memory.resident_bytes()), None
        segment, placed, descriptor = written(outputs)
        self._outputs = segment
        return Told(placed, segment.size_bytes, self._memory.resident_bytes()), descriptor


def in_columns(arrays: list[Named]) -> dict[str, list[Any]]:
    """Rows by the name of their tensor, in order."""
    columns: dict[str, list[Any]] = {}
    for name, row in arrays:
        columns.setdefault(name, []).append(row)
    return columns


def load(message: Load) -> Executable:
    """The executable that a message describes."""
    if message.kind == "python":
        from xirang.backends.python import PythonExecutable, import_object

        return PythonExecutable(import_object(message.target), name=message.name)
    if message.kind == "onnx":
        from xirang.backends.onnx import OnnxExecutable

        return OnnxExecutable(Path(message.target), threads=message.threads)
    if message.kind == "torch":
        from xirang.backends.torch import torch_file

        return torch_file(Path(message.target), threads=message.threads, device=message.device)
    if message.kind == "torch module":
        from xirang.backends.python import import_object
        from xirang.backends.torch import torch_module

        return torch_module(
            import_object(message.target),
            name=message.name,
            threads=message.threads,
            device=message.device,
        )
    raise ValueError(f"no worker loads a model of kind {message.kind!r}")


class Memory:
    """What this process holds, asked after every run."""

    def __init__(self) -> None:
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open("/proc/self/statm", os.O_RDONLY)

    def resident_bytes(self) -> int:
        """Memory that it holds now (its peak where the system does not tell)."""
        if self._file < 0:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(os.pread(self._file, 128, 0).split()[1]) * self._page_bytes


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    _die_with_server()
    # The server ends its workers itself, after their runs, whoever else is told to go. Signals are
    # not ignored, only without effect: what is ignored, a model's own processes would ignore too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    logging.basicConfig(level=logging.WARNING)
    Worker(socket.socket(fileno=int(sys.argv[1]))).serve()


def _die_with_server() -> None:
    """A worker that waits sees the channel close; one that hangs in a run needs the system."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
