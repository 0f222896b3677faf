"""Writes what a scheduler is told and what it decides into a ring file of fixed size.

The ring is mapped into memory: a turn is one copy, nothing is flushed, and the turns that were
written are in the file even if the process is killed. Its blocks are reserved at the start, so a
full disk is found out then and not in the middle of a request. Should a write fail all the same,
the recording ends, and nothing else does. There are no payloads in it, and of a group only a hash
that tells whether two are equal.
"""

import logging
import mmap
import os
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

import msgspec

from xirang.core.cost import CostModel
from xirang.core.event import Function
from xirang.core.memory.account import Claim
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Action, Done, Outcome, Rejected, Run, Trigger, Verdict
from xirang.core.scheduler import Scheduler
from xirang.core.snapshot import Snapshot
from xirang.errors import InvalidSetting
from xirang.observe.recording import (
    CHECKSUM,
    CHECKSUM_FROM_END,
    CLASS_BIT,
    FIELDS,
    HEADER,
    LEVEL_BIT,
    MAGIC,
    RECORD,
    RING_AT,
    TAIL,
    VERSION,
    WRITTEN,
    WRITTEN_AT,
    Ground,
    Kind,
    ModelEntry,
    head_of,
)

log = logging.getLogger(__name__)

TRIGGERS = tuple(Trigger)
FAST_BITS = {None: 0, False: 1 << 6, True: 1 << 7}
"""In the priority's byte; priorities end at 63."""

ROWS_BITS = 40
"""Of the field that holds a request's rows; above them stands its tenant's number."""
_IDS = FIELDS - 1
_NOTHING = (0,) * _IDS
_TURN = head_of(Kind.TURN)
_RECORDS_MIN = 64
_CANCEL, _DRAIN, _LOOK = head_of(Kind.CANCEL), head_of(Kind.DRAIN), head_of(Kind.LOOK)
_SUSPEND, _GAP = head_of(Kind.SUSPEND), head_of(Kind.GAP)
_CAPACITY, _EXTEND = head_of(Kind.CAPACITY), head_of(Kind.EXTEND)


class Sink(Protocol):
    """Where a recorded scheduler writes.

    Attributes:
        turn: Fields of the records of this turn, one after another; `seal` takes them out.
    """

    turn: list[int]

    def add_model(self, entry: ModelEntry) -> int:
        """Note a model; its records carry the number that comes back."""
        ...

    def seal(self, now_ns: int) -> None:
        """The turn has ended."""
        ...


