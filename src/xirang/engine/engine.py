"""The engine: requests in, answers out by callback; models on instances behind one scheduler."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from xirang.backends.requests import Unsupported, takes_requests
from xirang.core.cost import CostModel
from xirang.core.event import Event, EvictionProposed, Function
from xirang.core.policy import Policy
from xirang.core.scheduler import Scheduler
from xirang.core.snapshot import Snapshot
from xirang.engine.cache import AnswerCache, key_of
from xirang.engine.call import Answer, Call, Ran, settling
from xirang.engine.clock import Clock, MonotonicClock, unix_ms
from xirang.engine.economy import Economy
from xirang.engine.ensembles import Ensembles, Nobody
from xirang.engine.eviction import Evictions
from xirang.engine.extent import Extent
from xirang.engine.info import ModelInfo, describe
from xirang.engine.inner import InnerCalls
from xirang.engine.instances import Instance, MakeInstance, Post, Startable
from xirang.engine.lifecycle import UNLOADED, Roster, State, named
from xirang.engine.member import Member
from xirang.engine.model import Model
from xirang.engine.parts import Join, cut_rows
from xirang.engine.pending import (
    FinishOne,
    Served,
    Ticket,
)
from xirang.engine.traffic import Traffic
from xirang.engine.watchdog import HANG_NS
from xirang.engine.work import work_of
from xirang.errors import XirangError
from xirang.observe.memory_metrics import memory_as_json
from xirang.observe.metrics import render
from xirang.observe.statistics import Statistics
from xirang.observe.watch import Watch
from xirang.tensors.tensor import Array

log = logging.getLogger(__name__)


class Engine:
    """Serves models on the running event loop."""

    def __init__(
        self,
        *,
        parallelism: int = 1,
        clock: Clock | None = None,
        is_loading: bool = False,
        scheduler: Scheduler | None = None,
        cache_bytes: int = 0,
    ) -> None:
        """Start with no models.

        Args:
            parallelism: Runs that the device holds at once; for a CPU its cores.
            clock: The time; the machine's own by default.
            is_loading: Not ready until `set_loaded` is called.
            scheduler: One that has that device; a new one by default.
            cache_bytes: What kept answers may take, for models that have theirs kept.
        """
        self.roster = Roster(is_loading=is_loading)
        self.economy = Economy(self.roster)
        self.cache = AnswerCache(cache_bytes)
        self._clock = clock or MonotonicClock()
        self._scheduler = scheduler or Scheduler(devices={"cpu": parallelism})
        self._statistics = Statistics(unix_ms=unix_ms)
        self.traffic = Traffic(
            self._scheduler,
            clock=self._clock,
            observe=self._observe,
            sent=self._statistics.note_sent,
        )
        self._inner = InnerCalls(self.traffic, self.submit, self._clock)
        self._ensembles = Ensembles(self.traffic, self.submit, self._statistics, self._clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.evictions = Evictions(self.traffic.housing, self.roster, self.unload)
        self._is_retiring = False
        self.needs_all = True

    # ------------------------------------------------------------------ life

    def add(self, model: Model, *, counted_as: str | None = None) -> None:
        """Serve one more model, loaded and probed.

        Args:
            model: It answers to its name and version from now on.
            counted_as: The name of its series, whose counts go on; a new one by default.
        """

        def make(name: str, post: Post) -> Startable:
            place = self.traffic.housing.place(model.lanes, model.executable, post.ask)
            if model.pipeline is not None:
                return Nobody()
            return Instance(name, work_of(model, self._inner, place), post, place)

        others = self.roster.versions(model.name)
        name = counted_as or (f"{model.name}/{model.version}" if others else model.name)
        numbered = (f"{name}@{number}" for number in count(2))
        lanes = next(each for each in chain([name], numbered) if each not in self.traffic.served)
        self.add_lanes(lanes, model.policy, model.cost, make, model=model, counted_as=name)

    def replace(self, model: Model, *, version: str | None = None) -> Awaitable[None]:
        """Serve a model in the place of another from now on.

        Args:
            model: Takes over at once.
            version: Of the other one; the model's own by default.

        Returns:
            What is done when the other one has answered everybody who was in.
        """
        old = self.roster.find(model.name, version or model.version)
        self.add(model, counted_as=self._statistics.name_of(old.lanes))
        is_shown = old.version != model.version
        if is_shown:
            self.roster.note(old.name, old.version, State.UNLOADING)
        return self._let_go(old, is_shown=is_shown)

    def unload(self, name: str, version: str) -> Awaitable[None]:
        """Serve a model no more from now on.

        Returns:
            What is done when it has answered everybody who was in.

        Raises:
            UnknownModel: It is not served.
        """
        model = self.roster.find(name, version)
        self.roster.note(name, version, State.UNLOADING)
        return self._let_go(model, is_shown=True)

    async def _let_go(self, model: Model, *, is_shown: bool) -> None:
        served = await self.traffic.close(model.lanes)
        self.cache.forget(model.lanes)
        self._statistics.drop_lanes(model.lanes)
        await asyncio.to_thread(served.close)
        if is_shown:
            self.roster.note(model.name, model.version, State.UNAVAILABLE, UNLOADED)

    def add_lanes(
        self,
        name: str,
        policy: Policy,
        cost: CostModel,
        make: MakeInstance,
        *,
        model: Model | None = None,
        counted_as: str | None = None,
    ) -> None:
        """Schedule members of any kind under a name; `enter` takes them.

        Args:
            name: Of the lanes.
            policy: How they are scheduled.
            cost: How long their runs take.
            make: Makes one instance, given its name and where results go.
            model: What clients may ask about, if there is a model.
            counted_as: The name of its series; that of the lanes by default.
        """
        claim = None
        if model is not None:
            self.traffic.housing.check(model)
            claim = model.claim
        self._scheduler.add_model(name, policy, cost, claim)
        version, load_ns = ("1", 0) if model is None else (model.version, model.load_ns)
        self._statistics.add_model(counted_as or name, version, lanes=name, load_ns=load_ns)
        if model is not None:
            model.lanes = name
            self.roster.put(model)
        asks_others = model is not None and (
            model.pipeline is not None or takes_requests(model.executable)
        )
        served = Served(policy, make, model.workers if model else None)
        served.asks_others = asks_others
        self.traffic.open(name, served, hang_ns=model.hang_ns if model else HANG_NS)

    async def start(self) -> "Engine":
        """Live on the running loop."""
        if self._loop is None:
            self.attach(asyncio.get_running_loop())
        return self

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Live on this loop; starts the instances' threads."""
        self._loop = loop
        self.traffic.attach(loop)

    def retire(self) -> None:
        """Be ready no more, so that nobody new is sent here; whoever comes is still served."""
        self._is_retiring = True

    async def drain(self) -> None:
        """Admit nobody any more; return when everybody who is in has been answered."""
        await self.traffic.drain()

    async def close(self) -> None:
        """Drain and end the threads."""
        if self._loop is None:
            return
        await self.drain()
        self.abandon()

    def abandon(self) -> None:
        """End the threads; who still waits is not answered: the loop is gone, or all were."""
        for lanes, served in self.traffic.served.items():
            served.close()
            self.traffic.housing.close(lanes)

    async def __aenter__(self) -> "Engine":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------ requests

    async def infer(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        budget_ms: float | None = None,
        priority: int = 0,
        outputs: Sequence[str] | None = None,
    ) -> dict[str, Array]:
        """Run one request.

        Args:
            model: Name of the model.
            inputs: Name to array (or nested list), batch axis first.
            budget_ms: Latency budget; the model's default if None.
            priority: 1 is the highest; 0 is the default.
            outputs: Names wanted; all if None.

        Returns:
            Name to array, rows in the order of the inputs.

        Raises:
            XirangError: What was wrong, or that it came too late.
        """
        await self.start()
        assert self._loop is not None
        future: asyncio.Future[dict[str, Array]] = self._loop.create_future()
        found = self.roster.find(model)
        tensors = {name: found.tensor(name, value) for name, value in inputs.items()}
        ticket = self.submit(
            Call(
                model=model,
                inputs=tensors,
                reply=settling(future),
                outputs=None if outputs is None else tuple(outputs),
                budget_ns=None if budget_ms is None else int(budget_ms * 1e6),
                priority=priority,
            )
        )
        try:
            return await future
        except asyncio.CancelledError:
            ticket.cancel()
            raise

    def submit(self, call: Call) -> Ticket:
        """Take one decoded request; `call.reply` gets its answer.

        Raises:
            XirangError: It is not admitted, and why; nothing will be replied then.
        """
        model = self.roster.find(call.model, call.version)
        if self.economy.off:
            model, call = self.economy.instead(model, call)
        extent = model.admit(call.inputs)
        wanted = model.wanted(call.outputs) if call.outputs else model.output_names
        arrival_ns = call.arrival_ns or self._clock.now_ns()
        budget_ns = model.budget_of(call.budget_ns, call.priority)
        if call.is_inner and call.budget_ns is not None:  # whatever its clients may ask for
            budget_ns = min(budget_ns, call.budget_ns)
        times = (arrival_ns, arrival_ns + budget_ns)
        if model.is_decoupled or model.keeps_answers or model.pipeline is not None:
            ticket = self._submit_specially(call, model, extent, wanted, times)
            if ticket is not None:
                return ticket
        if extent.rows > 1 and extent.rows > self.traffic.housing.rows_max(model, extent):
            return self._submit_parts(call, model, extent, wanted, times)
        inputs = call.inputs if extent.is_as_sent else model.prepare(call.inputs, extent)
        member = Member(inputs, extent, wanted, call.about, call.take_part)
        finish = FinishOne(call.reply, arrival_ns, model.version, extent.is_cropped)
        finish.request_id = self.traffic.enter(model.lanes, member, extent, times, call, finish)
        return Ticket(self.traffic, (finish.request_id,))

    def _submit_specially(
        self,
        call: Call,
        model: Model,
        extent: Extent,
        wanted: Sequence[str],
        times: tuple[int, int],
    ) -> Ticket | None:
        """A model that streams, remembers or is made of others; None: this time it just runs."""
        if model.is_decoupled and call.take_part is None:
            raise Unsupported(f"model '{model.name}' is decoupled: ask it by ModelStreamInfer")
        if model.keeps_answers and self._is_answered_already(call, model, extent, wanted, times):
            return Ticket(self.traffic, ())
        if model.pipeline is not None:
            return self._ensembles.submit(call, model, extent, wanted, times)
        return None

    def _is_answered_already(
        self,
        call: Call,
        model: Model,
        extent: Extent,
        wanted: Sequence[str],
        times: tuple[int, int],
    ) -> bool:
        """Answer from what is kept; what cannot be will be kept when it has been run."""
        begun_ns = self._clock.now_ns()
        if self.traffic.is_draining or begun_ns >= times[1]:
            return False  # it is turned away like all others
        key = key_of(model.lanes, wanted, call.inputs)
        outputs = self.cache.find(key)
        now_ns = self._clock.now_ns()
        if outputs is None:
            self._statistics.note_miss(model.lanes, now_ns - begun_ns)
            if not self.is_off(Function.CACHE_WRITES):
                call.reply = self.cache.keeping(key, call.reply)
            return False
        self._statistics.note_hit(model.lanes, now_ns - begun_ns, now_ns - times[0])
        ran = Ran(rows=0, padding=0.0, start_ns=now_ns, end_ns=now_ns)
        waited_ns = now_ns - times[0]
        call.reply(Answer(outputs, waited_ns, ran, 0, model.version, extent.is_cropped))
        return True

    def _submit_parts(
        self,
        call: Call,
        model: Model,
        extent: Extent,
        wanted: Sequence[str],
        times: tuple[int, int],
    ) -> Ticket:
        """A request with more rows than a run may hold: cut, run in parts, join again."""
        signature, rows_max = model.signature, self.traffic.housing.rows_max(model, extent)
        parts = cut_rows(model.prepare(call.inputs, extent), extent, rows_max, signature)
        join = Join(
            call.reply,
            count=len(parts),
            arrival_ns=times[0],
            signature=signature,
            version=model.version,
        )
        join.is_cropped = extent.is_cropped
        ids = join.request_ids
        ticket = Ticket(self.traffic, ids)
        join.on_error = ticket.cancel
        for index, (inputs, part) in enumerate(parts):
            member = Member(inputs, part, wanted)
            try:
                finish = join.finish(index)
                ids.append(self.traffic.enter(model.lanes, member, part, times, call, finish))
            except XirangError:
                join.close()
                ticket.cancel()
                raise
        return ticket

    # ------------------------------------------------------------------ what doors ask about

    def check_integrity(self) -> None:
        """Whoever waits for an answer is in the scheduler, and nobody else."""
        self._scheduler.check_integrity()
        snapshot = self._scheduler.snapshot(now_ns=self._clock.now_ns())
        assert len(self.traffic.pending) >= sum(model.waiting for model in snapshot.models)

    def now_ns(self) -> int:
        """The engine's time, for deadlines."""
        return self._clock.now_ns()

    def is_off(self, function: Function) -> bool:
        """Whether overload has switched something off."""
        return function in self.economy.off

    def is_live(self) -> bool:
        """Whether the loop answers, and no model hangs beyond hope."""
        return self.traffic.watchdog.is_live()

    def is_ready(self) -> bool:
        """Whether all models are served and new requests are admitted."""
        is_whole = self.roster.is_whole() or not self.needs_all
        return self._is_open() and is_whole and self.traffic.watchdog.can_run()

    def _is_open(self) -> bool:
        is_leaving = self._is_retiring or self.traffic.is_draining
        return self._loop is not None and not (self.roster.is_loading or is_leaving)

    def set_loaded(self) -> None:
        """Everything that shall be served has been added."""
        self.roster.is_loading = False

    def model_names(self) -> list[str]:
        """Names of the served models."""
        return self.roster.names()

    def index(self, *, only_ready: bool = False) -> list[dict[str, str]]:
        """All that is or might be served, in the form of the repository extension."""
        return self.roster.index(only_ready=only_ready)

    def model(self, name: str, version: str | None = None) -> ModelInfo:
        """What clients may know about a model.

        Raises:
            UnknownModel: There is none of that name or version.
        """
        model = self.roster.find(name, version)
        versions = (model.version,) if version else self.roster.versions(name)
        is_ready = self._is_open() and self.traffic.watchdog.can_run(model.lanes)
        return describe(model, versions, is_ready=is_ready)

    def statistics(self, name: str | None = None) -> dict[str, Any]:
        """Counts and times in the form of the statistics extension of the v2 protocol."""
        if name is not None:
            self.roster.find(name)
        return self._statistics.as_v2(name)

    def metrics_text(self, *, is_open: bool = False) -> str:
        """Prometheus text, or OpenMetrics."""
        now_ns, snapshot = self._look()
        return render(self._statistics, snapshot, now_ns=now_ns, is_open=is_open)

    @property
    def counts(self) -> Statistics:
        """What is counted, for those who watch."""
        return self._statistics

    def costs(self) -> dict[str, Any]:
        """Device time and padding by model and tenant."""
        return self._statistics.costs.as_json()

    def memory(self) -> dict[str, Any]:
        """What models share of the memory pool; empty where nobody counts."""
        memory = self._look()[1].memory
        return {} if memory is None else memory_as_json(memory)

    def watch(self) -> Watch:
        """A live look, until it is closed."""
        return Watch(self._statistics, self._look)

    def _look(self) -> tuple[int, Snapshot]:
        now_ns = self._clock.now_ns()
        snapshot = self._scheduler.snapshot(now_ns=now_ns)
        self.traffic.watchdog.tell(self._statistics)
        self._statistics.cache_bytes = self.cache.size_bytes
        return now_ns, named(snapshot, self._statistics.name_of)

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self._statistics.on_event(event)
            self.economy.note(event)
            if isinstance(event, EvictionProposed):
                self.evictions.propose(event)

    def resize_pool(self, capacity_bytes: int, *, is_pressed: bool = False) -> None:
        """There is more memory for models to share now, or less; or the system is short of it."""
        self._scheduler.resize_pool(capacity_bytes, is_pressed=is_pressed)
        self.traffic.driver.turn_soon()
