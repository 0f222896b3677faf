"""From the words of `xirang simulate` to workloads, policies and laws; refuses what cannot be."""

import math
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TypeVar

from xirang.core.batching.partition import Bounds, partition
from xirang.core.policy import Batching, Policy
from xirang.errors import InvalidSetting
from xirang.lab.simulator import Law, Service
from xirang.lab.traces import Trace, load_histogram, load_trace
from xirang.lab.workload import (
    Arrivals,
    Choice,
    Demands,
    Draws,
    Gamma,
    Lognormal,
    Poisson,
    Recorded,
    Replay,
    Switching,
)

MS = 1_000_000
ARRIVALS = ("poisson", "gamma:CV", "mmpp[:SWING]", "square[:SWING]", "closed:CLIENTS")
LENGTHS = (
    "fixed:LENGTH",
    "lognormal:MEDIAN:SIGMA:MIN:MAX",
    "trace[:DIVISOR]",
    "a histogram's name or file",
)
LOADS_DEFAULT = (0.3, 0.6, 0.9)
FAMILIAR_LENGTHS = (8, 32, 128, 512)
SAMPLED = 2048

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One load: an open loop at a rate, or a closed loop of clients.

    Attributes:
        label: What the reader sees.
        arrivals: None for a closed loop.
        clients: 0 for an open loop.
        load: Rate ÷ capacity; None for a closed loop.
    """

    label: str
    arrivals: Arrivals | None
    clients: int
    load: float | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that a simulation is made of, but for its rate and its scheduler.

    Attributes:
        demands: What requests ask for; they are spread over the models.
        policy: How each model is scheduled.
        law: The true time of a run, of every model.
        disturbance: What makes runs slower than that.
        models: How many models share the devices.
        requests: How many requests a point.
        seed: Root of all that is random.
    """

    demands: Demands
    policy: Policy
    law: Law
    disturbance: "Disturbance"
    models: int
    requests: int
    seed: int

    @property
    def capacity(self) -> float:
        """Requests a second if thousands of them were known ahead and cut into the best runs."""
        stream = self.demands.requests(iter(lambda: 0, 1), seed=self.seed)
        sample = sorted(islice(stream, SAMPLED), key=lambda request: request.length)
        lengths, rows = [r.length for r in sample], [r.rows for r in sample]
        cost = self.law.learned(rows_max=self.policy.max_batch_size, lengths=FAMILIAR_LENGTHS)
        bounds = Bounds(self.policy.max_batch_size, self.policy.elements_max)
        cuts = partition(lengths, rows, call_ns=cost.call_ns(), row_ns=cost.row_ns, bounds=bounds)
        spent_ns = sum(self.law.run_ns(rows=sum(rows[a:b]), length=lengths[b - 1]) for a, b in cuts)
        return self.policy.instances * SAMPLED / spent_ns * 1e9

    @property
    def model_names(self) -> list[str]:
        """One name for each model."""
        name = self.demands.model
        return [name] if self.models == 1 else [f"{name}-{i + 1}" for i in range(self.models)]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """What a quiet machine has not.

    Attributes:
        noise: Sigma of a lognormal factor.
        outliers: Share of runs that are slow, and how slow.
        blips: Which runs, counted from 1, are how slow.
    """

    noise: float = 0.0
    outliers: tuple[float, float] = (0.0, 10.0)
    blips: tuple[tuple[int, float], ...] = ()

    def service(self, law: Law, random: Random) -> Service:
        """Runs by this law, disturbed."""
        share, factor = self.outliers
        blips = {run - 1: slower for run, slower in self.blips}
        return Service(law, self.noise, share, factor, blips, random)


