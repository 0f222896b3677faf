"""Notices runs that do not end, and tells the truth about who can still run.

A thread that hangs cannot be ended from outside. What can be done is to say so: its device is left
to others, whoever waits is told when the budget is spent, its model is not ready once no instance
of it is left, and the server is not live when waiting longer has become pointless, so that whoever
watches it starts it anew. Worker processes that hang are ended and replaced by their keepers
(`backends/isolated`); their runs only count as long as they are away.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from xirang.core.run import Run
from xirang.engine.clock import Clock
from xirang.engine.driver import Loop
from xirang.engine.pending import Served
from xirang.observe.statistics import Statistics

log = logging.getLogger(__name__)

TICK_S = 1.0

HANG_NS = 60_000_000_000
"""The limit where nobody sets one."""

PATIENCE = 20
"""A run that takes so many times its prediction is no late run any more."""

HOPELESS = 2
"""After so many times the limit nobody expects a run to end."""


@dataclass(slots=True, eq=False)
class Guarded:
    """One model's instances.

    Attributes:
        served: They and their processes, if they have any.
        hang_ns: A run that takes longer is taken for hung.
        stalled: Number of a run that hangs, to the time at which there is no hope for it.
        restarts_told: Replaced processes that the statistics know of.
    """

    served: Served
    hang_ns: int
    stalled: dict[int, int] = field(default_factory=dict)
    restarts_told: int = 0

    @property
    def is_stalled(self) -> bool:
        """Whether all instances hang."""
        return len(self.stalled) >= self.served.policy.instances

    @property
    def can_run(self) -> bool:
        """Whether some instance can run something."""
        workers = self.served.workers
        return not self.is_stalled and (workers is None or workers.living > 0)


class Watchdog:
    """One timer for all runs."""

    def __init__(
        self,
        clock: Clock,
        *,
        on_stall: Callable[[Run], None],
        on_tick: Callable[[Run], None],
    ) -> None:
        """Guard nothing yet.

        Args:
            clock: The time.
            on_stall: Called once for a run that hangs.
            on_tick: Called each second for a run that hangs or was paused.
        """
        self._clock = clock
        self._on_stall = on_stall
        self._on_tick = on_tick
        self._loop: Loop | None = None
        self._guarded: dict[str, Guarded] = {}
        self._running: dict[int, tuple[Run, int]] = {}
        self._late: set[int] = set()
        self._is_armed = False

    def attach(self, loop: Loop) -> None:
        """Live on this loop."""
        self._loop = loop

    def guard(self, lanes: str, served: Served, *, hang_ns: int) -> None:
        """Watch the instances of one more model."""
        self._guarded[lanes] = Guarded(served, hang_ns)

    def forget(self, lanes: str) -> list[Run]:
        """A model goes; the runs that it leaves behind."""
        del self._guarded[lanes]
        left = [run for run, _ in self._running.values() if run.model == lanes]
        for run in left:
            del self._running[run.id]
            self._late.discard(run.id)
        return left

    # ------------------------------------------------------------------ runs

    def began(self, run: Run) -> None:
        """An instance has it."""
        guarded = self._guarded[run.model]
        limit_ns = max(guarded.hang_ns, PATIENCE * run.predicted_ns)
        workers = guarded.served.workers
        if workers is not None and workers.hang_s * 1e9 < limit_ns:
            workers.hang_s = limit_ns / 1e9
        self._running[run.id] = (run, limit_ns)
        if not self._is_armed:
            self._arm()

    def pause(self, run: Run) -> bool:
        """It waits, for a process or for ever; false if its model has gone meanwhile."""
        if not self.knows(run):
            return False
        self._late.add(run.id)
        return True

    def running(self) -> Iterator[Run]:
        """All runs that have begun and not ended."""
        for run, _ in self._running.values():
            yield run

    def knows(self, run: Run) -> bool:
        """Whether its model has not gone meanwhile."""
        return run.id in self._running

    def ended(self, run: Run) -> bool:
        """Its results are here; whether it was away so long that some may have left."""
        del self._running[run.id]
        if run.id not in self._late:
            return False
        self._late.discard(run.id)
        self._guarded[run.model].stalled.pop(run.id, None)
        return True

    # ------------------------------------------------------------------ truth

    def stalled(self, lanes: str) -> int:
        """How many instances of a model hang."""
        return len(self._guarded[lanes].stalled)

    def can_run(self, lanes: str | None = None) -> bool:
        """Whether some instance of a model, or of each, can run something."""
        if lanes is not None:
            return self._guarded[lanes].can_run
        return all(guarded.can_run for guarded in self._guarded.values())

    def is_live(self) -> bool:
        """Whether no model is lost for good."""
        now_ns = self._clock.now_ns()
        return not any(
            guarded.is_stalled and max(guarded.stalled.values()) < now_ns
            for guarded in self._guarded.values()
            if guarded.served.workers is None
        )

    def tell(self, statistics: Statistics) -> None:
        """Write down how many instances hang, and how often processes were replaced."""
        for lanes, guarded in self._guarded.items():
            workers = guarded.served.workers
            restarts = 0 if workers is None else workers.restarts
            more, guarded.restarts_told = restarts - guarded.restarts_told, restarts
            statistics.note_faults(lanes, stalled=len(guarded.stalled), restarted=more)

    def _arm(self) -> None:
        assert self._loop is not None
        self._is_armed = True
        self._loop.call_later(TICK_S, self._look)

    def _look(self) -> None:
        now_ns = self._clock.now_ns()
        for run, limit_ns in list(self._running.values()):
            if now_ns - run.start_ns > limit_ns:
                self._note(run, limit_ns)
            if run.id in self._late:
                self._on_tick(run)
        self._is_armed = False
        if self._running:
            self._arm()

    def _note(self, run: Run, limit_ns: int) -> None:
        stalled = self._guarded[run.model].stalled
        if run.id in stalled:
            return
        stalled[run.id] = run.start_ns + HOPELESS * limit_ns
        log.error(
            "instance %d of model %s hangs: its run %d has taken more than %.1f s",
            *(run.instance, run.model, run.id, limit_ns / 1e9),
        )
        self._on_stall(run)
