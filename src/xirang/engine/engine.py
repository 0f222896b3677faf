"""The engine: requests in, answers out by callback; models on instances behind one scheduler."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from xirang.core.cost import CostModel
from xirang.core.event import Event, RequestExpired
from xirang.core.policy import Policy
from xirang.core.request import PRIORITY_LOW, PRIORITY_NORMAL, Request
from xirang.core.run import Outcome, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.engine.call import Answer, Call, Ran, Reply
from xirang.engine.clock import Clock, MonotonicClock, unix_ms
from xirang.engine.driver import Driver
from xirang.engine.info import ModelInfo, describe
from xirang.engine.instances import Instance, MakeInstance, Post, Startable
from xirang.engine.model import Extent, Member, Model, TensorWork
from xirang.engine.parts import Join, cut_rows
from xirang.errors import (
    Cancelled,
    Expired,
    InvalidRequest,
    NotReady,
    TooBusy,
    UnknownModel,
    XirangError,
)
from xirang.observe.metrics import render
from xirang.observe.statistics import Statistics
from xirang.tensors.tensor import NUMPY_TYPES, Array, Tensor, of_array

Finish = Callable[[Any, Ran | None], None]
"""Takes a member's result or an error, and how its run went if it ran."""


class _Pending(msgspec.Struct, gc=False):
    """A request on its way: what an instance needs, and who waits for it."""

    request: Request
    member: Any
    finish: Finish


class _Finish(msgspec.Struct, frozen=True, gc=False):
    """The `Finish` of a call that is one member: no closure, because there is one a request."""

    reply: Reply
    arrival_ns: int

    def __call__(self, result: Any, ran: Ran | None) -> None:
        if ran is None or isinstance(result, XirangError):
            self.reply(result)
        else:
            self.reply(Answer(result, ran.start_ns - self.arrival_ns, ran))


@dataclass(slots=True, eq=False)
class _Served:
    """What stands behind the lanes of one name."""

    policy: Policy
    make: MakeInstance
    model: Model | None
    instances: list[Startable] = field(default_factory=list)


class Ticket(msgspec.Struct, frozen=True, gc=False):
    """A claim on an answer, to be given back if the client goes away."""

    engine: "Engine"
    request_ids: Sequence[int]

    def cancel(self) -> None:
        """Take the request out of its lane; if it already runs, its answer is dropped."""
        for request_id in self.request_ids:
            self.engine.cancel(request_id)