def scenario_of(args: Namespace) -> Scenario:
    """What the arguments describe, or an InvalidSetting that says what was expected."""
    trace = load_trace(args.trace) if args.trace else None
    _within("--requests", args.requests, 1, 100_000_000)
    _within("--models", args.models, 1, 1000)
    demands = Demands(
        lengths=lengths_of(args.lengths, trace),
        budgets_ns=choice_of("--budgets", args.budgets, _budget_ns),
        priorities=choice_of("--priorities", args.priorities, _priority),
    )
    return Scenario(
        demands=demands,
        policy=policy_of(args),
        law=law_of(args.law),
        disturbance=disturbance_of(args),
        models=args.models,
        requests=args.requests,
        seed=args.seed,
    )


def disturbance_of(args: Namespace) -> Disturbance:
    """What makes runs slow."""
    _within("--noise", args.noise, 0.0, 5.0)
    share, _, factor = args.outliers.partition(":")
    outliers = (_number("--outliers", share), _number("--outliers", factor or "10"))
    _within("--outliers", outliers[0], 0.0, 1.0)
    _within("--outliers", outliers[1], 0.0, 1e6)
    blips = []
    for part in args.blip.split(",") if args.blip else ():
        run, _, factor = part.partition(":")
        if not run.isdecimal():
            raise InvalidSetting(f"--blip {args.blip!r}: expected RUN:FACTOR,…")
        blips.append((int(run), _number("--blip", factor)))
        _within("--blip", blips[-1][1], 0.0, 1e6)
    return Disturbance(args.noise, outliers, tuple(blips))


def points_of(args: Namespace, scenario: Scenario) -> list[Point]:
    """The rates or clients to simulate, one after another."""
    if args.rate and args.load:
        raise InvalidSetting("give --rate or --load, not both")
    kind, _, number = args.arrivals.partition(":")
    if kind == "closed":
        clients = int(_number("--arrivals", number or "64"))
        _within("--arrivals closed", clients, 1, 1_000_000)
        return [Point(f"{clients} clients", None, clients, None)]
    capacity = scenario.capacity
    arrivals = _trace_arrivals(args) if args.trace else arrivals_of(args.arrivals)
    rates = args.rate or ([arrivals.rate] if args.trace and not args.load else None)
    if rates:
        return [
            _open_point(f"{rate:.4g}/s · {rate / capacity:.2f}", arrivals, rate, capacity)
            for rate in rates
        ]
    return [
        _open_point(f"{load:.4g}", arrivals, load * capacity, capacity)
        for load in args.load or LOADS_DEFAULT
    ]


def arrivals_of(text: str) -> Arrivals:
    """An arrival process of rate 1 from its name and parameter."""
    kind, _, number = text.partition(":")
    if kind == "poisson" and not number:
        return Poisson(1.0)
    if kind == "gamma" and number:
        cv = _number("--arrivals gamma", number)
        _within("--arrivals gamma", cv, 0.01, 100.0)
        return Gamma(1.0, cv)
    if kind in ("mmpp", "square"):
        swing = _number(f"--arrivals {kind}", number) if number else 0.7
        _within(f"--arrivals {kind}", swing, 0.0, 1.0)
        return Switching(1.0, swing=swing, is_random=kind == "mmpp")
    raise InvalidSetting(f"arrivals {text!r}: known are {', '.join(ARRIVALS)}")


def lengths_of(text: str, trace: Trace | None) -> Draws[int]:
    """A distribution of lengths."""
    kind, *numbers = text.split(":")
    try:
        match kind, numbers:
            case "fixed", [length]:
                _within("--lengths", int(length), 1, 1_000_000)
                return Choice((int(length),))
            case "lognormal", [median, sigma, shortest, longest]:
                return _lognormal(float(median), float(sigma), int(shortest), int(longest))
            case "trace", ([] | [_]):
                return _recorded(trace, float(numbers[0]) if numbers else 1.0)
    except ValueError:
        raise _bad_lengths(text) from None
    if numbers:
        raise _bad_lengths(text)
    try:
        values, counts = load_histogram(text)
    except InvalidSetting as error:
        raise InvalidSetting(f"{error}; or {', '.join(LENGTHS[:3])}") from None
    return Choice(values, tuple(map(float, counts)))


