"""`xirang replay`: a recording fed to the same scheduler again, or its arrivals to the simulator.

Fed the recorded facts, a fresh scheduler must decide what the live one decided; the first
difference is a fault, of the scheduler or of the recording. A recording whose beginning was
overwritten cannot be verified, because the state at its oldest turn is unknown; what happened and
its arrivals are still there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xirang.core.cost import CostModel
from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Admitted, Done, Failed, Outcome, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.lab.simulator_result import Tally
from xirang.observe.recorder import FAST_BITS, ROWS_BITS, TRIGGERS, RecordedScheduler
from xirang.observe.recording import (
    CLASS_BIT,
    FIELDS,
    LEVEL_BIT,
    InvalidRecording,
    Kind,
    ModelEntry,
    Record,
    Recording,
    Turn,
)

REJECTED = Rejected("recorded", 0)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a replay first decided otherwise.

    Attributes:
        record: Number of the turn's first record.
        at_ns: When, from the first turn on.
        live: What the live scheduler decided, in words.
        replayed: What it decided now.
    """

    record: int
    at_ns: int
    live: str
    replayed: str


class _Collected:
    """Keeps what a replayed turn decided."""

    def __init__(self) -> None:
        self.turn: list[int] = []
        self._models = 0

    def add_model(self, entry: ModelEntry) -> int:
        """Number the models in their order."""
        self._models += 1
        return self._models - 1

    def seal(self, now_ns: int) -> None:
        """The turn waits to be taken."""

    def take(self) -> list[Record]:
        """What was decided in this turn; its facts are known."""
        turn = iter(self.turn)
        records = [Record._make(fields) for fields in zip(*[turn] * FIELDS, strict=True)]
        self.turn.clear()
        return [record for record in records if _is_decision(record)]


def _is_decision(record: Record) -> bool:
    return record.kind >= Kind.RUN or record.kind == Kind.REJECT


def verify(recording: Recording) -> Difference | None:
    """Feed the recorded facts to a fresh scheduler.

    Returns:
        The first difference; None if every decision was the same.

    Raises:
        InvalidRecording: It is damaged, or does not go back to its start.
    """
    if not recording.is_whole:
        raise InvalidRecording("the beginning was overwritten; a whole recording can be verified")
    collected = _Collected()
    scheduler = RecordedScheduler(recording.ground, recorder=collected)
    begin_ns: int | None = None
    for turn in recording.turns():
        begin_ns = turn.at_ns if begin_ns is None else begin_ns
        if any(record.kind == Kind.GAP for record in turn.facts):
            raise InvalidRecording(
                f"the recorder was switched off under overload before record {turn.number}: "
                "decisions up to there are the same, later ones cannot be verified"
            )
        try:
            _feed(scheduler, recording, turn)
        except (AssertionError, KeyError, ValueError) as error:
            raise InvalidRecording(
                f"the facts from record {turn.number} on cannot be: {error!r}"
            ) from error
        live = [record for record in [*turn.facts, *turn.decisions] if _is_decision(record)]
        replayed = collected.take()
        if live != replayed:
            return _difference(turn, begin_ns, live, replayed)
    return None


def _feed(scheduler: Scheduler, recording: Recording, turn: Turn) -> None:
    for record, request in requests_among(recording, turn):
        match record.kind:
            case Kind.SUBMIT:
                assert request is not None
                scheduler.submit(request, now_ns=record.at_ns)
            case Kind.MODEL:
                entry = recording.model(record)
                cost = CostModel.of(entry.cost)
                scheduler.add_model(entry.name, entry.policy, cost, entry.memory)
            case Kind.REMOVE:
                scheduler.remove_model(recording.model(record).name)
            case _:
                _tell(scheduler, record)
    scheduler.poll(now_ns=turn.at_ns)


def _tell(scheduler: Scheduler, record: Record) -> None:
    """A fact that its record says all about."""
    match record.kind:
        case Kind.CANCEL:
            scheduler.cancel(record.id, now_ns=record.at_ns)
        case Kind.COMPLETE:
            scheduler.complete(record.id, now_ns=record.at_ns, outcome=outcome_of(record))
        case Kind.SUSPEND:
            scheduler.suspend(record.id)
        case Kind.EXTEND:
            scheduler.extend(record.id, record.first)
        case Kind.CAPACITY:
            scheduler.resize_pool(record.first, is_pressed=record.small == 1)
        case Kind.DRAIN:
            scheduler.drain()
        case Kind.LOOK:
            scheduler.snapshot(now_ns=record.at_ns)


def outcome_of(record: Record) -> Outcome:
    """How the run of a record ended; whose fault it was is not recorded."""
    if record.small == 1:
        return Done(record.first, record.second, record.third, record.extra << 10)
    return Failed(is_out_of_memory=record.small == 2, memory_bytes=record.extra << 10)


PRIORITY_MASK = 63
TRIGGER_MASK = (1 << LEVEL_BIT) - 1
ID_MASK = (1 << CLASS_BIT) - 1
FAST_OF = {bits: fast for fast, bits in FAST_BITS.items()}


