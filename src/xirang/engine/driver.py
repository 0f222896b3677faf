"""The shell around the scheduler: it keeps the time, starts runs and answers the expired.

It lives on the event loop's thread and is the only caller of the scheduler. Requests that come in
one read of the sockets are gathered before the scheduler is asked what must happen now: one turn
at the end of the loop's iteration, one timer for everything that is due later.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from xirang.core.event import Event
from xirang.core.request import Request
from xirang.core.run import Expire, Outcome, Rejected, Run, Verdict
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import Clock


def _nothing() -> None:
    pass


QUIET_NS = 1_000_000
"""A refusal changes nothing but counts, which may wait so long."""


class Timer(Protocol):
    """What a loop gives back for a callback that is due later."""

    def cancel(self) -> None:
        """Never call it."""
        ...


class Loop(Protocol):
    """The part of an event loop that the driver needs; tests drive one by hand."""

    def call_soon(self, callback: Callable[[], object], /) -> object:
        """Call at the end of this iteration."""
        ...

    def call_later(self, delay_s: float, callback: Callable[[], object], /) -> Timer:
        """Call after so many seconds."""
        ...


class Driver:
    """Feeds facts to a scheduler and carries out what it decides."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        clock: Clock,
        launch: Callable[[Run], None],
        expire: Callable[[Expire], None],
        observe: Callable[[Sequence[Event]], None],
        resize: Callable[[], None] = _nothing,
    ) -> None:
        """Wire the shell.

        Args:
            scheduler: The core.
            clock: The time.
            launch: Starts a run on its instance, without waiting for it.
            expire: Answers a request that was given up.
            observe: Takes what happened, once a turn.
            resize: Does what the scheduler has decided about memory, before runs are started.
        """
        self._resize = resize
        self.scheduler = scheduler
        self._clock = clock
        self._launch = launch
        self._expire = expire
        self._observe = observe
        self._loop: Loop | None = None
        self._timer: Timer | None = None
        self._timer_ns = 0
        self._turn_is_due = False
        self._turned_ns = -QUIET_NS

    def attach(self, loop: Loop | None = None) -> None:
        """Live on this loop (the running one by default)."""
        self._loop = loop or asyncio.get_running_loop()

    def submit(self, request: Request, now_ns: int) -> Verdict:
        """Offer a request to the scheduler now."""
        verdict = self.scheduler.submit(request, now_ns=now_ns)
        if self._turn_is_due:
            return verdict
        if isinstance(verdict, Rejected) and now_ns < self._turned_ns + QUIET_NS:
            self._arm_for(self._turned_ns + QUIET_NS, now_ns)
        else:
            self.turn_soon()
        return verdict

    def cancel(self, request_id: int) -> bool:
        """Take back a request that still waits."""
        is_cancelled = self.scheduler.cancel(request_id, now_ns=self._clock.now_ns())
        self.turn_soon()
        return is_cancelled

    def complete(self, run_id: int, outcome: Outcome) -> None:
        """A run has ended."""
        self.scheduler.complete(run_id, now_ns=self._clock.now_ns(), outcome=outcome)
        self.turn_soon()

    def suspend(self, run_id: int) -> None:
        """A run leaves its device to others until it ends."""
        self.scheduler.suspend(run_id)
        self.turn_soon()

    def extend(self, run_id: int, size_bytes: int) -> bool:
        """A run needs more memory than was expected; whether it gets that."""
        is_granted = self.scheduler.extend(run_id, size_bytes)
        self._resize()
        return is_granted

    def drain(self) -> None:
        """Admit nobody any more; what is in leaves as fast as it can."""
        self.scheduler.drain()
        self.turn_soon()

    def turn(self) -> None:
        """Do what is due and set the timer for what is not."""
        self._turn_is_due = False
        self._turned_ns = now_ns = self._clock.now_ns()
        actions = self.scheduler.poll(now_ns=now_ns)
        self._resize()
        for action in actions:
            match action:
                case Run():
                    self._launch(action)
                case Expire():
                    self._expire(action)
        self._observe(self.scheduler.drain_events())
        self._arm()

    def turn_soon(self) -> None:
        """Ask the scheduler again at the end of the loop's iteration."""
        if not self._turn_is_due:
            assert self._loop is not None, "the driver is not attached to a loop"
            self._turn_is_due = True
            self._loop.call_soon(self.turn)

    def _arm(self) -> None:
        wakeup_ns = self.scheduler.wakeup_ns()
        if wakeup_ns is not None:
            self._arm_for(wakeup_ns, self._clock.now_ns())
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm_for(self, wakeup_ns: int, now_ns: int) -> None:
        if self._timer is not None:
            # An earlier timer may stay: it turns, finds nothing due and arms the next.
            if self._timer_ns <= wakeup_ns:
                return
            self._timer.cancel()
        assert self._loop is not None
        self._timer = self._loop.call_later(max(0, wakeup_ns - now_ns) / 1e9, self._wake)
        self._timer_ns = wakeup_ns

    def _wake(self) -> None:
        self._timer = None
        self.turn()
