"""What watching costs: to fold, to scrape, to look live, to trace, and all of it at once.

Run `python -m benchmarks.observe`.
"""

import argparse
from collections.abc import Callable
from time import perf_counter

import orjson

from benchmarks import observe_live
from benchmarks.figures import Figure, print_figures
from benchmarks.micro_scheduler import learned
from benchmarks.observe_traces import trace_us
from xirang.core.event import RunEnded
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Done, Run, Trigger
from xirang.core.scheduler import Scheduler
from xirang.observe.metrics import render
from xirang.observe.statistics import Statistics
from xirang.observe.watch import Watch

FOLD_GOAL_US = 1.5
SCRAPE_GOAL_MS = 5.0
TRACE_GOAL_US = 0.3
FRAME_GOAL_MS = 10.0
"""At one frame a second that is one hundredth of a core."""

MODELS = 20
ROUNDS = 60
RUNS = 200


def measure(*, seconds: float) -> list[Figure]:
    """All figures; those that need no server are of the least disturbed of some rounds."""
    statistics, scheduler = _house()
    path_us, thread_us = trace_us()
    rows = [
        ("fold an event, a request of a run of 8", _fold_us(8), FOLD_GOAL_US, "µs"),
        ("fold an event, a request of a run of 32", _fold_us(32), FOLD_GOAL_US, "µs"),
        ("the same, of four tenants", _fold_us(8, tenants=4), FOLD_GOAL_US, "µs"),
        ("scrape, 20 models", _scrape_ms(statistics, scheduler), SCRAPE_GOAL_MS, "ms"),
        (
            "a dashboard's frame, 20 models busy",
            _frame_ms(statistics, scheduler),
            FRAME_GOAL_MS,
            "ms",
        ),
        ("traces of 1 %, a request, on its path", path_us, TRACE_GOAL_US, "µs"),
        ("the same with the thread that sends them", path_us + thread_us, TRACE_GOAL_US, "µs"),
    ]
    figures = [Figure(name, value, goal, False, unit) for name, value, goal, unit in rows]
    return figures + observe_live.measure(seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.5, help="of load, a server and round")
    print_figures(measure(seconds=parser.parse_args().seconds))


def _best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))  # the least disturbed round


def _house() -> tuple[Statistics, Scheduler]:
    """Twenty models that have run, with requests of three priorities in their lanes."""
    statistics, scheduler = Statistics(unix_ms=lambda: 0), Scheduler(devices={"cpu": 2})
    for number in range(MODELS):
        name = f"model-{number}"
        scheduler.add_model(name, Policy(), learned(call_ns=100_000.0, element_ns=500.0))
        statistics.add_model(name, "1")
        for event in _events(name, count=50, size=8):
            statistics.on_event(event)
        for id in range(6):
            at = number * 100 + id
            request = Request(at, name, at, at + 10**9, priority=1 + id % 3, length=16)
            scheduler.submit(request, now_ns=at)
    return statistics, scheduler


def _events(model: str, *, count: int, size: int, tenants: int = 1) -> list[RunEnded]:
    events = []
    for number in range(count):
        begin_ns = number * 10_000_000
        requests = tuple(
            Request(
                number * size + i,
                model,
                begin_ns + i * 50_000,
                begin_ns + 100_000_000,
                length=10 + i % 7,
                tenant=f"tenant-{i % tenants}",
            )
            for i in range(size)
        )
        start_ns = begin_ns + 2_000_000
        run = Run(number, model, 0, requests, size, 16, Trigger.WINDOW, start_ns, 4_000_000, 0, 0)
        done = Done(ran_ns=4_200_000, assemble_ns=30_000, split_ns=20_000)
        events.append(RunEnded(run, done, start_ns + 4_300_000))
    return events


def _fold_us(size: int, *, tenants: int = 1) -> float:
    events = _events("m", count=RUNS, size=size, tenants=tenants)

    def once() -> float:
        statistics = Statistics(unix_ms=lambda: 0)
        statistics.add_model("m", "1")
        begin = perf_counter()
        for event in events:
            statistics.on_event(event)
        return (perf_counter() - begin) / (RUNS * size) * 1e6

    return _best(once)


def _scrape_ms(statistics: Statistics, scheduler: Scheduler) -> float:
    def once() -> float:
        begin = perf_counter()
        render(statistics, scheduler.snapshot(now_ns=10**9), now_ns=10**9).encode()
        return (perf_counter() - begin) * 1e3

    return _best(once)


def _frame_ms(statistics: Statistics, scheduler: Scheduler) -> float:
    watch = Watch(statistics, lambda: (10**9, scheduler.snapshot(now_ns=10**9)))
    events = [event for n in range(MODELS) for event in _events(f"model-{n}", count=50, size=8)]

    def once() -> float:
        for event in events:
            statistics.on_event(event)
        begin = perf_counter()
        orjson.dumps(watch.frame())
        return (perf_counter() - begin) * 1e3

    spent = _best(once)
    watch.close()
    return spent


if __name__ == "__main__":
    main()
