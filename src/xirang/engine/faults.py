"""What becomes of a run that raises: everybody but the guilty gets an answer, each exactly one.

A model that raises is run again in halves until the guilty request stands alone. When the process
that ran it died, nobody knows whether one of its requests was to blame or an operator: the whole
run is made once more, in another process if one is idle, and only if that dies too in halves. Who
has no time left for that is told so, and nobody is run again without need.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from xirang.backends.executable import OutOfMemory, WorkerDied
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Outcome, Run
from xirang.engine.clock import Clock
from xirang.errors import Expired, ModelFailed, NotReady, XirangError
from xirang.memory.arena import NoMemory

log = logging.getLogger(__name__)

Result = Any
"""What a member gets: an error, or what the work gives (outputs by name, or a Python object)."""

WAIT_S_MAX = 600.0
"""Longest wait for a process, for those who have no deadline."""

_FAULTS = (Exception, SystemExit)
"""A model that asks to exit must not take the thread along: its run would never end."""

_NO_ROOM = (OutOfMemory, MemoryError)
"""A smaller run may fit where one of these was raised."""

_Part = tuple[Request, Any]
"""A request of the run and the member that stands for it."""


class Work(Protocol):
    """What an instance does with the members of a run."""

    def __call__(self, members: Sequence[Any], *, clock: Clock) -> tuple[list[Result], Done]:
        """One result a member, in order, and the times it took."""
        ...


class SomeFailed(Exception):
    """A run went well, but not for all its members.

    Attributes:
        results: One a member; those that failed get an error.
    """

    def __init__(self, results: list[Result]) -> None:
        super().__init__("some members failed")
        self.results = results


def nothing() -> None:
    """Nobody asks to be told."""


def execute(
    run: Run,
    members: Sequence[Any],
    work: Work,
    *,
    clock: Clock,
    pause: Callable[[], object] = nothing,
) -> tuple[list[Result], Outcome]:
    """Do the work; on an error find out whose it is.

    Args:
        run: What to run.
        members: For its requests, in order.
        work: Does it.
        clock: The time.
        pause: Called if the run has to wait for a process to be started.

    Returns:
        One result for each member, and how the run ended.
    """
    try:
        return work(members, clock=clock)
    except SomeFailed as mixed:
        return mixed.results, failed_in(run, mixed.results) or Failed()
    except _FAULTS as error:  # whatever a model raises is one request's fault
        log.info("run %d of %s raised: %s", run.id, run.model, error)
        results = _Rescue(run, work, clock, pause).results(members, error)
        failed = failed_in(run, results) or Failed()
        if isinstance(error, _NO_ROOM):
            log.warning("model %s has no room for %d elements in a run", run.model, run.elements)
        needed = -(-error.needed_bytes >> 10) << 10 if isinstance(error, NoMemory) else 0
        is_out_of_memory = isinstance(error, _NO_ROOM)
        return results, replace(failed, is_out_of_memory=is_out_of_memory, memory_bytes=needed)


def failed_in(run: Run, results: Sequence[Result]) -> Failed | None:
    """The outcome of a run in which somebody got an error; None if nobody did."""
    pairs = zip(run.requests, results, strict=True)
    errors = [(request.id, each) for request, each in pairs if isinstance(each, XirangError)]
    if not errors:
        return None
    expired = tuple([number for number, error in errors if isinstance(error, Expired)])
    return Failed(tuple([number for number, _ in errors]), expired=expired)


def as_error(model: str, error: BaseException) -> XirangError:
    """What the owner of a guilty request is told."""
    if isinstance(error, XirangError):
        return error
    log.error("model %s failed", model, exc_info=error)
    if isinstance(error, WorkerDied):
        text = f"model '{model}' lost its process over this request: {error}"
    else:
        text = f"model '{model}' raised {type(error).__name__}: {error}"
    failure = ModelFailed(text)
    failure.__cause__ = error  # who uses the library sees where it came from
    return failure


class _Rescue:
    """The way of one run through its faults; each of its requests gets a result once."""

    def __init__(self, run: Run, work: Work, clock: Clock, pause: Callable[[], object]) -> None:
        self._run = run
        self._work = work
        self._clock = clock
        self._pause = pause
        self._results: dict[int, Result] = {}

    def results(self, members: Sequence[Any], error: BaseException) -> list[Result]:
        """After the whole run raised this."""
        self._react(list(zip(self._run.requests, members, strict=True)), error, is_again=False)
        return [self._results[request.id] for request in self._run.requests]

    def _react(self, parts: list[_Part], error: BaseException, *, is_again: bool) -> None:
        is_dead = isinstance(error, WorkerDied) and error.is_suspect
        if isinstance(error, WorkerDied) and not (is_dead and is_again):
            self._attempt(parts, after=error, is_again=is_again or is_dead)
        elif len(parts) == 1:
            self._results[parts[0][0].id] = as_error(self._run.model, error)
        else:
            middle = len(parts) // 2
            self._attempt(parts[:middle], after=error, is_again=is_again)
            self._attempt(parts[middle:], after=error, is_again=is_again)

    def _attempt(self, parts: list[_Part], *, after: BaseException, is_again: bool) -> None:
        if isinstance(after, WorkerDied):
            parts = self._still_in_time(parts, after)
        if not parts:
            return
        try:
            results, _ = self._work([member for _, member in parts], clock=self._clock)
        except SomeFailed as mixed:
            results = mixed.results
        except _FAULTS as error:
            self._react(parts, error, is_again=is_again)
            return
        for (request, _), result in zip(parts, results, strict=True):
            self._results[request.id] = result

    def _still_in_time(self, parts: list[_Part], error: WorkerDied) -> list[_Part]:
        """Wait for a process; those whose budgets that leaves intact."""
        workers, clock = error.workers, self._clock
        if not (is_up := workers.wait(0)):
            self._pause()
            last_ns = max([request.deadline_ns for request, _ in parts])
            rest_s = (last_ns - clock.now_ns()) / 1e9
            is_up = workers.wait(min(max(0.0, rest_s), WAIT_S_MAX))
        run = self._run
        end_ns = clock.now_ns() + run.predicted_ns * len(parts) // len(run.requests)
        left = []
        for request, member in parts:
            if request.deadline_ns <= end_ns:
                words = f"the budget was spent while a process of model '{run.model}' was replaced"
                self._results[request.id] = Expired(f"Request timeout expired: {words}")
            elif not is_up:
                words = f"model '{run.model}' has no process, and none can be started"
                self._results[request.id] = NotReady(words)
            else:
                left.append((request, member))
        return left
