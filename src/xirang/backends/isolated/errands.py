"""What a worker's model wants of the server during a run: answers of others, parts handed out.

The thread that runs the model waits for two things then, the worker and the answers of others. The
latter come on another thread, which leaves them here and rings.
"""

import contextlib
import select
import socket
from collections.abc import Callable
from queue import SimpleQueue

from xirang.backends.isolated.channel import Channel
from xirang.backends.isolated.messages import AskOther, OtherTold, Part, response_of
from xirang.backends.isolated.segment import mapped, written
from xirang.backends.requests import InnerCall, Line, Responded, error_of
from xirang.errors import XirangError
from xirang.tensors.tensor import Array


class Errands:
    """Those of one run; true while answers of others are awaited."""

    __slots__ = ("_answers", "_bell", "_channel", "_ear", "_line", "_open", "_poll")

    def __init__(self, channel: Channel, line: Line | None) -> None:
        """Expect none.

        Args:
            channel: To the worker.
            line: To the server; None if the model has nothing to ask.
        """
        self._channel = channel
        self._line = line
        self._open: dict[int, Callable[[], None]] = {}
        self._ear: socket.socket | None = None

    def __bool__(self) -> bool:
        return bool(self._open)

    def take(self, errand: AskOther | Part, descriptor: int | None) -> None:
        """See to what the model wants; what others answer comes later.

        Raises:
            OSError: There is too little memory, or the worker is gone.
        """
        assert self._line is not None
        arrays: dict[str, Array] = {}
        if descriptor is not None:
            arrays = dict(mapped(descriptor, errand.size_bytes).read(errand.placed, copy=False))
        if isinstance(errand, Part):
            code, error = errand.response.code, errand.response.error
            self._line.tell(errand.index, arrays if error is None else error_of(code, error))
            return
        if self._ear is None:
            self._listen()
        answers, bell, number = self._answers, self._bell, errand.number

        def respond(result: Responded) -> None:
            answers.put((number, result))
            bell()

        inner = InnerCall(errand.model, errand.version, arrays, errand.wanted, errand.about)
        self._open[number] = self._line.call(inner, respond)

    def wait(self) -> None:
        """Return when the worker has something to say; answers that come meanwhile go to it.

        Raises:
            OSError: The worker is gone.
        """
        while self._open and not self._channel.has_more():
            ready = {descriptor for descriptor, _ in self._poll.poll()}
            assert self._ear is not None
            if self._ear.fileno() in ready:
                self._ear.recv(1 << 12)
                while not self._answers.empty():
                    self._pass_on(*self._answers.get())
            if self._channel.fileno() in ready:
                return

    def close(self) -> None:
        """Whoever is still asked need not answer any more."""
        for take_back in self._open.values():
            take_back()
        self._open.clear()
        if self._ear is not None:
            self._ear.close()
            self._bell.close()

    def _listen(self) -> None:
        self._answers: SimpleQueue[tuple[int, Responded]] = SimpleQueue()
        self._ear, mouth = socket.socketpair()
        mouth.setblocking(False)  # noqa: FBT003
        self._bell = Bell(mouth)
        self._poll = select.poll()
        self._poll.register(self._ear, select.POLLIN)
        self._poll.register(self._channel.fileno(), select.POLLIN)

    def _pass_on(self, number: int, result: Responded) -> None:
        if self._open.pop(number, None) is None:
            return
        if isinstance(result, XirangError):
            self._channel.send(OtherTold(number, [], 0, response_of(result)))
            return
        segment, placed, descriptor = written(list(result.items()))
        told = OtherTold(number, placed, segment.size_bytes, response_of(result))
        self._channel.send(told, descriptor)


class Bell:
    """Wakes the thread that listens; after it has gone nobody hears it."""

    __slots__ = ("_mouth",)

    def __init__(self, mouth: socket.socket) -> None:
        self._mouth = mouth

    def close(self) -> None:
        """Nobody listens any more."""
        self._mouth.close()

    def __call__(self) -> None:
        """Ring; what is not heard yet need not be rung again."""
        with contextlib.suppress(OSError):
            self._mouth.send(b"!")
