"""A real server before a callable of known cost: calm, overload, noes, a kill, the fast lane."""

import asyncio
import os
import signal
from collections.abc import Awaitable
from contextlib import contextmanager
from math import inf
from pathlib import Path
from random import Random
from time import perf_counter, process_time

from benchmarks.figures import Figure
from benchmarks.qos.client import Asked, Client, open_loop, quantile
from benchmarks.qos.models import CALL_S, CAPACITY, ROW_S, ROWS_MAX
from xirang.core.cost import CostModel, Sample
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Rejected
from xirang.core.scheduler import Scheduler
from xirang.lab.server import ServerProcess

MODEL = "benchmarks.qos.models:paced"
BUDGET_MS = 400.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(*options: str):
    size = f"--max-batch-size={ROWS_MAX}"
    with ServerProcess([MODEL], size, "--learned=off", "--log-level=error", *options) as server:
        yield server


def run(main: Awaitable[list[Figure]]) -> list[Figure]:
    return asyncio.run(main)


def measure() -> list[Figure]:
    figures = [*_decision()]
    with serving() as server:
        figures += run(_calm(server))
        figures += run(_overload(server))
        figures += run(_rejects(server))
        figures += run(_killed(server))
    with serving("--fast-budget-ms=350") as server:
        figures += run(_fast_lane(server))
    return figures


async def _warm(client: Client) -> float:
    """Teach the cost model; answers a second where nobody is turned away."""
    asked = Asked()
    for number in range(8):
        await client.ask(asked, number, budget_ms=10_000)

    async def ask(number: int) -> None:
        for _ in range(6):
            await client.ask(asked, number, budget_ms=10_000)

    await asyncio.gather(*[ask(number) for number in range(4 * ROWS_MAX)])
    times = sorted(asked.at_s)[8 + ROWS_MAX : -2 * ROWS_MAX]
    assert not asked.wrong
    return (len(times) - 1) / (times[-1] - times[0])


async def _play(client: Client, rate: float, seconds: float, **fields) -> dict[int, Asked]:
    kinds = {priority: Asked() for priority in (1, 2, 3)}

    def ask(random: Random) -> Awaitable[None]:
        (priority,) = random.choices((1, 2, 3), (0.2, 0.5, 0.3))
        number = random.randrange(1000)
        return client.ask(kinds[priority], number, priority=priority, **fields)

    await open_loop(rate, seconds, ask)
    assert not sum(kind.wrong for kind in kinds.values())
    return kinds


async def _calm(server: ServerProcess) -> list[Figure]:
    client = Client(server.url)
    capacity = await _warm(client)
    kinds = (await _play(client, 0.8 * capacity, 8.0, budget_ms=250)).values()
    client.close()
    share = sum(len(kind.on_time_s) for kind in kinds) / sum(kind.count for kind in kinds)
    turned = sum(kind.statuses[429] for kind in kinds)
    return [
        Figure("live, capacity, saturated ÷ by its law", capacity / CAPACITY, 0.9),
        Figure("live, load 0.8, 250 ms: on time", share, 0.999),
        Figure("live, load 0.8: turned away", turned, 0, False),
    ]


async def _overload(server: ServerProcess) -> list[Figure]:
    client = Client(server.url)
    capacity = await _warm(client)
    began = perf_counter()
    kinds = await _play(client, 3 * capacity, 8.0, budget_ms=BUDGET_MS)
    inside = [at for kind in kinds.values() for at in kind.at_s if began + 1 <= at < began + 8]
    goodput = len(inside) / 7 / capacity
    told = [seconds for kind in kinds.values() for seconds in kind.refused_s]
    client.close()
    return [
        Figure("live, load 3: high class on time", kinds[1].share, 0.97),
        Figure("live, load 3: goodput ÷ capacity", goodput, 0.97),
        Figure("live, load 3: p99 until a no", 1e3 * quantile(told, 0.99), BUDGET_MS, False, "ms"),
    ]