def choice_of(name: str, text: str, read: Callable[[str], T]) -> Choice[T]:
    """Values with weights, `VALUE[:WEIGHT],…`."""
    values, weights = [], []
    for part in text.split(","):
        value, _, weight = part.partition(":")
        values.append(read(value))
        weights.append(_number(name, weight) if weight else 1.0)
    if min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise InvalidSetting(f"{name} {text!r}: weights must not be negative nor all 0")
    return Choice(tuple(values), tuple(weights))


def law_of(text: str) -> Law:
    """The service law from its four weights in ms."""
    weights = [_number("--law", part) for part in text.split(",")]
    if not 1 <= len(weights) <= 4 or min(weights) < 0 or not 0 < sum(weights) < math.inf:
        raise InvalidSetting(
            f"--law {text!r}: expected up to four times in ms, CALL,ROW,ELEMENT,SQUARE, all ≥ 0"
        )
    return Law(*(weight * MS for weight in weights))


def policy_of(args: Namespace) -> Policy:
    """How the model is scheduled."""
    _within("--devices", args.devices, 1, 1024)
    _within("--max-batch-size", args.max_batch_size, 1, 65_536)
    _within("--efficiency", args.efficiency, 0.0, 1.0)
    _within("--window-ms", args.window_ms, 0.0, 3_600_000.0)
    _within("--depth-max", args.depth_max, 1, 100_000_000)
    if args.elements_max is not None:
        _within("--elements-max", args.elements_max, 1, 1_000_000_000)
    if args.batching not in [kind.value for kind in Batching]:
        known = ", ".join(kind.value for kind in Batching)
        raise InvalidSetting(f"--batching {args.batching!r}: known are {known}")
    return Policy(
        instances=args.devices,
        batching=Batching(args.batching),
        max_batch_size=args.max_batch_size,
        elements_max=args.elements_max,
        window_ns_max=int(args.window_ms * MS),
        efficiency=args.efficiency,
        depth_max=args.depth_max,
        can_pad=True,
    )


def _open_point(label: str, arrivals: Arrivals, rate: float, capacity: float) -> Point:
    _within("the rate", rate, 1e-6, 1e9)
    return Point(label, arrivals.at_rate(rate), 0, rate / capacity)


def _trace_arrivals(args: Namespace) -> Arrivals:
    if args.arrivals != "poisson":
        raise InvalidSetting("--trace brings its own arrivals; leave --arrivals out")
    _within("--compress", args.compress, 1e-6, 1e9)
    trace = load_trace(args.trace)
    return Replay(trace, trace.rate * args.compress)


def _lognormal(median: float, sigma: float, shortest: int, longest: int) -> Lognormal:
    if not (0 < median < 1e6 and 0 <= sigma <= 10 and 1 <= shortest <= longest <= 1_000_000):
        raise ValueError(median)
    return Lognormal(median, sigma, shortest, longest)


def _recorded(trace: Trace | None, divisor: float) -> Recorded:
    if trace is None or not trace.lengths:
        raise InvalidSetting("--lengths trace needs a --trace with a column of lengths")
    _within("--lengths trace", divisor, 1e-3, 1e6)
    return Recorded(trace.lengths, divisor=divisor)


def _bad_lengths(text: str) -> InvalidSetting:
    return InvalidSetting(f"lengths {text!r}: known are {', '.join(LENGTHS)}")


def _budget_ns(text: str) -> int:
    budget_ms = _number("--budgets", text)
    _within("--budgets", budget_ms, 1e-3, 1e9)
    return int(budget_ms * MS)


def _priority(text: str) -> int:
    if text not in ("1", "2", "3"):
        raise InvalidSetting(f"--priorities {text!r}: expected 1 (high), 2 or 3")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidSetting(f"{name} {text!r}: expected a number") from None


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidSetting(f"{name} {value:g}: expected {least:g} to {most:g}")
