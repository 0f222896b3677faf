"""One life of a worker process: the process, our end of its socket, and the shared memory."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from xirang.backends.executable import OutOfMemory
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
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.split import RowsMismatchError

START_S_MAX = 600.0
"""Some models are large, and some folders are far away."""

DYING_S_MAX = 1.0

_KNOWN = {
    kind.__name__: kind for kind in (InvalidRequest, RowsMismatchError, MemoryError, OutOfMemory)
}
"""Exceptions that mean the same on this side; any other is told as a RuntimeError."""


class LifeEnded(Exception):
    """The process ended, or was ended, and how."""


class Life:
    """A process that runs a model.

    Attributes:
        process: The process.
        resident_bytes: Memory that it held after its last run.
        runs: How many of its runs did not end it.
    """

    def __init__(self) -> None:
        """Start the process; `load` tells it what to run.

        Raises:
            OSError: The system has no room for it.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            # Not from the current folder first (-P): the model's modules come after ours.
            command = [sys.executable, "-P", "-m", f"{__package__}.worker", str(theirs.fileno())]
            try:
                self.process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
                )
            except OSError:
                ours.close()
                raise
        self._channel = ours
        self._timeout_s = 0.0
        self._inputs: Segment | None = None
        self._outputs: Segment | None = None
        self.resident_bytes = 0
        self.runs = 0

    def load(self, load: Load) -> Loaded:
        """Have it load the model.

        Raises:
            InvalidSetting: It cannot, and why.
            LifeEnded: It ended over it.
        """
        answer = self._ask(load, None, START_S_MAX)
        if isinstance(answer, Raised):
            self.end()
            raise InvalidSetting(answer.text)
        assert isinstance(answer, Loaded)
        return answer

    def run(
        self, arrays: Sequence[Named], wanted: Sequence[str], *, is_list: bool, timeout_s: float
    ) -> list[Named]:
        """Have it run the model.

        Raises:
            LifeEnded: It ended under it, hung, or answered what nobody understands.
            Exception: What the model raised.
        """
        if self._inputs is not None and size_of(arrays) <= self._inputs.size_bytes:
            ask = Ask(self._inputs.write(arrays), 0, list(wanted), is_list)
            answer = self._ask(ask, None, timeout_s)
        else:
            segment, placed, descriptor = written(arrays)
            ask = Ask(placed, segment.size_bytes, list(wanted), is_list)
            answer = self._ask(ask, descriptor, timeout_s)
            # Where it raised it may have had no room for the segment.
            self._inputs = segment if isinstance(answer, Told) else None
        self.runs += 1
        if isinstance(answer, Raised):
            raise _as_exception(answer)
        assert isinstance(answer, Told)
        assert self._outputs is not None
        self.resident_bytes = answer.resident_bytes
        try:
            # Copied: the worker writes its next outputs to the same place.
            return self._outputs.read(answer.placed, copy=True)
        except (TypeError, ValueError) as error:
            self.end()
            raise LifeEnded(f"it answered nonsense ({error}) and was ended") from None

    def _ask(self, message: Message, descriptor: int | None, timeout_s: float) -> Message:
        if timeout_s != self._timeout_s:
            self._channel.settimeout(timeout_s)
            self._timeout_s = timeout_s
        try:
            send(self._channel, message, descriptor)
            answer, came = receive(self._channel)
            if came is not None:
                assert isinstance(answer, Told)
                self._outputs = mapped(came, answer.size_bytes)
        except TimeoutError:
            self.end()
            raise LifeEnded("it did not answer in time and was ended") from None
        except msgspec.MsgspecError as error:
            self.end()
            raise LifeEnded(f"it answered nonsense ({error}) and was ended") from None
        except EOFError:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DYING_S_MAX)  # so that its own exit status is told
            self.end()
            raise LifeEnded(f"it ended {_ending(self.process.returncode)}") from None
        except OSError as error:
            self.end()
            raise LifeEnded(f"it was lost: {error}") from None
        return answer

    def end(self) -> None:
        """Kill it, if it still lives: it has no state worth a farewell."""
        self._channel.close()
        self.process.kill()
        self.process.wait()


def _as_exception(raised: Raised) -> Exception:
    """What the worker's exception means on this side."""
    # What is not known here keeps its name: whoever reads of it wants to know what was raised.
    kind = _KNOWN.get(raised.kind) or type(raised.kind, (Exception,), {})
    error: Exception = kind(raised.text)
    error.add_note(raised.trace)
    return error


def _ending(code: int | None) -> str:
    if code is None:
        return "without a word"
    if code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit status {code}"
