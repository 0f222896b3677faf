"""An instance: one thread that takes runs and gives each back with a single call to the loop.

The thread assembles, runs the model with the interpreter's lock released, and splits. What becomes
of a run that raises is said in `engine/faults.py`.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from xirang.core.run import Outcome, Run
from xirang.engine.clock import Clock
from xirang.engine.faults import Result, Work, execute

CLOSE_S_MAX = 5.0
"""Everybody has been answered by then; whoever still runs, runs for nobody."""

Finished = Callable[[Run, Sequence[Result], Outcome], None]


def _ignore(_run: Run) -> None:
    pass


def _refuse(_run_id: int, _size_bytes: int) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Post:
    """Where an instance's results go.

    Attributes:
        loop: The loop on which `finished` is called.
        clock: The time.
        finished: Takes the run, its members' results and the outcome.
        paused: Takes a run that waits for a process and leaves the device to others.
        extend: Gives a run more memory, by its number, if there is so much.
    """

    loop: asyncio.AbstractEventLoop
    clock: Clock
    finished: Finished
    paused: Callable[[Run], None] = _ignore
    extend: Callable[[int, int], bool] = _refuse

    def ask(self, run_id: int, size_bytes: int) -> bool:
        """`extend`, from the instance's thread; it waits until the loop has decided."""
        answer: Future[bool] = Future()
        try:
            self.loop.call_soon_threadsafe(
                lambda: answer.set_result(self.extend(run_id, size_bytes))
            )
        except RuntimeError:  # the loop was closed under a run: nobody is left to answer
            return False
        return answer.result()


class Begins(Protocol):
    """Anything that wants to know of a run before it is worked on."""

    def begin(self, run: Run) -> None:
        """All that is done until the next call belongs to this run."""
        ...


class Startable(Protocol):
    """Anything that takes runs and posts their results."""

    def start(self, run: Run, members: Sequence[Any]) -> None:
        """Take a run; never wait for it."""
        ...

    def close(self) -> None:
        """Take no more runs; return when the last one has ended."""
        ...


MakeInstance = Callable[[str, Post], Startable]


class Instance:
    """A thread with an inbox."""

    def __init__(self, name: str, work: Work, post: Post, place: Begins | None = None) -> None:
        """Start the thread.

        Args:
            name: Of the thread, for people who debug.
            work: What to do with a run.
            post: Where its results go.
            place: Where the work takes its memory, if that is counted.
        """
        self._place = place
        self._work = work
        self._post = post
        self._inbox: SimpleQueue[tuple[Run, Sequence[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def start(self, run: Run, members: Sequence[Any]) -> None:
        """Queue a run; the scheduler sees to it that the thread is free."""
        self._inbox.put((run, members))

    def close(self) -> None:
        """End the thread after what it has; one that hangs is left to itself."""
        self._inbox.put(None)
        self._thread.join(CLOSE_S_MAX)

    def _live(self) -> None:
        post = self._post
        while (item := self._inbox.get()) is not None:
            run, members = item
            if self._place is not None:
                self._place.begin(run)
            pause = partial(post.loop.call_soon_threadsafe, post.paused, run)
            results, outcome = execute(run, members, self._work, clock=post.clock, pause=pause)
            try:
                post.loop.call_soon_threadsafe(post.finished, run, results, outcome)
            except RuntimeError:  # the loop was closed under a run: nobody is left to answer
                return
