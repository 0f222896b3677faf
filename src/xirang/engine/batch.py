"""`@xirang.batch`: a function from list to list, called with one item at a time from anywhere."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Any

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.run import Done, Run
from xirang.engine.call import Ran, Terms
from xirang.engine.clock import Clock
from xirang.engine.engine import Engine
from xirang.engine.extent import Extent
from xirang.engine.faults import as_error, failed_in
from xirang.engine.instances import Instance, Post, Startable
from xirang.errors import InvalidSetting, XirangError
from xirang.tensors.split import RowsMismatchError

ListFunction = Callable[[list[Any]], Sequence[Any]]

_ALONE = Extent(rows=1, length=1, group=None)


def batch(
    *,
    max_batch_size: int = 32,
    budget_ms: float = 1_000.0,
    window_ms: float = 5.0,
    efficiency: float = 0.5,
    queue: int = 4096,
) -> Callable[[Callable[[list[Any]], Any]], Callable[..., Awaitable[Any]]]:
    """Gather concurrent calls with one item each into calls with a list.

    The decorated function takes a list and returns a list of the same length, plainly (it then
    runs in a thread of its own) or as a coroutine (it then runs on the loop). Its callers await
    it with one item and get one result. If it raises, the list is tried in halves, so that only
    the guilty item's caller gets the error.

    Args:
        max_batch_size: Longest list.
        budget_ms: Latency budget of a call, unless it brings `budget_ms=` itself.
        window_ms: Longest voluntary wait for company while the function is idle.
        efficiency: 0 never waits, 1 as long as the budgets allow.
        queue: Most calls that wait; beyond it `TooBusy` is raised.

    Raises:
        InvalidSetting: At decoration, if a setting is impossible.
    """
    if (
        max_batch_size < 1
        or queue < 1
        or not 0 <= window_ms < budget_ms < inf
        or not 0 <= efficiency <= 1
    ):
        raise InvalidSetting(
            f"max_batch_size={max_batch_size}, queue={queue}, window_ms={window_ms}, "
            f"budget_ms={budget_ms}, efficiency={efficiency}; expected sizes of at least 1, "
            "0 ≤ window_ms < budget_ms and 0 ≤ efficiency ≤ 1"
        )
    policy = Policy(
        max_batch_size=max_batch_size,
        window_ns_max=int(window_ms * 1e6),
        efficiency=efficiency,
        depth_max=queue,
    )

    def decorate(function: Callable[[list[Any]], Any]) -> Callable[..., Awaitable[Any]]:
        batched = _Batched(function, policy, budget_ns=int(budget_ms * 1e6))

        @functools.wraps(function)
        async def call(item: Any, *, budget_ms: float | None = None, priority: int = 0) -> Any:
            budget_ns = batched.budget_ns if budget_ms is None else int(budget_ms * 1e6)
            return await batched.call(item, budget_ns=budget_ns, priority=priority)

        return call

    return decorate


class _Batched:
    """One function with an engine of its own for each loop that calls it."""

    def __init__(
        self, function: Callable[[list[Any]], Any], policy: Policy, *, budget_ns: int
    ) -> None:
        self._name = getattr(function, "__name__", "function")
        self._function = function
        self._policy = policy
        self.budget_ns = budget_ns
        self._cost = CostModel()  # learned once, whichever loop calls
        self._engines: dict[asyncio.AbstractEventLoop, Engine] = {}

    async def call(self, item: Any, *, budget_ns: int, priority: int) -> Any:
        loop = asyncio.get_running_loop()
        engine = self._engines.get(loop) or await self._start(loop)
        future: asyncio.Future[Any] = loop.create_future()

        def finish(result: Any, _ran: Ran | None) -> None:
            if future.done():
                return
            if isinstance(result, XirangError):
                future.set_exception(result)
            else:
                future.set_result(result)

        now_ns = engine.now_ns()
        times = (now_ns, now_ns + budget_ns)
        request_id = engine.traffic.enter(self._name, item, _ALONE, times, Terms(priority), finish)
        try:
            return await future
        except asyncio.CancelledError:
            engine.traffic.cancel(request_id)
            raise

    async def _start(self, loop: asyncio.AbstractEventLoop) -> Engine:
        for other in list(self._engines):  # loops in other threads come and go meanwhile
            if other.is_closed() and (left := self._engines.pop(other, None)) is not None:
                left.abandon()
        engine = Engine()
        engine.add_lanes(self._name, self._policy, self._cost, self._make)
        self._engines[loop] = engine
        return await engine.start()

    def _make(self, name: str, post: Post) -> Startable:
        if inspect.iscoroutinefunction(self._function):
            return _LoopInstance(self._function, post)
        return Instance(name, _ListWork(self._function), post)


class _ListWork:
    """Calls a plain function with the members as they are."""

    def __init__(self, function: ListFunction) -> None:
        self._function = function

    def __call__(self, members: Sequence[Any], *, clock: Clock) -> tuple[list[Any], Done]:
        """See `instances.Work`."""
        started_ns = clock.now_ns()
        results = _checked(self._function(list(members)), len(members))
        return results, Done(ran_ns=clock.now_ns() - started_ns)


class _LoopInstance:
    """Runs a coroutine function on the loop, one run at a time."""

    def __init__(self, function: Callable[[list[Any]], Awaitable[Any]], post: Post) -> None:
        self._function = function
        self._post = post
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, run: Run, members: Sequence[Any]) -> None:
        """See `instances.Startable`."""
        task = self._post.loop.create_task(self._run(run, members))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Nothing to end: the engine has waited for the last run."""

    async def _run(self, run: Run, members: Sequence[Any]) -> None:
        started_ns = self._post.clock.now_ns()
        results = await self._results(run.model, members)
        done = Done(ran_ns=self._post.clock.now_ns() - started_ns)
        self._post.finished(run, results, failed_in(run, results) or done)

    async def _results(self, name: str, members: Sequence[Any]) -> list[Any]:
        try:
            return _checked(await self._function(list(members)), len(members))
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # not the function's doing: the loop goes down
            if len(members) == 1:
                return [as_error(name, error)]
            middle = len(members) // 2
            first = await self._results(name, members[:middle])
            return first + await self._results(name, members[middle:])


def _checked(results: Any, count: int) -> list[Any]:
    if not isinstance(results, list | tuple) or len(results) != count:
        size = f" of {len(results)}" if hasattr(results, "__len__") else ""
        raise RowsMismatchError(
            f"the function returned a {type(results).__name__}{size} for a list of {count}; "
            f"expected a list of {count}"
        )
    return list(results)