class Recorder:
    """The writing end of a recording."""

    def __init__(self, path: Path, *, size_bytes: int, ground: Ground) -> None:
        """Make the file, over whatever was there.

        Args:
            path: Where.
            size_bytes: Of the ring.
            ground: What the scheduler is made with.

        Raises:
            InvalidSetting: It cannot be written there.
        """
        self.turn: list[int] = []
        self._capacity = max(_RECORDS_MIN, size_bytes // RECORD.size)
        self._written = 0
        self._models = 0
        self._has_ended = False
        length = RING_AT + self._capacity * RECORD.size
        try:
            self._file = path.open("w+b")
            with _closed_on_error(self._file):
                os.posix_fallocate(self._file.fileno(), 0, length)
                self._map = mmap.mmap(self._file.fileno(), length)
                self._append(msgspec.json.encode(ground))
        except OSError as error:
            raise InvalidSetting(f"cannot record to {path}: {error.strerror}") from error
        self._write_header()

    def add_model(self, entry: ModelEntry) -> int:
        """Note a model; its records carry the number that comes back."""
        number = self._models
        try:
            self._append(msgspec.json.encode(entry))
        except OSError as error:
            self._end(error)
        self._models += 1
        if not self._has_ended:
            self._write_header()
        return number

    def seal(self, now_ns: int) -> None:
        """Write the turn into the ring, and count it only then."""
        turn = self.turn
        if self._has_ended:
            turn.clear()
            return
        number = self._written + len(turn) // FIELDS
        turn += (_TURN, 0, 0, now_ns, number, 0, 0, 0)
        records = array("q", turn).tobytes()
        turn.clear()
        # The checksum covers the seal as well, with nothing where it will stand itself.
        checksum = CHECKSUM.pack(zlib.crc32(records))
        records = records[:CHECKSUM_FROM_END] + checksum + records[CHECKSUM_FROM_END + 4 :]
        self._copy(records)
        self._written += len(records) // RECORD.size
        WRITTEN.pack_into(self._map, WRITTEN_AT, self._written)

    def close(self) -> None:
        """Leave the file as it is."""
        self._map.close()
        with suppress(OSError):  # what could not be written before cannot be now
            self._file.close()

    def _end(self, error: OSError) -> None:
        if not self._has_ended:
            log.error("the recording ends here, it cannot be written: %s", error.strerror)
        self._has_ended = True

    def _copy(self, records: bytes) -> None:
        size = self._capacity * RECORD.size
        begin = RING_AT + self._written * RECORD.size % size
        room = RING_AT + size - begin
        if len(records) <= room:
            self._map[begin : begin + len(records)] = records
        else:
            self._copy_around(records)

    def _copy_around(self, records: bytes) -> None:
        # Of a turn longer than the ring the end stays; no reader will find it whole.
        for at in range(0, len(records), RECORD.size):
            begin = RING_AT + (self._written + at // RECORD.size) % self._capacity * RECORD.size
            self._map[begin : begin + RECORD.size] = records[at : at + RECORD.size]

    def _append(self, text: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(TAIL.pack(len(text), zlib.crc32(text)) + text)
        self._file.flush()

    def _write_header(self) -> None:
        header = HEADER.pack(MAGIC, VERSION, RECORD.size, self._models, self._capacity)
        header += CHECKSUM.pack(zlib.crc32(header))
        self._map[: len(header)] = header


@contextmanager
def _closed_on_error(file: IO[bytes]) -> Iterator[None]:
    try:
        yield
    except OSError:
        with suppress(OSError):
            file.close()
        raise


class _Heads:
    """The first fields of a model's records, made once."""

    __slots__ = ("complete", "lease", "lengths", "members", "number", "run", "submit")

    def __init__(self, number: int) -> None:
        self.number = number
        self.submit = head_of(Kind.SUBMIT, model=number)
        self.lengths = head_of(Kind.LENGTHS, model=number)
        self.complete = head_of(Kind.COMPLETE, model=number)
        self.run = head_of(Kind.RUN, model=number)
        self.members = head_of(Kind.MEMBERS, model=number)
        self.lease = head_of(Kind.LEASE, model=number)


def _ending(outcome: Outcome) -> int:
    """1 if it gave its answers, 2 if there was no memory for it, 0 for any other fault."""
    return 1 if isinstance(outcome, Done) else 2 * outcome.is_out_of_memory


class RecordedScheduler(Scheduler):
    """A scheduler that writes down what it is told and what it decides."""

    def __init__(self, ground: Ground, *, recorder: Sink) -> None:
        """Start with no models.

        Args:
            ground: What it is made with.
            recorder: Where it is written.
        """
        super().__init__(
            devices=ground.devices,
            thresholds=ground.thresholds,
            allowances=ground.allowances,
            pool=ground.pool,
        )
        self._tenant_numbers = {name: i for i, name in enumerate(sorted(ground.allowances), 1)}
        self._recorder = recorder
        self._turn = recorder.turn
        self._heads: dict[str, _Heads] = {}
        self._is_paused = False

    def add_model(
        self, name: str, policy: Policy, cost: CostModel, memory: Claim | None = None
    ) -> None:
        """Take requests for one more model."""
        number = self._recorder.add_model(ModelEntry(name, policy, cost.state(), memory))
        self._heads[name] = _Heads(number)
        self._turn += (head_of(Kind.MODEL, model=number), 0, 0, 0, 0, 0, 0, 0)
        super().add_model(name, policy, cost, memory)

    def remove_model(self, name: str) -> None:
        """Forget a model of which nothing waits and nothing runs."""
        self._turn += (head_of(Kind.REMOVE, model=self._heads[name].number), 0, 0, 0, 0, 0, 0, 0)
        super().remove_model(name)

    def submit(self, request: Request, *, now_ns: int) -> Verdict:
        """A request came."""
        if request.lengths:
            self._write_ids(self._heads[request.model].lengths, request.lengths)
        self._turn += (
            self._heads[request.model].submit
            | (request.priority | FAST_BITS[request.fast]) << 8
            | request.client << 32,
            request.rows | self._tenant_numbers.get(request.tenant, 0) << ROWS_BITS,
            request.length,
            now_ns,
            request.id,
            request.arrival_ns,
            request.deadline_ns,
            hash(request.group),
        )
        verdict = super().submit(request, now_ns=now_ns)
        if isinstance(verdict, Rejected):
            self._write_end(Kind.REJECT, request, now_ns)
        return verdict

    def cancel(self, request_id: int, *, now_ns: int) -> bool:
        """Its client went away."""
        self._turn += (_CANCEL, 0, 0, now_ns, request_id, 0, 0, 0)
        return super().cancel(request_id, now_ns=now_ns)

    def complete(self, run_id: int, *, now_ns: int, outcome: Outcome) -> Run:
        """A run ended."""
        run = super().complete(run_id, now_ns=now_ns, outcome=outcome)
        done = outcome if isinstance(outcome, Done) else Done(0)
        self._turn += (
            self._heads[run.model].complete
            | _ending(outcome) << 8
            | -(-outcome.memory_bytes >> 10) << 32,
            run.rows,
            run.length,
            now_ns,
            run_id,
            done.ran_ns,
            done.assemble_ns,
            done.split_ns,
        )
        return run

    def suspend(self, run_id: int) -> None:
        """A run leaves its device to others."""
        self._turn += (_SUSPEND, 0, 0, 0, run_id, 0, 0, 0)
        super().suspend(run_id)

    def extend(self, run_id: int, size_bytes: int) -> bool:
        """A run needs more memory than was expected."""
        self._turn += (_EXTEND, 0, 0, 0, run_id, size_bytes, 0, 0)
        return super().extend(run_id, size_bytes)

    def resize_pool(self, capacity_bytes: int, *, is_pressed: bool = False) -> None:
        """There is more memory for the pool now, or less."""
        self._turn += (_CAPACITY | is_pressed << 8, 0, 0, 0, 0, capacity_bytes, 0, 0)
        super().resize_pool(capacity_bytes, is_pressed=is_pressed)

    def drain(self) -> None:
        """Admit nobody any more."""
        self._turn += (_DRAIN, 0, 0, 0, 0, 0, 0, 0)
        super().drain()

    def snapshot(self, *, now_ns: int) -> Snapshot:
        """What is; looking makes averages decay at this instant, so it is a fact too."""
        self._turn += (_LOOK, 0, 0, now_ns, 0, 0, 0, 0)
        return super().snapshot(now_ns=now_ns)

    def poll(self, *, now_ns: int) -> list[Action]:
        """What must happen now."""
        actions = super().poll(now_ns=now_ns)
        for action in actions:
            if isinstance(action, Run):
                self._write_run(action)
            else:
                self._write_end(Kind.EXPIRE, action.request, now_ns)
        self._seal(now_ns)
        return actions

    def _seal(self, now_ns: int) -> None:
        """End the turn, which is lost while overload has the recorder switched off."""
        if self._is_paused:
            self._turn.clear()
        else:
            self._recorder.seal(now_ns)
        is_off = any(Function.RECORDER in each.overload.off for each in self._devices.values())
        if self._is_paused and not is_off:
            self._turn += (_GAP, 0, 0, now_ns, 0, 0, 0, 0)
        self._is_paused = is_off

    def _write_run(self, run: Run) -> None:
        heads = self._heads[run.model]
        self._turn += (
            heads.run
            | (TRIGGERS.index(run.trigger) | run.level << LEVEL_BIT) << 8
            | run.instance << 32,
            run.rows,
            run.length,
            run.start_ns,
            run.id,
            run.predicted_ns,
            run.window_ns,
            run.threshold_ns,
        )
        members = [request.id | request.cost_class << CLASS_BIT for request in run.requests]
        self._write_ids(heads.members | run.depth << 32, members)
        if run.lease_bytes:
            self._turn += (heads.lease, 0, 0, run.start_ns, run.id, run.lease_bytes, 0, 0)

    def _write_end(self, kind: Kind, request: Request, now_ns: int) -> None:
        head = head_of(kind, model=self._heads[request.model].number)
        self._turn += (head, 0, 0, now_ns, request.id, 0, 0, 0)

    def _write_ids(self, head: int, ids: Sequence[int]) -> None:
        for begin in range(0, len(ids), _IDS):
            part = ids[begin : begin + _IDS]
            self._turn += (head | len(part) << 8, *part, *_NOTHING[len(part) :])