async def _rejects(server: ServerProcess) -> list[Figure]:
    """Ten times the capacity beside a little more than it, and what a no costs the server."""
    client = Client(server.url)
    capacity = await _warm(client)
    goods, spent = [], []
    for load in (1.2, 10):
        began, cpu_s = perf_counter(), _cpu_s(server.pid)
        kinds = await _play(client, load * capacity, 5.0, budget_ms=BUDGET_MS)
        noes = sum(kind.count - len(kind.on_time_s) for kind in kinds.values())
        spent.append((_cpu_s(server.pid) - cpu_s, noes))
        inside = [at for k in kinds.values() for at in k.at_s if began + 1 <= at < began + 5]
        goods.append(len(inside) / 4)
    client.close()
    (base_s, base), (full_s, full) = spent
    each_us = 1e6 * (full_s - base_s) / max(1, full - base)
    return [
        Figure("live, goodput at load 10 ÷ at load 1.2", goods[1] / goods[0], 0.9),
        Figure("live, server CPU a rejected request, HTTP and all", each_us, 15, False, "µs"),
    ]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


PORTION = 1100
"""Requests of one portion: the quickest of them counts, as least disturbed."""


def _decision() -> list[Figure]:
    """The decision alone: what the scheduler takes for a no."""
    scheduler = Scheduler(devices={"cpu": 1})
    cost = CostModel()
    cost.fit([Sample(r, 1, int((CALL_S + r * ROW_S) * 1e9)) for r in (1, 2, 4, 8, 16)] * 4)
    scheduler.add_model("m", Policy(max_batch_size=ROWS_MAX), cost)
    requests = [Request(id, "m", 0, 10**8 + id % 7 * 10**7, 1 + id % 3) for id in range(20_000)]
    for request in requests[:200]:
        scheduler.submit(request, now_ns=0)
        scheduler.poll(now_ns=0)
    scheduler.drain_events()
    noes, each_us = 0, inf
    for begin in range(200, len(requests), PORTION):
        portion = requests[begin : begin + PORTION]
        began = process_time()
        told = [scheduler.submit(request, now_ns=request.id) for request in portion]
        each_us = min(each_us, 1e6 * (process_time() - began) / len(portion))
        noes += sum(isinstance(verdict, Rejected) for verdict in told)
        scheduler.drain_events()
    assert noes > 15_000
    return [Figure("the decision to turn away, processor time", each_us, 15, False, "µs")]


def workers_of(pid: int) -> list[int]:
    """Processes that this one started and that run models."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(each) for each in (task / "children").read_text().split()]
    return [each for each in found if b"isolated" in Path(f"/proc/{each}/cmdline").read_bytes()]


async def _killed(server: ServerProcess) -> list[Figure]:
    client, asked = Client(server.url), Asked()
    capacity = await _warm(client)
    (worker,) = workers_of(server.pid)
    load = asyncio.ensure_future(
        open_loop(
            0.5 * capacity,
            4.0,
            lambda random: client.ask(asked, random.randrange(99), budget_ms=5e3),
        )
    )
    await asyncio.sleep(1.5)
    os.kill(worker, signal.SIGKILL)
    killed = perf_counter()
    await load
    client.close()
    back_s = min((at for at in asked.at_s if at > killed + 0.005), default=killed + 99) - killed
    lost = asked.count - asked.statuses[200]
    return [
        Figure("live, a worker killed: requests that failed", lost, ROWS_MAX, False),
        Figure("live, a worker killed: served again after", back_s, 1.0, False, "s"),
    ]


async def _fast_lane(server: ServerProcess) -> list[Figure]:
    client = Client(server.url)
    capacity = await _warm(client)
    before, normal, fast = Asked(), Asked(), Asked()

    def others(asked: Asked):
        return lambda random: client.ask(asked, random.randrange(99), budget_ms=2000)

    await open_loop(1.1 * capacity, 5.0, others(before))
    await asyncio.gather(
        open_loop(1.1 * capacity, 5.0, others(normal)),
        open_loop(
            4.0, 5.0, lambda random: client.ask(fast, random.randrange(99), budget_ms=300), seed=2
        ),
    )
    client.close()
    goal_ms = 1e3 * (CALL_S + ROWS_MAX * ROW_S + CALL_S + ROW_S) + 3
    kept = len(normal.on_time_s) / len(before.on_time_s)
    p99_ms = 1e3 * quantile(fast.on_time_s + fast.refused_s, 0.99)
    return [
        Figure("live, fast lane under full load: p99", p99_ms, goal_ms, False, "ms"),
        Figure("live, others on time beside it ÷ before", kept, 0.9),
    ]
