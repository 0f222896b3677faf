"""A model in a process of its own, as an executable like any other.

Each instance has its process. One that dies, hangs or grows too large is ended and started anew
before the next run; the run that it took along raises `WorkerDied`, and the engine runs it once
more, then in halves, so that only a request that kills its worker by itself gets an error.
"""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

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
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import Array

log = logging.getLogger(__name__)

START_S_MAX = 120.0
DYING_S_MAX = 1.0
BACKOFF_S = (0.0, 0.0, 0.1, 0.3, 1.0, 3.0)
"""Wait before the n-th start in a row without a run that succeeded; the last one for all later."""


class WorkerDied(Exception):
    """The process ended, or was ended, under a run."""


class _Process:
    """One life of a worker: the process, our end of its socket, its segments."""

    def __init__(self, load: Load, *, hang_s: float) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", f"{__package__}.worker", str(theirs.fileno())]
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._channel = ours
        self._inputs: Segment | None = None
        self._outputs: Segment | None = None
        self.resident_bytes = 0
        ours.settimeout(START_S_MAX)
        answer = self._ask(load, None)
        if isinstance(answer, Raised):
            self.end()
            raise InvalidSetting(answer.text)
        assert isinstance(answer, Loaded)
        self.loaded = answer
        ours.settimeout(hang_s)

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        needed, descriptor, size_bytes = size_of(inputs), None, 0
        if self._inputs is None or self._inputs.size_bytes < needed:
            self._inputs, descriptor = new_segment(needed)
            size_bytes = self._inputs.size_bytes
        answer = self._ask(Ask(self._inputs.write(inputs), size_bytes, list(wanted)), descriptor)
        if isinstance(answer, Raised):
            raise _as_exception(answer)
        assert isinstance(answer, Told)
        assert self._outputs is not None
        self.resident_bytes = answer.resident_bytes
        # Copied: the worker writes its next outputs to the same place.
        return self._outputs.read(answer.placed, copy=True)

    def _ask(self, message: Message, descriptor: int | None) -> Message:
        try:
            send(self._channel, message, descriptor)
            answer, came = receive(self._channel)
        except TimeoutError:
            self.end()
            raise WorkerDied("it did not answer in time and was ended") from None
        except (EOFError, OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DYING_S_MAX)  # so that its own exit status is told
            self.end()
            raise WorkerDied(f"it ended {_ending(self.process.returncode)}") from None
        if came is not None:
            assert isinstance(answer, Told)
            self._outputs = Segment(came, answer.size_bytes)
            os.close(came)
        return answer

    def end(self) -> None:
        """Kill it, if it still lives: it has no state worth a farewell."""
        self._channel.close()
        self.process.kill()
        self.process.wait()


class IsolatedExecutable:
    """The server's side of a worker process; see `Executable`."""

    is_reentrant = False
    keeps_inputs = False

    def __init__(self, load: Load, *, hang_s: float = 60.0, resident_bytes_max: int = 0) -> None:
        """Start the process and load the model in it.

        Args:
            load: What the process loads.
            hang_s: A run that takes longer is taken for hung, and its process ended.
            resident_bytes_max: A process that holds more is replaced between two runs; 0: never.

        Raises:
            InvalidSetting: The model cannot be loaded, and why.
        """
        self._load = load
        self._hang_s = hang_s
        self._resident_bytes_max = resident_bytes_max
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._failures = 0
        self.restarts = 0
        self._life: _Process | None = self._start()
        self.platform = self._life.loaded.platform
        self.inputs = self._life.loaded.inputs
        self.outputs = self._life.loaded.outputs

    @property
    def process_id(self) -> int | None:
        """Of the process that lives now."""
        life = self._life
        return None if life is None else life.process.pid

    def another(self) -> "IsolatedExecutable":
        """The same model in one more process."""
        return IsolatedExecutable(
            self._load, hang_s=self._hang_s, resident_bytes_max=self._resident_bytes_max
        )

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the model in its process; see `Executable.run`.

        Raises:
            WorkerDied: The process ended under it.
        """
        with self._lock:
            life = self._life or self._restart()
            try:
                outputs = life.run(inputs, wanted)
            except WorkerDied as error:
                self._life = None
                self._failures += 1
                log.warning("the worker of model %s: %s", self._load.name, error)
                raise
            self._failures = 0
            if 0 < self._resident_bytes_max < life.resident_bytes:
                held = life.resident_bytes >> 20
                log.warning("the worker of model %s holds %d MiB", self._load.name, held)
                life.end()
                self._life = None
            return outputs

    def close(self) -> None:
        """End the process."""
        self._closing.set()
        with self._lock:
            if self._life is not None:
                self._life.end()
                self._life = None

    def _restart(self) -> _Process:
        wait_s = BACKOFF_S[min(self._failures, len(BACKOFF_S) - 1)]
        if self._closing.wait(wait_s):
            raise WorkerDied("the server is going down")
        self.restarts += 1
        try:
            self._life = self._start()
        except InvalidSetting as error:
            self._failures += 1
            raise WorkerDied(f"it could not be started again: {error}") from error
        return self._life

    def _start(self) -> _Process:
        try:
            return _Process(self._load, hang_s=self._hang_s)
        except WorkerDied as error:
            name = self._load.name
            raise InvalidSetting(f"the worker of model {name} did not start: {error}") from None
        except OSError as error:
            raise InvalidSetting(f"cannot start a worker process: {error}") from error


def _as_exception(raised: Raised) -> Exception:
    """What the worker's exception means on this side."""
    known = {kind.__name__: kind for kind in (InvalidRequest, RowsMismatchError, MemoryError)}
    if raised.kind in known:
        return known[raised.kind](raised.text)
    return RuntimeError(f"{raised.kind}: {raised.text}")


def _ending(code: int | None) -> str:
    if code is None:
        return "without a word"
    if code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit status {code}"
