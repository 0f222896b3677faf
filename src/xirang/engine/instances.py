"""An instance: one thread that takes runs and gives each back with a single call to the loop.

The thread assembles, runs the model with the interpreter's lock released, and splits. A run that
raises is run again in halves until the guilty request stands alone: the others of the batch get
their answers, and only it gets the error.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from xirang.core.run import Done, Failed, Outcome, Run
from xirang.engine.clock import Clock
from xirang.errors import ModelFailed, XirangError

log = logging.getLogger(__name__)

Result = Any
"""What a member gets: an error, or what the work gives (outputs by name, or a Python object)."""

_FAULTS = (Exception, SystemExit)
"""A model that asks to exit must not take the thread along: its run would never end."""

Finished = Callable[[Run, Sequence[Result], Outcome], None]


class Work(Protocol):
    """What an instance does with the members of a run."""

    def __call__(
        self, members: Sequence[Any], *, length: int, clock: Clock
    ) -> tuple[list[Result], Done]:
        """One result a member, in order, and the times it took."""
        ...


@dataclass(frozen=True, slots=True)
class Post:
    """Where an instance's results go.

    Attributes:
        loop: The loop on which `finished` is called.
        clock: The time.
        finished: Takes the run, its members' results and the outcome.
    """

    loop: asyncio.AbstractEventLoop
    clock: Clock
    finished: Finished


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

    def __init__(self, name: str, work: Work, post: Post) -> None:
        """Start the thread.

        Args:
            name: Of the thread, for people who debug.
            work: What to do with a run.
            post: Where its results go.
        """
        self._work = work
        self._post = post
        self._inbox: SimpleQueue[tuple[Run, Sequence[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def start(self, run: Run, members: Sequence[Any]) -> None:
        """Queue a run; the scheduler sees to it that the thread is free."""
        self._inbox.put((run, members))

    def close(self) -> None:
        """End the thread after what it has."""
        self._inbox.put(None)
        self._thread.join()

    def _live(self) -> None:
        post = self._post
        while (item := self._inbox.get()) is not None:
            run, members = item
            results, outcome = execute(run, members, self._work, clock=post.clock)
            try:
                post.loop.call_soon_threadsafe(post.finished, run, results, outcome)
            except RuntimeError:  # the loop was closed under a run: nobody is left to answer
                return


def execute(
    run: Run, members: Sequence[Any], work: Work, *, clock: Clock
) -> tuple[list[Result], Outcome]:
    """Do the work; on an error, do it in halves until each guilty member stands alone."""
    try:
        return work(members, length=run.length, clock=clock)
    except _FAULTS as error:  # whatever a model raises is one request's fault
        log.info("run %d of %s raised: %s", run.id, run.model, error)
        results = _results_of_halves(run, members, work, clock=clock, error=error)
        return results, failed_in(run, results) or Failed()


def _results_of_halves(
    run: Run, members: Sequence[Any], work: Work, *, clock: Clock, error: BaseException
) -> list[Result]:
    if len(members) == 1:
        return [as_error(run.model, error)]
    results: list[Result] = []
    middle = len(members) // 2
    for half in (members[:middle], members[middle:]):
        try:
            results += work(half, length=run.length, clock=clock)[0]
        except _FAULTS as half_error:
            results += _results_of_halves(run, half, work, clock=clock, error=half_error)
    return results


def failed_in(run: Run, results: Sequence[Result]) -> Failed | None:
    """The outcome of a run in which somebody got an error; None if nobody did."""
    pairs = zip(run.requests, results, strict=True)
    guilty = tuple(request.id for request, result in pairs if isinstance(result, XirangError))
    return Failed(guilty) if guilty else None


def as_error(model: str, error: BaseException) -> XirangError:
    """What the owner of a guilty request is told."""
    if isinstance(error, XirangError):
        return error
    log.error("model %s failed", model, exc_info=error)
    failure = ModelFailed(f"model '{model}' raised {type(error).__name__}: {error}")
    failure.__cause__ = error  # who uses the library sees where it came from
    return failure
