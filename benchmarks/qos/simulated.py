"""On a virtual clock: three times the capacity and the way back, none too much, the fast lane."""

from collections import Counter
from heapq import merge
from itertools import takewhile
from random import Random

from benchmarks.figures import Figure
from benchmarks.simulated.world import IMAGES, IMAGES_BATCH, IMAGES_BUDGET, IMAGES_CAPACITY, MS
from xirang.core.event import OverloadChanged
from xirang.core.policy import Policy
from xirang.core.run import Rejected
from xirang.core.scheduler import Scheduler
from xirang.lab.simulator import Law, Service, Silent, Simulator
from xirang.lab.simulator_result import quantile
from xirang.lab.workload import Choice, Demands, Lognormal, Poisson, Workload

SECOND = 1000 * MS
TEXTS = Law(call_ns=2.07 * MS, element_ns=0.132 * MS, square_ns=120.0)
TEXTS_CAPACITY = 190
NOISE = 0.1
WAIT_MS = 10 * TEXTS.call_ns / MS


class _Told(Scheduler):
    """Keeps its changes of level."""

    changes: list[OverloadChanged]

    def poll(self, *, now_ns: int):
        actions = super().poll(now_ns=now_ns)
        events = self.drain_events()
        self.changes += [event for event in events if isinstance(event, OverloadChanged)]
        return actions


class _Seen(Silent):
    def __init__(self, begin_s: float, end_s: float) -> None:
        self.begin_ns, self.end_ns = begin_s * SECOND, end_s * SECOND
        self.came: Counter[int] = Counter()
        self.on_time: Counter[int] = Counter()
        self.told_ns: list[int] = []
        self.fast_ns: list[int] = []
        self.answered = self.late = self.elements = 0

    def is_in(self, now_ns: int) -> bool:
        return self.begin_ns <= now_ns < self.end_ns

    def on_arrival(self, request, verdict) -> None:
        if self.is_in(request.arrival_ns):
            self.came[request.priority] += 1
            if isinstance(verdict, Rejected):
                self.told_ns.append(0)

    def on_expire(self, request, now_ns) -> None:
        if self.is_in(request.arrival_ns):
            self.told_ns.append(now_ns - request.arrival_ns)

    def on_end(self, run, now_ns) -> None:
        for each in run.requests:
            is_on_time = now_ns <= each.deadline_ns
            self.answered += is_on_time and self.is_in(now_ns)
            self.late += not is_on_time
            self.on_time[each.priority] += is_on_time and self.is_in(each.arrival_ns)
            if each.fast:
                self.fast_ns.append(now_ns - each.arrival_ns)
            else:
                self.elements += is_on_time * each.length


def _play(requests, seen: _Seen, *, law: Law, lengths: list[int], noise: float, **policy):
    scheduler = _Told(devices={"cpu": 1})
    scheduler.changes = []
    made = Policy(max_batch_size=IMAGES_BATCH, depth_max=10**6, **policy)
    cost = law.learned(rows_max=IMAGES_BATCH, lengths=lengths)
    service = Service(law, noise=noise, random=Random(3))
    models = {"model": (made, cost, service)}
    Simulator(models, devices={}, watchers=(seen,), scheduler=scheduler).run(requests)
    return scheduler.changes


def _phased(*phases: tuple[float, int]):
    instants, begin_ns = [], 0
    for number, (load, seconds) in enumerate(phases):
        draws = Poisson(load * IMAGES_CAPACITY).draws(Random(number))
        end_ns = begin_ns + seconds * SECOND
        instants += takewhile(end_ns.__gt__, (begin_ns + at for at in draws))
        begin_ns = end_ns
    demands = Demands(
        budgets_ns=Choice((IMAGES_BUDGET,)), priorities=Choice((1, 2, 3), (0.2, 0.5, 0.3))
    )
    return demands.requests(iter(instants), seed=1)


def measure() -> list[Figure]:
    return [*_overload(), *_calm(), *_fast_lane()]


def _overload() -> list[Figure]:
    seen = _Seen(2, 7)
    phases = _phased((0.7, 1), (3.0, 6), (0.5, 2))
    changes = _play(phases, seen, law=IMAGES, lengths=[1], noise=NOISE)
    goodput = seen.answered / 5 / IMAGES_CAPACITY
    told_ms = quantile(sorted(seen.told_ns), 0.99) / MS
    left_s = (changes[-1].at_ns / SECOND - 7) if changes and changes[-1].level == 0 else 99.0
    name = "simulated, load 3: "
    return [
        Figure(f"{name}high class on time", seen.on_time[1] / seen.came[1], 0.97),
        Figure(f"{name}normal class on time", seen.on_time[2] / seen.came[2], 0.0),
        Figure(f"{name}goodput ÷ capacity", goodput, 0.97),
        Figure(f"{name}p99 until a no", told_ms, IMAGES_BUDGET / MS, False, "ms"),
        Figure(f"{name}all levels off after", left_s, 5.0, False, "s"),
    ]


def _calm() -> list[Figure]:
    seen = _Seen(0, 6)
    _play(_phased((0.8, 6)), seen, law=IMAGES, lengths=[1], noise=0.0)
    name = "simulated, load 0.8: "
    return [
        Figure(f"{name}turned away", len(seen.told_ns), 0, False),
        Figure(f"{name}late", seen.late, 0, False),
    ]


def _fast_lane() -> list[Figure]:
    before, seen = _with_fast(0), _with_fast(8)
    p99_ms = quantile(sorted(seen.fast_ns), 0.99) / MS
    goal_ms = WAIT_MS + TEXTS.run_ns(rows=1, length=16) / MS + 3
    return [
        Figure("simulated, fast lane under full load: p99", p99_ms, goal_ms, False, "ms"),
        Figure("simulated, others' work beside it ÷ before", seen.elements / before.elements, 0.9),
    ]


def _with_fast(rate: float) -> _Seen:
    lengths = Lognormal(30, 0.92, 3, 100)
    normal = Demands(lengths=lengths, budgets_ns=Choice((SECOND,)))
    fast = Demands(lengths=Choice((16,)), budgets_ns=Choice((300 * MS,)))
    streams = [(Workload(Poisson(1.2 * TEXTS_CAPACITY), normal), 1, False)]
    if rate:
        streams.append((Workload(Poisson(rate), fast), 2, True))
    seen = _Seen(0, 10**6)
    requests = merge(*[_marked(*stream) for stream in streams], key=lambda each: each.arrival_ns)
    _play(_numbered(requests), seen, law=TEXTS, lengths=[8, 32, 128, 512], noise=0.0, can_pad=True)
    return seen


def _marked(workload: Workload, seed: int, is_fast: bool):
    for request in takewhile(
        lambda each: each.arrival_ns < 15 * SECOND, workload.requests(seed=seed)
    ):
        request.fast = is_fast
        yield request


def _numbered(requests):
    for id, request in enumerate(requests, 1):
        request.id = id
        yield request