def requests_among(recording: Recording, turn: Turn) -> Iterator[tuple[Record, Request | None]]:
    """The facts of a turn, those about an arrival with their request."""
    lengths: tuple[int, ...] = ()
    tenants = ["", *sorted(recording.ground.allowances)]
    for record in turn.facts:
        if record.kind == Kind.LENGTHS:
            lengths += record.ids
            continue
        if record.kind != Kind.SUBMIT:
            yield record, None
            continue
        yield (
            record,
            Request(
                id=record.id,
                model=recording.model(record).name,
                arrival_ns=record.first,
                deadline_ns=record.second,
                priority=record.small & PRIORITY_MASK,
                rows=record.rows & (1 << ROWS_BITS) - 1,
                length=record.length,
                group=record.third,
                lengths=lengths,
                client=record.extra,
                tenant=tenants[record.rows >> ROWS_BITS],
                fast=FAST_OF[record.small & ~PRIORITY_MASK],
            ),
        )
        lengths = ()


def tallies(recording: Recording) -> dict[str, Tally]:
    """What happened to each model's requests; who came before the oldest turn is left out."""
    happened = _Happened(recording)
    for turn in recording.turns():
        happened.on_turn(turn)
    return happened.tallies


def ended_runs(recording: Recording) -> Iterator[RunEnded]:
    """Every run that ended, with the requests that it held and how it went."""
    happened = _Happened(recording)
    for turn in recording.turns():
        happened.on_turn(turn)
        yield from happened.ended
        happened.ended.clear()


class _Happened:
    """Tells tallies what a recording says, as a simulator tells them what it does."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.tallies = {
            entry.name: Tally(parallelism=entry.policy.instances) for entry in recording.models
        }
        self._waiting: dict[int, Request] = {}
        self._running: dict[int, Run] = {}
        self.ended: list[RunEnded] = []

    def on_turn(self, turn: Turn) -> None:
        """Fold one turn."""
        rejected = {record.id for record in turn.facts if record.kind == Kind.REJECT}
        for record, request in requests_among(self._recording, turn):
            if request is not None:
                self._arrive(request, is_admitted=request.id not in rejected)
            elif record.kind == Kind.CANCEL:
                self._waiting.pop(record.id, None)
            elif record.kind == Kind.GAP:
                self._waiting.clear()
                self._running.clear()
            elif record.kind == Kind.COMPLETE and record.id in self._running:
                run = self._running.pop(record.id)
                self.tallies[run.model].on_end(run, record.at_ns)
                self.ended.append(RunEnded(run, outcome_of(record), record.at_ns))
        run_id = 0
        for record in turn.decisions:
            if record.kind == Kind.RUN:
                run_id = record.id
            self._decide(record, run_id)

    def _decide(self, record: Record, run_id: int) -> None:
        """Fold one decision; members come behind the run that they are in."""
        if record.kind == Kind.RUN:
            self._running[run_id] = self._run(record)
        elif record.kind == Kind.MEMBERS and run_id:
            self._join(run_id, record)
        elif record.kind == Kind.LEASE and run_id:
            self._running[run_id] = self._running[run_id]._replace(lease_bytes=record.first)
        elif record.kind == Kind.EXPIRE and record.id in self._waiting:
            expired = self._waiting.pop(record.id)
            self.tallies[expired.model].on_expire(expired, record.at_ns)

    def _arrive(self, request: Request, *, is_admitted: bool) -> None:
        if is_admitted:
            self._waiting[request.id] = request
        self.tallies[request.model].on_arrival(request, Admitted() if is_admitted else REJECTED)

    def _join(self, run_id: int, record: Record) -> None:
        members = []
        for member in record.ids:
            request = self._waiting.pop(member & ID_MASK, None)
            if request is not None:
                request.cost_class = member >> CLASS_BIT
                members.append(request)
        run = self._running[run_id]
        requests = (*run.requests, *members)
        self._running[run_id] = run._replace(requests=requests, depth=record.extra)

    def _run(self, record: Record) -> Run:
        return Run(
            id=record.id,
            model=self._recording.model(record).name,
            instance=record.extra,
            requests=(),
            rows=record.rows,
            length=record.length,
            trigger=TRIGGERS[record.small & TRIGGER_MASK],
            start_ns=record.at_ns,
            predicted_ns=record.first,
            window_ns=record.second,
            depth=0,  # its members' record says it
            threshold_ns=record.third,
            level=record.small >> LEVEL_BIT,
        )


def _difference(
    turn: Turn, begin_ns: int, live: list[Record], replayed: list[Record]
) -> Difference:
    at = next(
        (i for i, pair in enumerate(zip(live, replayed, strict=False)) if pair[0] != pair[1]),
        min(len(live), len(replayed)),
    )
    return Difference(
        turn.number, turn.at_ns - begin_ns, _words(live[at : at + 1]), _words(replayed[at : at + 1])
    )


def _words(records: list[Record]) -> str:
    """A decision as people read it."""
    if not records:
        return "nothing more"
    (record,) = records
    match record.kind:
        case Kind.RUN:
            return (
                f"run {record.id} of model {record.model}: {record.rows} rows × {record.length}, "
                f"{TRIGGERS[record.small & TRIGGER_MASK].value}, predicted {record.first} ns, "
                f"window {record.second} ns, threshold {record.third} ns"
            )
        case Kind.MEMBERS:
            ids = ", ".join(str(member & ID_MASK) for member in record.ids)
            return f"requests {ids} in the run, {record.extra} stay behind"
        case Kind.LEASE:
            return f"run {record.id} has {record.first} bytes"
        case Kind.EXPIRE:
            return f"request {record.id} expires"
        case _:
            return f"request {record.id} is rejected"
