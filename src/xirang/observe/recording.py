"""A recording's format, and its reader: what a scheduler was told and what it decided.

The file is a header, a ring of records of one size, and a tail with a JSON value for each model
(docs/recording.md). Records come in turns: facts, then the decisions of the poll that followed
them, then a record that seals the turn with a checksum. When the ring is full the oldest turns are
overwritten.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import msgspec

from xirang.core.admission.levels import Thresholds
from xirang.core.admission.tenants import Allowance
from xirang.core.cost import CostState
from xirang.core.memory.account import Claim
from xirang.core.memory.pool import PoolSettings
from xirang.core.policy import Policy
from xirang.errors import InvalidSetting

MAGIC = b"xirangRC"
VERSION = 3
HEADER = Struct("<8sBxHIQ")  # magic, version, size of a record, models, capacity
CHECKSUM = Struct("<I")  # of the header, right behind it
WRITTEN = Struct("<Q")  # records of all turns that were sealed
WRITTEN_AT = 48
RING_AT = 64
"""Where the ring begins: the header with room to grow."""

FIELDS = 8
RECORD = Struct(f"<{FIELDS}q")  # 64 bytes, a line of the cache
TAIL = Struct("<II")  # length and crc of the JSON that follows

CLASS_BIT = 56
"""A member's id ends below it; above stands the cost class of the lane in which it waited."""

LEVEL_BIT = 4
"""The same for a run's trigger and the level of overload."""

CHECKSUM_FROM_END = 4 - RECORD.size
"""Where a turn's checksum stands: the upper half of its last record's first number."""


class Kind(IntEnum):
    """What a record is."""

    MODEL = 1
    LENGTHS = 2
    SUBMIT = 3
    CANCEL = 4
    COMPLETE = 5
    DRAIN = 6
    LOOK = 7
    REJECT = 8
    REMOVE = 9
    SUSPEND = 10
    GAP = 11
    CAPACITY = 12
    EXTEND = 13
    RUN = 16
    MEMBERS = 17
    EXPIRE = 18
    LEASE = 19
    TURN = 32


class Record(NamedTuple):
    """One record; what its fields hold depends on its kind (docs/recording.md).

    Attributes:
        head: Kind, a small number, the model's number and one more, from the lowest bits up: 8, 8,
            16 and 32 of them.
    """

    head: int
    rows: int
    length: int
    at_ns: int
    id: int
    first: int
    second: int
    third: int

    @property
    def kind(self) -> int:
        """What it is."""
        return self.head & 0xFF

    @property
    def small(self) -> int:
        """A priority, a trigger, a count or a yes."""
        return self.head >> 8 & 0xFF

    @property
    def model(self) -> int:
        """Number of the model."""
        return self.head >> 16 & 0xFFFF

    @property
    def extra(self) -> int:
        """An instance, a checksum, a count or KiB."""
        return self.head >> 32 & 0xFFFF_FFFF

    @property
    def ids(self) -> tuple[int, ...]:
        """The numbers that a record of several holds."""
        return self[1 : 1 + self.small]


def head_of(kind: Kind, *, small: int = 0, model: int = 0) -> int:
    """The first field of a record without its upper half."""
    return kind | small << 8 | model << 16


class ModelEntry(msgspec.Struct, frozen=True):
    """A model as it was added: its name, how it was scheduled, what was known of its runs."""

    name: str
    policy: Policy
    cost: CostState
    memory: Claim | None = None


