"""One life of a worker process: the process, our end of its socket, and the shared memory."""

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from xirang.backends.executable import OutOfMemory
from xirang.backends.isolated.channel import Channel
from xirang.backends.isolated.errands import Errands
from xirang.backends.isolated.leases import Lesson, WorkerRoom
from xirang.backends.isolated.messages import (
    Ask,
    AskEach,
    AskOther,
    Feed,
    Lent,
    Load,
    Loaded,
    Message,
    One,
    Part,
    Raised,
    Studied,
    Study,
    Told,
    ToldEach,
)
from xirang.backends.isolated.segment import Named, Outbox, Placed, Segment, mapped
from xirang.backends.requests import Asked, Line, Responded, error_of
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.memory.arena import NoMemory
from xirang.tensors.split import RowsMismatchError

START_S_MAX = 600.0
"""Some models are large, and some folders are far away."""

DYING_S_MAX = 1.0

STANDARD_ERROR = 2
"""Where whatever a model prints goes, as the log does: who reads the server's output waits for it
to say that it is ready, and perhaps for nothing more.
"""

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
        held_bytes: Memory that was its own when it had loaded the model.
        pinned_bytes: By the number of an arena, below which something outlived its run there.
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
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=STANDARD_ERROR,
                )
            except OSError:
                ours.close()
                raise
        self._channel = Channel(ours)
        self._inputs = Outbox()
        self._outputs: Segment | None = None
        self.resident_bytes = self.held_bytes = 0
        self.pinned_bytes: dict[int, int] = {}
        self.runs = 0

    def load(self, load: Load) -> Loaded:
        """Have it load the model.

        Raises:
            InvalidSetting: It cannot, and why.
            LifeEnded: It ended over it.
        """
        self._channel.wait_at_most(START_S_MAX)
        answer = self._ask(load, None, None)
        if isinstance(answer, Raised):
            self.end()
            raise InvalidSetting(answer.text)
        assert isinstance(answer, Loaded)
        self.held_bytes = answer.held_bytes
        return answer

    def study(self, lesson: Lesson) -> Studied:
        """Have it find out how much memory runs take, and plan them.

        Raises:
            LifeEnded: It ended over it.
            Exception: What came of it otherwise.
        """
        self._channel.wait_at_most(START_S_MAX)
        arrays = [named for feed in lesson.feeds for named in feed.inputs.items()]
        placed, size_bytes, descriptor = self._inputs.put(arrays)
        feeds = [Feed(len(feed.inputs), feed.rows, feed.length) for feed in lesson.feeds]
        study = Study(
            placed,
            size_bytes,
            feeds,
            list(lesson.wanted),
            list(lesson.inputs),
            list(lesson.lengths),
            lesson.rows,
            lesson.worth_bytes,
        )
        answer = self._ask(study, descriptor, None)
        if isinstance(answer, Raised):
            raise _as_exception(answer)
        assert isinstance(answer, Studied)
        self.held_bytes = answer.held_bytes
        return answer

    def run(
        self,
        arrays: Sequence[Named],
        wanted: Sequence[str],
        *,
        is_list: bool,
        timeout_s: float,
        room: WorkerRoom | None = None,
    ) -> list[Named]:
        """Have it run the model.

        Args:
            arrays: Its inputs.
            wanted: Names of outputs.
            is_list: Whether the rows need not be of one shape.
            timeout_s: After so long it is taken for hung.
            room: Where the run takes its memory; None if it allocates as it likes.

        Raises:
            LifeEnded: It ended under it, hung, or answered what nobody understands.
            Exception: What the model raised.
        """
        self._channel.wait_at_most(timeout_s)
        lease = None
        if room is not None:
            self._lend(room)
            lease = room.lease()
        inside = [None if room is None else room.placed(named) for named in arrays]
        outside = [named for named, place in zip(arrays, inside, strict=True) if place is None]
        put, size_bytes, descriptor = self._inputs.put(outside)
        others = iter(put)
        placed = [place or next(others) for place in inside]
        ask = Ask(placed, size_bytes, list(wanted), is_list, lease)
        answer = self._ask(ask, descriptor, None)
        if lease is not None and isinstance(answer, Told):
            self.pinned_bytes[lease.arena] = answer.pinned_bytes
        return self._outcome(answer, is_new=size_bytes > 0, room=room)

    def _lend(self, room: WorkerRoom) -> None:
        """Let it map the arena, which need be done but once."""
        if room.number in self.pinned_bytes:
            return
        lend, descriptor = room.lend()
        answer = self._ask(lend, descriptor, None)
        if isinstance(answer, Raised):
            raise _as_exception(answer)
        assert isinstance(answer, Lent)
        self.pinned_bytes[room.number] = 0

    def run_requests(
        self, requests: Sequence[Asked], line: Line, *, timeout_s: float
    ) -> list[Responded]:
        """Have it run the model with requests as they are.

        Raises:
            LifeEnded: As for `run`.
            Exception: As for `run`.
        """
        self._channel.wait_at_most(timeout_s)
        arrays = [named for request in requests for named in request.inputs.items()]
        placed, size_bytes, descriptor = self._inputs.put(arrays)
        ones = [One(len(each.inputs), list(each.wanted), each.about) for each in requests]
        answer = self._ask(AskEach(placed, size_bytes, ones), descriptor, line)
        outputs = self._outcome(answer, is_new=size_bytes > 0)
        assert isinstance(answer, ToldEach)
        results: list[Responded] = []
        begin = 0
        for response in answer.responses:
            if response.error is not None:
                results.append(error_of(response.code, response.error))
                continue
            end = begin + response.tensors
            results.append(dict(outputs[begin:end]))
            begin = end
        return results

    def _outcome(
        self, answer: Message, *, is_new: bool, room: WorkerRoom | None = None
    ) -> list[Named]:
        self.runs += 1
        if isinstance(answer, Raised):
            if is_new:
                self._inputs.renew()  # the worker may have had no room for the segment
            raise _as_exception(answer)
        assert isinstance(answer, Told | ToldEach)
        self.resident_bytes = answer.resident_bytes
        if room is not None and isinstance(answer, Told):
            room.peak_bytes, room.is_planned = max(0, answer.peak_bytes), answer.is_planned
        try:
            return [self._output(where, room) for where in answer.placed]
        except (TypeError, ValueError) as error:
            self.end()
            raise LifeEnded(f"it answered nonsense ({error}) and was ended") from None

    def _output(self, where: Placed, room: WorkerRoom | None) -> Named:
        if where.in_arena and room is not None:
            return where.name, room.view(where)
        assert self._outputs is not None
        # Copied: the worker writes its next outputs to the same place.
        return self._outputs.read([where], copy=True)[0]

    def _ask(self, message: Message, descriptor: int | None, line: Line | None) -> Message:
        """Its answer; in between, what its model asks of others is seen to."""
        errands = Errands(self._channel, line)
        try:
            self._channel.send(message, descriptor)
            while True:
                if errands:
                    errands.wait()
                answer, came = self._channel.receive()
                if not isinstance(answer, AskOther | Part):
                    break
                errands.take(answer, came)
            if came is not None:
                assert isinstance(answer, Told | ToldEach)
                self._outputs = mapped(came, answer.size_bytes)
        except TimeoutError:
            self.end()
            raise LifeEnded("it did not answer in time and was ended") from None
        except msgspec.MsgspecError as error:
            self.end()
            raise LifeEnded(f"it answered nonsense ({error}) and was ended") from None
        except (EOFError, ConnectionError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(DYING_S_MAX)  # so that its own exit status is told
            self.end()
            raise LifeEnded(f"it ended {_ending(self.process.returncode)}") from None
        except OSError as error:
            self.end()
            raise LifeEnded(f"it was lost: {error}") from None
        finally:
            errands.close()
        return answer

    def dismiss(self) -> None:
        """Ask it for nothing more: it ends when it has said farewell to the model."""
        self._channel.close()

    def end(self) -> None:
        """Kill it, if it still lives: it has no state worth a farewell."""
        self._channel.close()
        self.process.kill()
        self.process.wait()


def _as_exception(raised: Raised) -> Exception:
    """What the worker's exception means on this side."""
    if raised.kind == NoMemory.__name__:
        return NoMemory(raised.text, needed_bytes=raised.needed_bytes)
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
