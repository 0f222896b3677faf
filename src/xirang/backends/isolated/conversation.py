"""The worker's side of the channel when its model may ask the server while it runs.

Nobody reads the channel but who waits for something: the worker for its next task, or threads of
the model for answers of other models. One of them reads at a time, and hands what is another's on.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import count

from xirang.backends.isolated.channel import Channel
from xirang.backends.isolated.messages import (
    AskOther,
    Message,
    OtherTold,
    Part,
    Task,
    response_of,
)
from xirang.backends.isolated.segment import mapped, written
from xirang.backends.requests import InnerCall, Responded, error_of
from xirang.errors import XirangError

Given = tuple[Task, int | None]
"""What the server wants, and the descriptor that came with it."""


class Conversation:
    """What is said over one channel, sorted by who waits for it.

    Attributes:
        is_in_run: Whether the server listens to what the model wants of it.
        is_shared: Whether threads of the model may want something.
    """

    def __init__(self, channel: Channel) -> None:
        """Speak over a channel."""
        self._channel = channel
        self._changed = threading.Condition()
        self._is_reading = False
        self._tasks: deque[Given] = deque()
        self._told: dict[int, tuple[OtherTold, int | None]] = {}
        self._numbers = count(1)
        self.is_in_run = False
        self.is_shared = False

    def next_task(self) -> Given:
        """What the server wants next.

        Raises:
            EOFError: It is gone.
        """
        if not self.is_shared:
            message, descriptor = self._channel.receive()
            assert isinstance(message, Task)
            return message, descriptor
        self._wait(lambda: bool(self._tasks))
        return self._tasks.popleft()

    def answer(self, message: Message, descriptor: int | None) -> None:
        """Say what became of a task."""
        self.is_in_run = False
        self._channel.send(message, descriptor)

    def call(self, inner: InnerCall) -> Responded:
        """Ask another model of the server, and wait for its answer; from any thread."""
        number = next(self._numbers)
        segment, placed, descriptor = written(list(inner.inputs.items()))
        ask = AskOther(
            number,
            inner.model,
            inner.version,
            placed,
            segment.size_bytes,
            list(inner.wanted),
            inner.about,
        )
        self._channel.send(ask, descriptor)
        self._wait(lambda: number in self._told)
        told, came = self._told.pop(number)
        response = told.response
        if response.error is not None:
            return error_of(response.code, response.error)
        assert came is not None
        return dict(mapped(came, told.size_bytes).read(told.placed, copy=False))

    def tell(self, index: int, part: Responded) -> None:
        """Hand out one part of the answer to a request of the run; from any thread."""
        if isinstance(part, XirangError):
            self._channel.send(Part(index, [], 0, response_of(part)))
            return
        segment, placed, descriptor = written(list(part.items()))
        self._channel.send(Part(index, placed, segment.size_bytes, response_of(part)), descriptor)

    def _wait(self, is_there: Callable[[], bool]) -> None:
        with self._changed:
            while not is_there():
                if self._is_reading:
                    self._changed.wait()
                    continue
                self._is_reading = True
                self._changed.release()
                try:
                    message, descriptor = self._channel.receive()
                finally:
                    self._changed.acquire()
                    self._is_reading = False
                    self._changed.notify_all()
                self._sort(message, descriptor)

    def _sort(self, message: Message, descriptor: int | None) -> None:
        if isinstance(message, OtherTold):
            self._told[message.number] = (message, descriptor)
        else:
            assert isinstance(message, Task)
            self._tasks.append((message, descriptor))
