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

import msgspec

from xirang.backends.executable import Executable, is_packed, takes_lists
from xirang.backends.isolated.channel import Channel
from xirang.backends.isolated.conversation import Conversation, Given
from xirang.backends.isolated.leases import Fed
from xirang.backends.isolated.lodging import Lodging
from xirang.backends.isolated.messages import (
    Ask,
    AskEach,
    Lend,
    Lent,
    Load,
    Loaded,
    Message,
    Raised,
    Studied,
    Study,
    Told,
    ToldEach,
    response_of,
)
from xirang.backends.isolated.segment import Named, Outbox, Segment, mapped
from xirang.backends.requests import Asked, is_decoupled, takes_requests
from xirang.memory.machine import private_bytes

_PR_SET_PDEATHSIG = 1

_FAULTS = (Exception, SystemExit)
"""What ends one run; `sys.exit` in a model is as little a reason to go as any other."""


class Worker:
    """One model and the two segments, seen from inside."""

    def __init__(self, channel: Channel) -> None:
        self._conversation = Conversation(channel)
        self._memory: Memory | None = None
        self._lodging = Lodging()
        self._executable: Any = None
        self._inputs: Segment | None = None
        self._outputs = Outbox()

    def serve(self) -> None:
        """Answer every message until the channel closes."""
        conversation = self._conversation
        with contextlib.suppress(EOFError, OSError):
            while True:
                task = conversation.next_task()
                try:
                    answer, new = self._answer(task)
                except _FAULTS as error:  # whatever a model raises is told, not died of
                    trace = "".join(traceback.format_exception(error))
                    needed_bytes = getattr(error, "needed_bytes", 0)
                    answer = Raised(type(error).__name__, str(error), trace, needed_bytes)
                    new = None
                conversation.answer(answer, new)

    def close(self) -> None:
        """Say farewell to the model, if it wants to hear it."""
        if (finalize := getattr(self._executable, "close", None)) is not None:
            finalize()

    def _answer(self, given: Given) -> tuple[Message, int | None]:
        message, descriptor = given
        if isinstance(message, Load):
            return self._loaded(message), None
        if isinstance(message, Lend):
            assert descriptor is not None
            self._lodging.enter(message, descriptor)
            return Lent(), None
        if descriptor is not None:
            self._inputs = None  # should there be no room, the old one must not pass for the new
            self._inputs = mapped(descriptor, message.size_bytes)
        assert self._inputs is not None
        outside = [where for where in message.placed if not where.in_arena]
        # What a callable keeps must not change under it when the next inputs come.
        copy = self._executable.keeps_inputs or isinstance(message, Study)
        arrays = self._inputs.read(outside, copy=copy)
        if isinstance(message, Study):
            return self._studied(message, arrays), None
        if isinstance(message, AskEach):
            return self._run_each(message, arrays)
        return self._run(message, arrays)

    def _run(self, message: Ask, arrays: list[Named]) -> tuple[Message, int | None]:
        if message.lease is not None:
            inputs = dict(arrays) | self._lodging.inputs(message.lease, message.placed)
            told, new = self._lodging.run(self._executable, inputs, message, self._outputs)
            if self._memory is not None:
                told = msgspec.structs.replace(told, resident_bytes=self._resident_bytes())
            return told, new
        outputs: list[Named]
        if message.is_list:
            lists = self._executable.run_lists(in_columns(arrays), message.wanted)
            outputs = [(name, row) for name, rows in lists.items() for row in rows]
        else:
            outputs = list(self._executable.run(dict(arrays), message.wanted).items())
        placed, size_bytes, new = self._outputs.put(outputs)
        return Told(placed, size_bytes, self._resident_bytes()), new

    def _studied(self, message: Study, arrays: list[Named]) -> Studied:
        feeds, begin = [], 0
        for feed in message.feeds:
            end = begin + feed.tensors
            feeds.append(Fed(feed.rows, feed.length, dict(arrays[begin:end])))
            begin = end
        self._lodging.study(self._executable, feeds, message)
        planning = getattr(self._executable, "planning", "")
        return Studied(list(self._lodging.peaks), planning, private_bytes())

    def _loaded(self, message: Load) -> Loaded:
        self._memory = Memory() if message.tells_memory else None
        loaded = self._executable = load(message, self._conversation)
        return Loaded(
            platform=loaded.platform,
            inputs=loaded.inputs,
            outputs=loaded.outputs,
            device=str(getattr(loaded, "device", "cpu")),
            bounds=getattr(loaded, "bounds", {}),
            takes_lists=takes_lists(loaded),
            is_packed=is_packed(loaded),
            takes_requests=takes_requests(loaded),
            is_decoupled=is_decoupled(loaded),
            optional=tuple(getattr(loaded, "optional", ())),
            declared=getattr(loaded, "declared", ""),
            held_bytes=private_bytes(),
        )

    def _run_each(self, message: AskEach, arrays: list[Named]) -> tuple[Message, int | None]:
        requests, begin = [], 0
        for one in message.requests:
            end = begin + one.tensors
            inputs = dict(arrays[begin:end])
            requests.append(Asked(inputs, one.wanted, one.about))
            begin = end
        outputs: list[Named] = []
        responses = []
        self._conversation.is_in_run = True
        for result in self._executable.run_requests(requests):
            responses.append(response_of(result))
            if isinstance(result, dict):
                outputs += result.items()
        placed, size_bytes, new = self._outputs.put(outputs)
        return ToldEach(placed, size_bytes, self._resident_bytes(), responses), new

    def _resident_bytes(self) -> int:
        if self._memory is None:
            return 0
        return max(0, self._memory.resident_bytes() - self._lodging.mapped_bytes)


def in_columns(arrays: list[Named]) -> dict[str, list[Any]]:
    """Rows by the name of their tensor, in order."""
    columns: dict[str, list[Any]] = {}
    for name, row in arrays:
        columns.setdefault(name, []).append(row)
    return columns


def load(message: Load, conversation: Conversation) -> Executable:
    """The executable that a message describes; the conversation is for one that asks others."""
    if message.kind == "triton python":
        from xirang.backends.triton_python.executable import ModelFile

        return ModelFile(message, conversation)
    if message.kind == "python":
        from xirang.backends.python import PythonExecutable, import_object

        return PythonExecutable(import_object(message.target), name=message.name)
    if message.kind == "onnx":
        from xirang.backends.onnx import OnnxExecutable

        return OnnxExecutable(
            Path(message.target), threads=message.threads, is_governed=message.is_governed
        )
    if message.kind == "torch":
        from xirang.backends.torch import torch_file

        return torch_file(
            Path(message.target),
            threads=message.threads,
            device=message.device,
            is_governed=message.is_governed,
        )
    if message.kind == "torch module":
        from xirang.backends.python import import_object
        from xirang.backends.torch import torch_module

        return torch_module(
            import_object(message.target),
            name=message.name,
            threads=message.threads,
            device=message.device,
            is_governed=message.is_governed,
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
    worker = Worker(Channel(socket.socket(fileno=int(sys.argv[1]))))
    worker.serve()
    worker.close()


def _die_with_server() -> None:
    """A worker that waits sees the channel close; one that hangs in a run needs the system."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
