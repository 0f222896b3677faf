"""Seeded workloads: who asks when, for how much, with what budget; as iterators of core requests.

Arrivals, lengths, budgets and priorities draw from separate random streams of one seed, so that
a change of one leaves the others as they were, and policies can be compared on the same requests.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, count, cycle, repeat
from random import Random
from typing import Generic, Protocol, TypeVar

from xirang.core.request import PRIORITY_NORMAL, Request
from xirang.lab.traces import Trace

SECOND_NS = 1_000_000_000

T_co = TypeVar("T_co", covariant=True)


class Draws(Protocol[T_co]):
    """An endless supply of values."""

    def draws(self, random: Random) -> Iterator[T_co]:
        """The values, one after another."""
        ...


@dataclass(frozen=True, slots=True)
class Choice(Generic[T_co]):
    """One of some values, each with its weight."""

    values: tuple[T_co, ...]
    weights: tuple[float, ...] = ()

    def draws(self, random: Random) -> Iterator[T_co]:
        """The values, one after another."""
        if len(self.values) == 1:
            return repeat(self.values[0])
        return self._chosen(random)

    def _chosen(self, random: Random) -> Iterator[T_co]:
        sums = list(accumulate(self.weights or repeat(1.0, len(self.values))))
        while True:
            yield from random.choices(self.values, cum_weights=sums, k=256)


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lengths around a median, with a long tail clipped to what the model takes."""

    median: float
    sigma: float
    length_min: int
    length_max: int

    def draws(self, random: Random) -> Iterator[int]:
        """The lengths, one after another."""
        while True:
            length = round(self.median * 2.718281828459045 ** random.gauss(0.0, self.sigma))
            yield min(self.length_max, max(self.length_min, length))


@dataclass(frozen=True, slots=True)
class Recorded:
    """A trace's lengths in its order, over and over, made to fit a model."""

    lengths: tuple[int, ...]
    divisor: float = 1.0
    length_max: int = 512

    def draws(self, random: Random) -> Iterator[int]:
        """The lengths, one after another."""
        divisor, length_max = self.divisor, self.length_max
        fitted = [min(length_max, max(1, round(length / divisor))) for length in self.lengths]
        return cycle(fitted)


# ---------------------------------------------------------------------- arrivals


