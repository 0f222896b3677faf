"""`xirang replay`: a recording fed to the same scheduler again, or its arrivals to the simulator.

Fed the recorded facts, a fresh scheduler must decide what the live one decided; the first
difference is a fault, of the scheduler or of the recording. A recording whose beginning was
overwritten cannot be verified, because the state at its oldest turn is unknown; what happened and
its arrivals are still there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xirang.core.cost import CostModel
from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Admitted, Done, Failed, Outcome, Rejected, Run
from xirang.core.scheduler import Scheduler
from xirang.lab.simulator_result import Tally
from xirang.observe.recorder import FAST_BITS, ROWS_BITS, TRIGGERS, RecordedScheduler
from xirang.observe.recording import (
    FIELDS,
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
                scheduler.add_model(entry.name, entry.policy, CostModel.of(entry.cost))
            case Kind.REMOVE:
                scheduler.remove_model(recording.model(record).name)
            case Kind.CANCEL:
                scheduler.cancel(record.id, now_ns=record.at_ns)
            case Kind.COMPLETE:
                scheduler.complete(record.id, now_ns=record.at_ns, outcome=outcome_of(record))
            case Kind.SUSPEND:
                scheduler.suspend(record.id)
            case Kind.DRAIN:
                scheduler.drain()
            case Kind.LOOK:
                scheduler.snapshot(now_ns=record.at_ns)
    scheduler.poll(now_ns=turn.at_ns)


def outcome_of(record: Record) -> Outcome:
    """How the run of a record ended; whose fault it was is not recorded."""
    if record.small == 1:
        return Done(record.first, record.second, record.third)
    return Failed(is_out_of_memory=record.small == 2)


PRIORITY_MASK = 63
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
        run_record: Record | None = None
        for record in turn.decisions:
            if record.kind == Kind.RUN:
                run_record = record
                self._running[record.id] = self._run(record)
            elif record.kind == Kind.MEMBERS and run_record is not None:
                self._join(run_record.id, record.ids)
            elif record.kind == Kind.EXPIRE and record.id in self._waiting:
                expired = self._waiting.pop(record.id)
                self.tallies[expired.model].on_expire(expired, record.at_ns)

    def _arrive(self, request: Request, *, is_admitted: bool) -> None:
        if is_admitted:
            self._waiting[request.id] = request
        self.tallies[request.model].on_arrival(request, Admitted() if is_admitted else REJECTED)

    def _join(self, run_id: int, ids: tuple[int, ...]) -> None:
        members = [self._waiting.pop(id) for id in ids if id in self._waiting]
        run = self._running[run_id]
        self._running[run_id] = replace(run, requests=(*run.requests, *members))

    def _run(self, record: Record) -> Run:
        return Run(
            id=record.id,
            model=self._recording.model(record).name,
            instance=record.extra,
            requests=(),
            rows=record.rows,
            length=record.length,
            trigger=TRIGGERS[record.small],
            start_ns=record.at_ns,
            predicted_ns=record.first,
            window_ns=record.second,
            depth=record.third,
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
                f"{TRIGGERS[record.small].value}, predicted {record.first} ns, "
                f"window {record.second} ns, {record.third} stay behind"
            )
        case Kind.MEMBERS:
            return f"requests {', '.join(map(str, record.ids))} in the run"
        case Kind.EXPIRE:
            return f"request {record.id} expires"
        case _:
            return f"request {record.id} is rejected"