class Ground(msgspec.Struct, frozen=True):
    """What a scheduler began with.

    Attributes:
        devices: Name to the number of runs that each holds at once.
        thresholds: When its levels of overload begin.
        allowances: Name to what that tenant may ask for.
        pool: The memory that its models shared, if it was counted.
    """

    devices: dict[str, int]
    thresholds: Thresholds = Thresholds()
    allowances: dict[str, Allowance] = {}
    pool: PoolSettings | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What was told since the last poll, and what that poll decided.

    Attributes:
        number: Of its first record, counted from the recording's start.
        facts: In the order in which they were told.
        decisions: Runs with their members, and expiries, in their order.
        at_ns: When the scheduler was polled.
    """

    number: int
    facts: list[Record]
    decisions: list[Record]
    at_ns: int


class InvalidRecording(InvalidSetting):
    """A file that is no recording, or a damaged one."""


class Recording:
    """A recording that was opened for reading."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InvalidRecording: It is none, or damaged, and where.
        """
        self._path = path
        try:
            self._bytes = path.read_bytes()
        except OSError as error:
            raise InvalidRecording(f"cannot read {path}: {error.strerror}") from error
        self._models, self._capacity, self._written = self._header()
        self._ring = memoryview(self._bytes)[RING_AT : RING_AT + self._capacity * RECORD.size]
        self.ground, self.models = self._tail()

    @property
    def devices(self) -> dict[str, int]:
        """Name to the number of runs that each holds at once."""
        return self.ground.devices

    @property
    def is_whole(self) -> bool:
        """Whether it goes back to the start: nothing was overwritten."""
        return self._written <= self._capacity

    def turns(self) -> Iterator[Turn]:
        """All turns that are there, the oldest first.

        Raises:
            InvalidRecording: A turn was damaged.
        """
        begin = max(0, self._written - self._capacity)
        if begin:
            begin = self._after_a_seal(begin)
        facts: list[Record] = []
        decisions: list[Record] = []
        first = begin
        for number in range(begin, self._written):
            record = self._record(number)
            if record.kind == Kind.TURN:
                if not self._is_sound(first, number, record):
                    raise self._damaged(f"the turn from record {first} to {number}")
                yield Turn(first, facts, decisions, record.at_ns)
                facts, decisions, first = [], [], number + 1
            elif record.kind >= Kind.RUN:
                decisions.append(record)
            else:
                facts.append(record)
        if first != self._written:
            raise self._damaged(f"its last turn, from record {first}, was not sealed")

    def model(self, record: Record) -> ModelEntry:
        """Whose record it is.

        Raises:
            InvalidRecording: It names a model that is not there.
        """
        if record.model >= len(self.models):
            raise self._damaged(f"a record is of model {record.model} of {len(self.models)}")
        return self.models[record.model]

    def _header(self) -> tuple[int, int, int]:
        if len(self._bytes) < RING_AT or not self._bytes.startswith(MAGIC):
            raise InvalidRecording(f"{self._path} is no recording of xirang")
        _, version, size, models, capacity = HEADER.unpack_from(self._bytes)
        (checksum,) = CHECKSUM.unpack_from(self._bytes, HEADER.size)
        (written,) = WRITTEN.unpack_from(self._bytes, WRITTEN_AT)
        if version != VERSION:
            raise InvalidRecording(
                f"{self._path} is a recording of version {version}; expected {VERSION}"
            )
        if size != RECORD.size or checksum != zlib.crc32(self._bytes[: HEADER.size]):
            raise self._damaged("its header")
        if len(self._bytes) < RING_AT + capacity * RECORD.size:
            raise InvalidRecording(f"{self._path} is truncated")
        return models, capacity, written

    def _tail(self) -> tuple[Ground, list[ModelEntry]]:
        at = RING_AT + self._capacity * RECORD.size
        texts = []
        for _ in range(1 + self._models):
            if len(self._bytes) < at + TAIL.size:
                raise InvalidRecording(f"{self._path} is truncated: its models are missing")
            length, checksum = TAIL.unpack_from(self._bytes, at)
            text = self._bytes[at + TAIL.size : at + TAIL.size + length]
            if zlib.crc32(text) != checksum:
                raise self._damaged("the description of its models")
            texts.append(text)
            at += TAIL.size + length
        try:
            ground = msgspec.json.decode(texts[0], type=Ground)
            return ground, [msgspec.json.decode(t, type=ModelEntry) for t in texts[1:]]
        except (msgspec.DecodeError, AssertionError) as error:
            raise self._damaged(f"the description of its models: {error}") from error

    def _record(self, number: int) -> Record:
        at = RING_AT + number % self._capacity * RECORD.size
        return Record._make(RECORD.unpack_from(self._bytes, at))

    def _after_a_seal(self, begin: int) -> int:
        # The oldest turn may have lost its beginning.
        for number in range(begin, self._written):
            if self._record(number).kind == Kind.TURN:
                return number + 1
        raise self._damaged("no turn is whole")

    def _is_sound(self, first: int, number: int, seal: Record) -> bool:
        """Whether the records from `first` to the seal are as they were written, and where."""
        begin, end = first % self._capacity, number % self._capacity
        if begin <= end:
            checksum = zlib.crc32(self._ring[begin * RECORD.size : end * RECORD.size])
        else:
            checksum = zlib.crc32(self._ring[begin * RECORD.size :])
            checksum = zlib.crc32(self._ring[: end * RECORD.size], checksum)
        bare = RECORD.pack(seal.head & 0xFFFF_FFFF, *seal[1:])
        return zlib.crc32(bare, checksum) == seal.extra and seal.id == number

    def _damaged(self, where: str) -> InvalidRecording:
        return InvalidRecording(f"{self._path} is damaged: {where}")
