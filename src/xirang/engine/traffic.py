"""Who is on the way between the door and the answer: entered, run, and answered exactly once."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xirang.core.admission.gate import GOING
from xirang.core.event import Event, RequestExpired, RequestRejected
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Cause, Expire, Failed, Outcome, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.engine.call import Call, Ran, Terms
from xirang.engine.clock import Clock
from xirang.engine.driver import Driver
from xirang.engine.extent import Extent
from xirang.engine.instances import Post
from xirang.engine.lifecycle import Farewells
from xirang.engine.memory import Housing
from xirang.engine.pending import Finish, Pending, Served, drop, ran_of, request_of, without
from xirang.engine.watchdog import Watchdog
from xirang.errors import Cancelled, Expired, NotReady, TooBusy, TooLarge, XirangError

_PLAIN = Policy()
"""Of what has no lanes of its own, being made of other models."""


class Traffic:
    """Lanes of any kind, whoever is in them, and the instances behind them.

    Attributes:
        pending: Who waits for an answer, by id.
        housing: Where runs take their memory.
        served: What stands behind the lanes of each name.
        driver: The shell around the scheduler.
        watchdog: Notices runs that do not end.
        is_draining: Whether nobody is admitted any more.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        clock: Clock,
        observe: Callable[[Sequence[Event]], None],
        sent: Callable[[str, int, int], None],
    ) -> None:
        """Nobody is on the way.

        Args:
            scheduler: Decides who runs when.
            clock: The time.
            observe: Takes what happened, once a turn.
            sent: Takes of each run its lanes, how many were answered, and in which time.
        """
        self.housing = Housing(scheduler)
        self.pending: dict[int, Pending] = {}
        self.served: dict[str, Served] = {}
        self.watchdog = Watchdog(clock, on_stall=self.leave_device, on_tick=self._overdue)
        self.driver = Driver(
            scheduler,
            clock=clock,
            launch=self._launch,
            expire=self._expired,
            observe=observe,
            resize=self.housing.follow,
        )
        self.is_draining = False
        self._scheduler = scheduler
        self._clock, self._now_ns = clock, clock.now_ns
        self._observe = observe
        self._sent = sent
        self._farewells = Farewells()
        self._emptied: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_id = 1

    # ------------------------------------------------------------------ life

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Live on this loop; starts the instances' threads."""
        assert self._loop is None
        self._loop = loop
        self.driver.attach(loop)
        self.watchdog.attach(loop)
        for lanes, served in self.served.items():
            self._open(lanes, served)

    def open(self, lanes: str, served: Served, *, hang_ns: int) -> None:
        """Take members for one more name, which the scheduler knows already.

        Args:
            lanes: The name.
            served: What stands behind it.
            hang_ns: A run that takes longer is taken for hung.
        """
        self.served[lanes] = served
        self.watchdog.guard(lanes, served, hang_ns=hang_ns)
        if self._loop is not None:
            self._open(lanes, served)

    async def close(self, lanes: str) -> Served:
        """Wait until everybody who is in has been answered; what stood behind them."""
        inside = [each for each in self.pending.values() if each.request.model == lanes]
        await self._farewells.wait(lanes, len(inside))
        hung = self.watchdog.forget(lanes)  # nobody waits for them any more
        for run in hung:
            self.driver.complete(run.id, Failed(tuple([each.id for each in run.requests])))
        self._observe(self._scheduler.drain_events())
        self._scheduler.remove_model(lanes)
        self.housing.close(lanes, in_use=[run.instance for run in hung])
        if self._loop is not None:
            self.driver.turn_soon()  # somebody may wait for what it held
        return self.served.pop(lanes)

    async def drain(self) -> None:
        """Admit nobody any more; return when everybody who is in has been answered."""
        self.is_draining = True
        # Requests that are in may be made of others, which are not in yet: until all are answered
        # newcomers are turned away here and not by the scheduler.
        if not any(served.asks_others for served in self.served.values()):
            self.driver.drain()
        if self.pending:
            self._emptied = self._emptied or asyncio.Event()
            await self._emptied.wait()
        self.driver.drain()

    def _open(self, lanes: str, served: Served) -> None:
        assert self._loop is not None
        post = Post(self._loop, self._clock, self._finished, self.leave_device, self.driver.extend)
        served.open(lanes, post)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """On which all of this lives; None before."""
        return self._loop

    # ------------------------------------------------------------------ in

    def enter(
        self,
        lanes: str,
        member: Any,
        extent: Extent,
        times: tuple[int, int],
        terms: Terms | Call,
        finish: Finish,
    ) -> int:
        """Offer one member to the scheduler.

        Args:
            lanes: Where it shall wait.
            member: What an instance's work takes.
            extent: How large it is.
            times: Arrival and deadline.
            terms: Its priority, and whose it is.
            finish: Gets the result once.

        Returns:
            The request's id.

        Raises:
            XirangError: It is not admitted, and why; nothing will be finished then.
        """
        if self._loop is None:
            raise NotReady("the engine has not been started; expected `await engine.start()`")
        served = self.served[lanes]
        request = request_of(self._next_id, lanes, extent, times, terms, served.policy)
        self._next_id += 1
        if self.is_draining and not terms.is_inner:
            self._observe((RequestRejected(request, GOING.reason, Cause.DRAINING),))
            raise NotReady(GOING.reason)
        if times[1] <= (now_ns := self._now_ns()):
            self._observe((RequestExpired(request, now_ns),))
            raise Expired("the latency budget was spent before the request arrived")
        verdict = self.driver.submit(request, now_ns)
        if isinstance(verdict, Rejected):
            if verdict.cause is Cause.DRAINING:
                raise NotReady(verdict.reason)
            if verdict.cause is Cause.MEMORY:
                raise TooLarge(f"the request cannot be run: {verdict.reason}")
            raise TooBusy(verdict.reason, retry_after_ns=verdict.retry_after_ns)
        self.pending[request.id] = Pending(request, member, finish)
        if served.turns is not None:
            served.turns.enter(request.id)
        return request.id

    def hold(
        self,
        lanes: str,
        extent: Extent,
        times: tuple[int, int],
        terms: Terms | Call,
        finish: Callable[[Request], Finish],
    ) -> Request:
        """Take in a request that is no run, but made of others; `settle` lets it go.

        Args:
            lanes: Of what answers it.
            extent: How large it is.
            times: Arrival and deadline.
            terms: Its priority, and whose it is.
            finish: Makes what gets the result once.

        Raises:
            NotReady: Nobody is admitted any more.
        """
        request = self._made(lanes, extent, times, terms)
        if self.is_draining and not terms.is_inner:
            raise NotReady(GOING.reason)
        self.pending[request.id] = Pending(request, None, finish(request))
        return request

    def _made(
        self, lanes: str, extent: Extent, times: tuple[int, int], terms: Terms | Call
    ) -> Request:
        served = self.served.get(lanes)
        policy = _PLAIN if served is None else served.policy
        request = request_of(self._next_id, lanes, extent, times, terms, policy)
        self._next_id += 1
        return request

    def cancel(self, request_id: int) -> None:
        """The owner of a request went away."""
        if self.driver.cancel(request_id):
            self._settle(request_id, Cancelled("the client went away"))
        elif (pending := self.pending.get(request_id)) is not None:
            pending.finish = drop

    # ------------------------------------------------------------------ through, and out

    def _launch(self, run: Run) -> None:
        members = [self.pending[request.id].member for request in run.requests]
        self.watchdog.began(run)
        self.served[run.model].instances[run.instance].start(run, members)

    def _finished(self, run: Run, results: Sequence[Any], outcome: Outcome) -> None:
        if not self.watchdog.knows(run):
            return  # its model went meanwhile
        requests: Sequence[Request] = run.requests
        if self.watchdog.ended(run):
            requests, results, outcome = without(self.pending, run, results, outcome)
        self.driver.complete(run.id, outcome)
        ran = ran_of(run, outcome, end_ns=self._clock.now_ns())
        turns = self.served[run.model].turns
        for request, result in zip(requests, results, strict=True):
            finish = self.pending.pop(request.id).finish
            if turns is None:
                finish(result, ran)
            else:
                turns.answered(request.id, partial(finish, result, ran))
        self._sent(run.model, len(results), self._clock.now_ns() - ran.end_ns)
        self._note_answered(run.model, len(results))

    def _expired(self, expire: Expire) -> None:
        if expire.reason:
            reason = f"the request cannot be run any more: {expire.reason}"
            self._settle(expire.request.id, TooLarge(reason))
        else:
            self._expire(expire.request)

    def _expire(self, request: Request) -> None:
        budget_ms = (request.deadline_ns - request.arrival_ns) / 1e6
        reason = f"Request timeout expired: the budget of {budget_ms:g} ms cannot be kept any more"
        self._settle(request.id, Expired(reason))

    def leave_device(self, run: Run) -> None:
        """A run waits for something else than the device, and leaves it to others until it ends."""
        if self.watchdog.pause(run):
            self.driver.suspend(run.id)

    def _overdue(self, run: Run) -> None:
        now_ns = self._clock.now_ns()
        for request in run.requests:
            if request.deadline_ns <= now_ns and request.id in self.pending:
                self._expire(request)

    def _settle(self, request_id: int, error: XirangError) -> None:
        self.settle(request_id, error, None)

    def settle(self, request_id: int, result: Any, ran: Ran | None) -> None:
        """Let a request go that is not in a run, with an answer or an error."""
        settled = self.pending.pop(request_id)
        settled.finish(result, ran)
        served = self.served.get(settled.request.model)
        if served is not None and served.turns is not None:
            served.turns.left(request_id)
        self._note_answered(settled.request.model, 1)

    def _note_answered(self, lanes: str, count: int) -> None:
        if self._farewells:
            self._farewells.note(lanes, count)
        if self._emptied is not None and not self.pending:
            self._emptied.set()
