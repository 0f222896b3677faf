"""Sequences of requests for Triton's dynamic batcher, and our scheduler playing them.

A sequence, and what became of it on a genuine server, stands in `tests/data/triton/batcher.json`.
"""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from xirang.config import ModelSettings
from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Rejected
from xirang.engine.turns import Turns
from xirang.lab.simulator import Law, Service, Silent, Simulator
from xirang.repository.triton.batching import mixes_shapes
from xirang.repository.triton.checks import checked
from xirang.repository.triton.meaning import meaning_of
from xirang.repository.triton.reading import read_text

RECORDED = Path(__file__).parent.parent / "data" / "triton" / "batcher.json"
ROWS_MAX = 8
MS = 1_000_000
MOMENT_MS = 30
"""What lies closer together than this has no order: answers travel on connections of their own."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request.

    Attributes:
        at_ms: When it is sent, from the first.
        busy_ms: How long a run with it takes at least.
        rows: How many it has.
        length: Of its rows.
        priority: 0 for the default.
        timeout_ms: Of its own; 0 for none.
    """

    at_ms: int
    busy_ms: int = 0
    rows: int = 1
    length: int = 4
    priority: int = 0
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Sequence:
    """Requests to one model.

    Attributes:
        name: What it shows.
        batching: The inside of the model's `dynamic_batching`.
        asks: By the instant at which they are sent.
        held: Nothing runs before so many wait (`TRITONSERVER_DELAY_SCHEDULER`); 0: at once.
        instances: Of the model.
        is_ragged: Whether its input has `allow_ragged_batch`.
        is_watched: Whether the order of its answers is told.
    """

    name: str
    batching: str
    asks: tuple[Ask, ...]
    held: int = 0
    instances: int = 1
    is_ragged: bool = False
    is_watched: bool = False

    @property
    def model(self) -> str:
        return self.name.replace(" ", "_").replace(",", "")

    def config(self) -> str:
        """The model's config.pbtxt."""
        ragged = " allow_ragged_batch: true" if self.is_ragged else ""
        return (
            f'backend: "python"\nmax_batch_size: {ROWS_MAX}\n'
            f'input [{{ name: "IN" data_type: TYPE_FP32 dims: [-1]{ragged} }}]\n'
            'output [{ name: "RUN" data_type: TYPE_INT32 dims: [1] }]\n'
            f"instance_group [{{ count: {self.instances} kind: KIND_CPU }}]\n"
            f"dynamic_batching {{ {self.batching} }}\n"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sequence's requests, each named by its place in it.

    Attributes:
        runs: Who shared each run, ascending; the runs by their first request.
        timed_out: Who was answered that his time was over.
        refused: Who found the queue full.
        sizes: Rows of a run, and how many runs had so many, by the server's statistics.
        inferences: Rows that were answered, by the same.
        executions: Runs, by the same.
        answered: Who was answered at about the same time, one such moment after the other; none
            if nobody watches.
    """

    runs: tuple[tuple[int, ...], ...]
    timed_out: tuple[int, ...]
    refused: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]
    inferences: int
    executions: int
    answered: tuple[tuple[int, ...], ...]


def moments(answers) -> tuple[tuple[int, ...], ...]:
    """From pairs of instant in ms and request to who was answered at about the same time."""
    found, last_ms = [], None
    for at_ms, number in answers:
        if last_ms is None or at_ms - last_ms > MOMENT_MS:
            found.append([])
        found[-1].append(number)
        last_ms = at_ms
    return tuple(tuple(sorted(each)) for each in found)


def recorded() -> list[tuple[Sequence, Outcome]]:
    """Every sequence, and what the genuine server made of it."""
    told = json.loads(RECORDED.read_text())
    found = []
    for each in told["sequences"]:
        asks = tuple(Ask(**ask) for ask in each["sequence"].pop("asks"))
        outcome = {name: _tuples(value) for name, value in each["outcome"].items()}
        found.append((Sequence(asks=asks, **each["sequence"]), Outcome(**outcome)))
    return found


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class _Watched(Silent):
    """Who ran with whom, and in which order things ended."""

    def __init__(self, *, is_ordered):
        self.runs, self.timed_out, self.refused, self.answered = [], [], [], []
        self._turns = Turns() if is_ordered else None
        self._now_ns = 0

    def on_arrival(self, request, verdict):
        if isinstance(verdict, Rejected):
            self.refused.append(request.id)
        elif self._turns is not None:
            self._turns.enter(request.id)

    def on_start(self, run):
        self.runs.append(run)

    def on_end(self, run, now_ns):
        self._now_ns = now_ns
        for request in run.requests:
            if self._turns is None:
                self.answered.append((now_ns / MS, request.id))
            else:
                self._turns.answered(request.id, partial(self._released, request.id))

    def on_expire(self, request, now_ns):
        self.timed_out.append(request.id)

    def _released(self, number):
        self.answered.append((self._now_ns / MS, number))


@dataclass(slots=True)
class _Told(Service):
    """Runs that take as long as the slowest of their requests says."""

    asks: tuple[Ask, ...] = ()

    def ran_ns(self, run):
        return max(self.asks[request.id].busy_ms for request in run.requests) * MS + MS // 2


def played(sequence: Sequence) -> Outcome:
    """A sequence on the virtual clock, scheduled as its configuration says."""
    meaning = meaning_of(checked(read_text(sequence.config()), "m"), ModelSettings())
    policy = Policy(
        instances=sequence.instances,
        max_batch_size=ROWS_MAX,
        rejects_early=False,
        batcher=replace(meaning.rules, held=sequence.held),
        is_ragged=mixes_shapes(checked(read_text(sequence.config()), "m")),
    )
    watched = _Watched(is_ordered=policy.batcher.is_ordered)
    service = _Told(Law(call_ns=MS), asks=sequence.asks)
    simulator = Simulator(
        {"m": (policy, CostModel(), service)},
        devices={"cpu": sequence.instances},
        watchers=[watched],
    )
    simulator.run([_request(i, ask, policy) for i, ask in enumerate(sequence.asks)])
    simulator.scheduler.check_integrity()
    return _outcome(watched, is_watched=sequence.is_watched)


def _request(number: int, ask: Ask, policy: Policy) -> Request:
    level = policy.priority_of(ask.priority)
    asked_ns = ask.timeout_ms * MS or None
    budget_ns = policy.batcher.queue_of(level).budget_ns(asked_ns)
    return Request(
        id=number,
        model="m",
        arrival_ns=ask.at_ms * MS,
        deadline_ns=ask.at_ms * MS + budget_ns,
        priority=level,
        rows=ask.rows,
        length=ask.length,
        group=None if policy.is_ragged else ask.length,
    )


def _outcome(watched: _Watched, *, is_watched: bool) -> Outcome:
    runs = tuple(sorted(tuple(sorted(r.id for r in run.requests)) for run in watched.runs))
    counts: dict[int, int] = {}
    for run in watched.runs:
        counts[run.rows] = counts.get(run.rows, 0) + 1
    return Outcome(
        runs=runs,
        timed_out=tuple(sorted(watched.timed_out)),
        refused=tuple(sorted(watched.refused)),
        sizes=tuple(sorted(counts.items())),
        inferences=sum(run.rows for run in watched.runs),
        executions=len(watched.runs),
        answered=moments(watched.answered) if is_watched else (),
    )