class Arrivals(Protocol):
    """When requests come, at a mean rate of requests a second."""

    @property
    def rate(self) -> float:
        """Mean requests a second."""
        ...

    def at_rate(self, rate: float) -> "Arrivals":
        """The same process, faster or slower."""
        ...

    def draws(self, random: Random) -> Iterator[int]:
        """Ascending instants in ns."""
        ...


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent clients without number."""

    rate: float

    def at_rate(self, rate: float) -> "Poisson":
        """The same process, faster or slower."""
        return replace(self, rate=rate)

    def draws(self, random: Random) -> Iterator[int]:
        """Ascending instants in ns."""
        per_ns = self.rate / SECOND_NS
        return _instants(lambda: random.expovariate(per_ns))


@dataclass(frozen=True, slots=True)
class Gamma:
    """Independent gaps whose spread is given: cv 1 is Poisson, more comes in clumps."""

    rate: float
    cv: float

    def at_rate(self, rate: float) -> "Gamma":
        """The same process, faster or slower."""
        return replace(self, rate=rate)

    def draws(self, random: Random) -> Iterator[int]:
        """Ascending instants in ns."""
        shape = 1.0 / self.cv**2
        scale = SECOND_NS / (self.rate * shape)
        return _instants(lambda: random.gammavariate(shape, scale))


@dataclass(frozen=True, slots=True)
class Switching:
    """Poisson that changes between a high and a low rate around its mean.

    Attributes:
        rate: The mean.
        swing: The two rates are rate·(1 ± swing).
        dwell_s: How long a rate holds.
        is_random: Whether the dwelling times are exponential (a two-state MMPP) or all the same
            (a square wave).
    """

    rate: float
    swing: float = 0.7
    dwell_s: float = 2.0
    is_random: bool = True

    def at_rate(self, rate: float) -> "Switching":
        """The same process, faster or slower; the dwelling times stay."""
        return replace(self, rate=rate)

    def draws(self, random: Random) -> Iterator[int]:
        """Ascending instants in ns."""
        now, until = 0.0, 0.0
        dwell_ns = self.dwell_s * SECOND_NS
        rates = cycle((self.rate * (1 + self.swing), self.rate * (1 - self.swing)))
        while True:
            per_ns = next(rates) / SECOND_NS
            until += random.expovariate(1 / dwell_ns) if self.is_random else dwell_ns
            # A Poisson process has no memory: at a change of rate the gap is drawn afresh.
            while per_ns > 0 and (now := now + random.expovariate(per_ns)) < until:
                yield int(now)
            now = until


@dataclass(frozen=True, slots=True)
class Replay:
    """A trace's instants, compressed to a mean rate; begins again when it has ended.

    Equal stamps are spread over the tick of the clock that recorded them.
    """

    trace: Trace
    rate: float

    def at_rate(self, rate: float) -> "Replay":
        """The same trace, faster or slower."""
        return replace(self, rate=rate)

    @property
    def compression(self) -> float:
        """How many times faster than it was recorded."""
        return self.rate / self.trace.rate

    def draws(self, random: Random) -> Iterator[int]:
        """Ascending instants in ns."""
        scale = 1e6 / self.compression
        quantum_ms = self.trace.quantum_ms
        times_ms = _spread(self.trace.times_ms, quantum_ms, random)
        period_ms = self.trace.times_ms[-1] + 1000.0 / self.trace.rate
        for lap in count():
            for at_ms in times_ms:
                yield int((at_ms + lap * period_ms) * scale)


def _instants(gap_ns: Callable[[], float]) -> Iterator[int]:
    now = 0.0
    while True:
        now += gap_ns()
        yield int(now)


def _spread(times_ms: Sequence[float], quantum_ms: float, random: Random) -> list[float]:
    spread: list[float] = []
    start = 0
    for i in range(1, len(times_ms) + 1):
        if i == len(times_ms) or times_ms[i] != times_ms[start]:
            first, extra = times_ms[start], i - start - 1
            spread.append(first)
            spread.extend(sorted(first + random.random() * quantum_ms for _ in range(extra)))
            start = i
    return spread


# ---------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class Demands:
    """What requests ask for, whenever they come.

    Attributes:
        model: Name of the model.
        lengths: What may be padded.
        budgets_ns: From arrival to deadline.
        priorities: 1 is the highest.
        rows: Rows a request.
        groups: What must be equal to share a batch.
    """

    model: str = "model"
    lengths: Draws[int] = Choice((1,))
    budgets_ns: Draws[int] = Choice((10 * SECOND_NS,))
    priorities: Draws[int] = Choice((PRIORITY_NORMAL,))
    rows: Draws[int] = Choice((1,))
    groups: Draws[Hashable] = field(default=Choice((None,)))

    def requests(self, instants: Iterable[int], *, seed: int) -> Iterator[Request]:
        """Requests at these instants, numbered from 1."""
        columns = zip(
            count(1),
            instants,
            self.budgets_ns.draws(_random(seed, self.model, "budgets")),
            self.priorities.draws(_random(seed, self.model, "priorities")),
            self.rows.draws(_random(seed, self.model, "rows")),
            self.lengths.draws(_random(seed, self.model, "lengths")),
            self.groups.draws(_random(seed, self.model, "groups")),
        )
        model = self.model
        for id, now_ns, budget_ns, priority, rows, length, group in columns:
            yield Request(id, model, now_ns, now_ns + budget_ns, priority, rows, length, group)


@dataclass(frozen=True, slots=True)
class Workload:
    """An open loop: requests come whether or not the earlier ones were answered."""

    arrivals: Arrivals
    demands: Demands = field(default_factory=Demands)

    def requests(self, *, seed: int) -> Iterator[Request]:
        """Endless, by arrival."""
        instants = self.arrivals.draws(_random(seed, self.demands.model, "arrivals"))
        return self.demands.requests(instants, seed=seed)


def mixed(workloads: Iterable[Workload], *, seed: int) -> Iterator[Request]:
    """Several workloads as one stream, numbered anew by arrival."""
    streams = (workload.requests(seed=seed) for workload in workloads)
    for id, request in enumerate(heapq.merge(*streams, key=_arrival_ns), start=1):
        request.id = id
        yield request


class Spread:
    """Gives requests to models at random, all alike, and leaves all else about them as it was."""

    def __init__(self, models: Sequence[str], *, seed: int) -> None:
        """Spread over these models.

        Args:
            models: Their names.
            seed: Root of the draws.
        """
        self._names = Choice(tuple(models)).draws(_random(seed, "models"))

    def __call__(self, request: Request) -> Request:
        """The same request, for its model."""
        request.model = next(self._names)
        return request


class ClosedLoop:
    """Clients that send their next request some time after the last one was answered."""

    def __init__(
        self, demands: Demands, *, clients: int, requests: int, seed: int, think_ns: int = 0
    ) -> None:
        """Clients of one kind.

        Args:
            demands: What they ask for.
            clients: How many.
            requests: How many all of them send together, at least one each.
            seed: Root of all draws.
            think_ns: From an answer to the next request.
        """
        self._now_ns = 0
        self._clients = clients
        self._left = requests
        self._think_ns = think_ns
        self._stream = demands.requests(iter(lambda: self._now_ns, None), seed=seed)

    def first(self) -> Iterator[Request]:
        """The opening request of each client, a microsecond apart."""
        for i in range(self._clients):
            request = self._send(i * 1000)
            if request is not None:
                yield request

    def following(self, request: Request, now_ns: int) -> Request | None:
        """What the client of an answered request sends next; None when all are sent."""
        return self._send(now_ns + self._think_ns)

    def _send(self, at_ns: int) -> Request | None:
        if self._left == 0:
            return None
        self._left -= 1
        self._now_ns = at_ns
        return next(self._stream)


def _random(seed: int, *stream: str) -> Random:
    return Random("/".join((str(seed), *stream)))


def _arrival_ns(request: Request) -> int:
    return request.arrival_ns