class Engine:
    """Serves models on the running event loop."""

    def __init__(
        self, *, parallelism: int = 1, clock: Clock | None = None, is_loading: bool = False
    ) -> None:
        """Start with no models.

        Args:
            parallelism: Runs that the device holds at once; for a CPU its cores.
            clock: The time; the machine's own by default.
            is_loading: Not ready until `set_loaded` is called.
        """
        self._is_loading = is_loading
        self._clock = clock or MonotonicClock()
        self._scheduler = Scheduler(devices={"cpu": parallelism})
        self._driver = Driver(
            self._scheduler,
            clock=self._clock,
            launch=self._launch,
            expire=self._expire,
            observe=self._observe,
        )
        self._statistics = Statistics(unix_ms=unix_ms)
        self._served: dict[str, _Served] = {}
        self._pending: dict[int, _Pending] = {}
        self._next_id = 1
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_draining = False
        self._emptied: asyncio.Event | None = None

    # ------------------------------------------------------------------ life

    def add(self, model: Model) -> None:
        """Serve one more model, loaded and probed."""

        def make(name: str, post: Post) -> Startable:
            return Instance(name, TensorWork(model, model.executable), post)

        self.add_lanes(model.name, model.policy, model.cost, make, model=model)
        self._statistics.models[model.name].version = model.version

    def add_lanes(
        self,
        name: str,
        policy: Policy,
        cost: CostModel,
        make: MakeInstance,
        *,
        model: Model | None = None,
    ) -> None:
        """Schedule members of any kind under a name; `enter` takes them.

        Args:
            name: Of the lanes.
            policy: How they are scheduled.
            cost: How long their runs take.
            make: Makes one instance, given its name and where results go.
            model: What clients may ask about, if there is a model.
        """
        served = _Served(policy, make, model)
        self._scheduler.add_model(name, policy, cost)
        self._statistics.add_model(name, "1")
        self._served[name] = served
        if self._loop is not None:
            self._start_instances(name, served)

    async def start(self) -> "Engine":
        """Live on the running loop."""
        if self._loop is None:
            self.attach(asyncio.get_running_loop())
        return self

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Live on this loop; starts the instances' threads."""
        assert self._loop is None
        self._loop = loop
        self._driver.attach(loop)
        for name, served in self._served.items():
            self._start_instances(name, served)

    async def drain(self) -> None:
        """Admit nobody any more; return when everybody who is in has been answered."""
        self._is_draining = True
        self._driver.drain()
        if self._pending:
            self._emptied = self._emptied or asyncio.Event()
            await self._emptied.wait()

    async def close(self) -> None:
        """Drain and end the threads."""
        if self._loop is None:
            return
        await self.drain()
        self.abandon()

    def abandon(self) -> None:
        """End the threads; who still waits is not answered: the loop is gone, or all were."""
        for served in self._served.values():
            for instance in served.instances:
                instance.close()
            served.instances.clear()

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

        def reply(answer: Answer | XirangError) -> None:
            if future.done():
                return
            if isinstance(answer, XirangError):
                future.set_exception(answer)
            else:
                future.set_result(answer.outputs)

        tensors = {name: self._tensor(model, name, value) for name, value in inputs.items()}
        ticket = self.submit(
            Call(
                model=model,
                inputs=tensors,
                reply=reply,
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
        model = self._find(call.model, call.version)
        extent = model.admit(call.inputs)
        names = model.output_names
        wanted = _known(call.outputs, names, call.model) if call.outputs else names
        arrival_ns = self._clock.now_ns()
        budget_ns = model.budget_ns if call.budget_ns is None else call.budget_ns
        times = (arrival_ns, arrival_ns + budget_ns)
        if extent.rows > model.policy.max_batch_size:
            return self._submit_parts(call, model, extent, wanted, times)
        member = Member(call.inputs, extent, wanted)
        finish = _Finish(call.reply, arrival_ns)
        request_id = self.enter(model.name, member, extent, times, call.priority, finish)
        return Ticket(self, (request_id,))

    def enter(
        self,
        name: str,
        member: Any,
        extent: Extent,
        times: tuple[int, int],
        priority: int,
        finish: Finish,
    ) -> int:
        """Offer one member to the scheduler.

        Args:
            name: Of the lanes.
            member: What an instance's work takes.
            extent: How large it is.
            times: Arrival and deadline.
            priority: 1 is the highest, 0 the default.
            finish: Gets the result once.

        Returns:
            The request's id.
        """
        if self._loop is None:
            raise NotReady("the engine has not been started; expected `await engine.start()`")
        request = Request(
            id=self._next_id,
            model=name,
            arrival_ns=times[0],
            deadline_ns=times[1],
            priority=min(priority, PRIORITY_LOW) if priority > 0 else PRIORITY_NORMAL,
            rows=extent.rows,
            length=extent.length,
            group=extent.group,
        )
        self._next_id += 1
        if times[1] <= times[0]:
            self._observe((RequestExpired(request, times[0]),))
            raise Expired("the latency budget was spent before the request arrived")
        verdict = self._driver.submit(request)
        if isinstance(verdict, Rejected):
            if self._is_draining:
                raise NotReady(verdict.reason)
            raise TooBusy(verdict.reason, retry_after_ns=verdict.retry_after_ns)
        self._pending[request.id] = _Pending(request, member, finish)
        return request.id

    def cancel(self, request_id: int) -> None:
        """The owner of a request went away."""
        if self._driver.cancel(request_id):
            self._settle(request_id, Cancelled("the client went away"))
        elif (pending := self._pending.get(request_id)) is not None:
            pending.finish = _drop

    def _submit_parts(
        self,
        call: Call,
        model: Model,
        extent: Extent,
        wanted: Sequence[str],
        times: tuple[int, int],
    ) -> Ticket:
        """A request with more rows than a run may hold: cut, run in parts, join again."""
        parts = cut_rows(call.inputs, extent, model.policy.max_batch_size)
        join = Join(call.reply, count=len(parts), arrival_ns=times[0])
        ids: list[int] = []
        ticket = Ticket(self, ids)
        join.on_error = ticket.cancel
        for index, (inputs, part) in enumerate(parts):
            member = Member(inputs, part, wanted)
            try:
                ids.append(
                    self.enter(model.name, member, part, times, call.priority, join.finish(index))
                )
            except XirangError:
                join.close()
                ticket.cancel()
                raise
        return ticket

    # ------------------------------------------------------------------ what the driver asks for

    def _launch(self, run: Run) -> None:
        members = [self._pending[request.id].member for request in run.requests]
        self._served[run.model].instances[run.instance].start(run, members)

    def _expire(self, request: Request) -> None:
        budget_ms = (request.deadline_ns - request.arrival_ns) / 1e6
        reason = f"Request timeout expired: the budget of {budget_ms:g} ms cannot be kept any more"
        self._settle(request.id, Expired(reason))

    def _finished(self, run: Run, results: Sequence[Any], outcome: Outcome) -> None:
        self._driver.complete(run.id, outcome)
        share = run.padding / run.elements
        ran = Ran(run.rows, share, run.start_ns, self._clock.now_ns())
        pending = self._pending
        for request, result in zip(run.requests, results, strict=True):
            pending.pop(request.id).finish(result, ran)
        self._note_emptied()

    def _settle(self, request_id: int, error: XirangError) -> None:
        self._pending.pop(request_id).finish(error, None)
        self._note_emptied()

    def _note_emptied(self) -> None:
        if self._emptied is not None and not self._pending:
            self._emptied.set()

    def _observe(self, events: Sequence[Event]) -> None:
        for event in events:
            self._statistics.on_event(event)

    def _start_instances(self, name: str, served: _Served) -> None:
        assert self._loop is not None
        post = Post(self._loop, self._clock, self._finished)
        for number in range(served.policy.instances):
            served.instances.append(served.make(f"{name}-{number}", post))

    def _tensor(self, model: str, name: str, value: Any) -> Tensor:
        """Lists take the datatype that the model expects; arrays are believed."""
        dtype = None
        if not isinstance(value, np.ndarray):
            specs = self._find(model, None).signature.inputs
            dtype = next((NUMPY_TYPES[s.datatype] for s in specs if s.name == name), None)
        try:
            return of_array(np.asarray(value, dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(
                f"input '{name}' of model '{model}' is not a tensor: {error}"
            ) from error

    # ------------------------------------------------------------------ what doors ask about

    def check_integrity(self) -> None:
        """Whoever waits for an answer is in the scheduler, and nobody else."""
        self._scheduler.check_integrity()
        snapshot = self._scheduler.snapshot(now_ns=self._clock.now_ns())
        assert len(self._pending) >= sum(model.waiting for model in snapshot.models)

    def now_ns(self) -> int:
        """The engine's time, for deadlines."""
        return self._clock.now_ns()

    def is_live(self) -> bool:
        """Whether the loop answers at all."""
        return True

    def is_ready(self) -> bool:
        """Whether all models are served and new requests are admitted."""
        return self._loop is not None and not (self._is_loading or self._is_draining)

    def set_loaded(self) -> None:
        """Everything that shall be served has been added."""
        self._is_loading = False

    def model_names(self) -> list[str]:
        """Names of the served models."""
        return list(self._served)

    def model(self, name: str, version: str | None = None) -> ModelInfo:
        """What clients may know about a model.

        Raises:
            UnknownModel: There is none of that name or version.
        """
        return describe(self._find(name, version), is_ready=self.is_ready())

    def statistics(self, name: str | None = None) -> dict[str, Any]:
        """Counts and times in the form of the statistics extension of the v2 protocol."""
        if name is not None:
            self._find(name, None)
        return self._statistics.as_v2(name)

    def metrics_text(self) -> str:
        """Prometheus text."""
        snapshot = self._scheduler.snapshot(now_ns=self._clock.now_ns())
        return render(self._statistics, snapshot)

    def _find(self, name: str, version: str | None) -> Model:
        served = self._served.get(name)
        if served is None or served.model is None:
            if self._is_loading:
                raise NotReady(f"model '{name}' is not loaded yet, if it is served at all")
            raise UnknownModel(f"Request for unknown model: '{name}' is not found")
        if version and version != served.model.version:
            raise UnknownModel(
                f"Request for unknown model: '{name}' version {version} is not found"
            )
        return served.model


def _known(wanted: Sequence[str], names: Sequence[str], model: str) -> Sequence[str]:
    for name in wanted:
        if name not in names:
            raise InvalidRequest(
                f"unexpected inference output '{name}' for model '{model}'; "
                f"expected one of {list(names)}"
            )
    return wanted


def _drop(_result: Any, _ran: Ran | None) -> None:
    """Nobody waits for this answer any more."""
