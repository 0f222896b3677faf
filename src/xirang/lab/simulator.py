"""A scheduler on a virtual clock, by default the server's own; devices are arithmetic.

Time jumps from event to event: a request arrives, a run ends, the scheduler's wakeup comes. At
each of them the scheduler is told the facts, then polled once, exactly as the live driver does
it. What happens is told to watchers: one folds the results (simulator_result.py), others check
the rules (checkers.py).
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import exp
from random import Random
from typing import Protocol

from xirang.core.cost import COLD_RUNS, CostModel, Sample
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Action, Done, Outcome, Rejected, Run, Verdict
from xirang.core.scheduler import Scheduler

Following = Callable[[Request, int], Request | None]
"""What the client of an answered request sends next, given the time."""


@dataclass(frozen=True, slots=True)
class Law:
    """The true time of a run; the cost model has to find it out.

    t(rows, length) = call + row·rows + element·rows·length + square·rows·length²
    """

    call_ns: float
    row_ns: float = 0.0
    element_ns: float = 0.0
    square_ns: float = 0.0

    def run_ns(self, *, rows: int, length: int) -> float:
        """How long a run takes on a quiet machine."""
        row_ns = self.row_ns + length * (self.element_ns + length * self.square_ns)
        return self.call_ns + rows * row_ns

    def learned(self, *, rows_max: int, lengths: Sequence[int]) -> CostModel:
        """A cost model that was fitted to a small grid of quiet runs, as at load."""
        rows = sorted({1, 2, max(1, rows_max // 4), rows_max})
        grid = [(r, length) for r in rows for length in lengths]
        cost = CostModel()
        samples = [Sample(r, n, max(1, round(self.run_ns(rows=r, length=n)))) for r, n in grid]
        cost.fit(samples * COLD_RUNS)  # each was measured several times
        return cost


@dataclass(slots=True)
class Service:
    """One model's execution: its law and what disturbs it.

    Attributes:
        law: The quiet time.
        noise: Sigma of a lognormal factor with median 1.
        outliers: Share of runs that are slow.
        outlier_factor: How slow.
        blips: Planned slow runs: which of its runs, counted from 0, to its factor.
        random: Source of noise and outliers.
    """

    law: Law
    noise: float = 0.0
    outliers: float = 0.0
    outlier_factor: float = 10.0
    blips: Mapping[int, float] = field(default_factory=dict)
    random: Random = field(default_factory=lambda: Random(0))
    runs: int = 0

    def ran_ns(self, run: Run) -> int:
        """How long this run takes."""
        time_ns = self.law.run_ns(rows=run.rows, length=run.length)
        if self.noise:
            time_ns *= exp(self.random.gauss(0.0, self.noise))
        if self.outliers and self.random.random() < self.outliers:
            time_ns *= self.outlier_factor
        if self.blips:
            time_ns *= self.blips.get(self.runs, 1.0)
        self.runs += 1
        return max(1, round(time_ns))


class Schedules(Protocol):
    """What is asked of a scheduler: the calls of core/scheduler.py that a driver makes."""

    def add_model(self, name: str, policy: Policy, cost: CostModel) -> None:
        """Take requests for one more model."""
        ...

    def submit(self, request: Request, *, now_ns: int) -> Verdict:
        """A request came."""
        ...

    def complete(self, run_id: int, *, now_ns: int, outcome: Outcome) -> Run:
        """A run ended."""
        ...

    def poll(self, *, now_ns: int) -> Sequence[Action]:
        """What must happen now."""
        ...

    def wakeup_ns(self) -> int | None:
        """When to poll next if nothing else happens."""
        ...


class Watcher(Protocol):
    """Whoever wants to know what happens; every time is the virtual one."""

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """A request came to the door, at its arrival time."""
        ...

    def on_start(self, run: Run) -> None:
        """An instance began a run."""
        ...

    def on_end(self, run: Run, now_ns: int) -> None:
        """A run ended; all its requests were answered."""
        ...

    def on_expire(self, request: Request, now_ns: int) -> None:
        """A request was given up."""
        ...

    def on_poll(self, now_ns: int) -> None:
        """The scheduler has decided; nothing more happens at this instant by itself."""
        ...


class Silent:
    """A watcher of nothing; others override what they want to know."""

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """Nothing."""

    def on_start(self, run: Run) -> None:
        """Nothing."""

    def on_end(self, run: Run, now_ns: int) -> None:
        """Nothing."""

    def on_expire(self, request: Request, now_ns: int) -> None:
        """Nothing."""

    def on_poll(self, now_ns: int) -> None:
        """Nothing."""


class Simulator:
    """Feeds one scheduler until nothing is left to happen."""

    def __init__(
        self,
        models: Mapping[str, tuple[Policy, CostModel, Service]],
        *,
        devices: Mapping[str, int],
        watchers: Sequence[Watcher] = (),
        scheduler: Schedules | None = None,
    ) -> None:
        """Give the scheduler its models.

        Args:
            models: Name to how it is scheduled, what is believed and what is true of its cost.
            devices: Name to the number of runs that it holds at once.
            watchers: Told in this order.
            scheduler: A new one; the server's own if none is given.
        """
        self.scheduler = scheduler or Scheduler(devices=dict(devices))
        self.now_ns = 0
        for name, (policy, cost, _) in models.items():
            self.scheduler.add_model(name, policy, cost)
        self._services = {name: service for name, (_, _, service) in models.items()}
        self._watchers = tuple(watchers)
        # Heap of (instant, tie-break, what): a run that ends, or a request that answers brought on.
        self._agenda: list[tuple[int, int, Run | Request]] = []
        self._order = count()
        self._following: Following | None = None

    def run(self, requests: Iterable[Request], *, following: Following | None = None) -> None:
        """Play all requests to their end.

        Args:
            requests: By arrival.
            following: For closed loops: who asks next after an answer.
        """
        self._following = following
        scheduler, agenda = self.scheduler, self._agenda
        upcoming = iter(requests)
        coming = next(upcoming, None)
        while (now_ns := _earliest_ns(coming, agenda, scheduler.wakeup_ns())) is not None:
            assert now_ns >= self.now_ns
            self.now_ns = now_ns
            while coming is not None and coming.arrival_ns <= now_ns:
                self._submit(coming)
                coming = next(upcoming, None)
            while agenda and agenda[0][0] <= now_ns:
                what = heapq.heappop(agenda)[2]
                if isinstance(what, Run):
                    self._end(what)
                else:
                    self._submit(what)
            self._poll()

    def _submit(self, request: Request) -> None:
        verdict = self.scheduler.submit(request, now_ns=self.now_ns)
        for watcher in self._watchers:
            watcher.on_arrival(request, verdict)
        if isinstance(verdict, Rejected):
            self._answer(request, self.now_ns + verdict.retry_after_ns)

    def _end(self, run: Run) -> None:
        now_ns = self.now_ns
        ended = self.scheduler.complete(
            run.id, now_ns=now_ns, outcome=Done(ran_ns=now_ns - run.start_ns)
        )
        for watcher in self._watchers:
            watcher.on_end(ended, now_ns)
        if self._following:
            for request in ended.requests:
                self._answer(request, now_ns)

    def _poll(self) -> None:
        now_ns = self.now_ns
        for action in self.scheduler.poll(now_ns=now_ns):
            if isinstance(action, Run):
                ran_ns = self._services[action.model].ran_ns(action)
                heapq.heappush(self._agenda, (now_ns + ran_ns, next(self._order), action))
                for watcher in self._watchers:
                    watcher.on_start(action)
            else:
                for watcher in self._watchers:
                    watcher.on_expire(action.request, now_ns)
                self._answer(action.request, now_ns)
        for watcher in self._watchers:
            watcher.on_poll(now_ns)
        wakeup_ns = self.scheduler.wakeup_ns()
        assert wakeup_ns is None or wakeup_ns > now_ns, "a poll leaves nothing undone"

    def _answer(self, request: Request, now_ns: int) -> None:
        if self._following is None:
            return
        follower = self._following(request, now_ns)
        if follower is not None:
            heapq.heappush(self._agenda, (follower.arrival_ns, next(self._order), follower))


def _earliest_ns(
    coming: Request | None, agenda: Sequence[tuple[int, int, object]], wakeup_ns: int | None
) -> int | None:
    times = [] if wakeup_ns is None else [wakeup_ns]
    if coming is not None:
        times.append(coming.arrival_ns)
    if agenda:
        times.append(agenda[0][0])
    return min(times, default=None)
