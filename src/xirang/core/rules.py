"""The rules of Triton's dynamic batcher, as far as they are values: for models that ask for them.

A queue for each level of priority, each in order of arrival, the levels strictly one after the
other; a batch of a preferred size goes at once, any other when its oldest has waited the delay.
"""

from dataclasses import dataclass

from xirang.core.request import NEVER_NS, PRIORITY_NORMAL, Request

_LEVEL = 1 << 64
"""Between two levels: more than any instant."""


@dataclass(frozen=True, slots=True)
class QueueRules:
    """Of one level of priority.

    Attributes:
        timeout_ns: How long a request may wait; 0 for as long as it takes.
        can_override: Whether a request may bring a shorter timeout.
        is_kept: Whether who has waited for longer goes behind the others, instead of being given
            up.
        depth_max: Most requests that wait in it; 0 for any.
    """

    timeout_ns: int = 0
    can_override: bool = False
    is_kept: bool = False
    depth_max: int = 0

    def budget_ns(self, asked_ns: int | None) -> int:
        """How long a request may wait that asks for so much, or for nothing."""
        if self.can_override and asked_ns is not None and 0 < asked_ns < self.timeout_ns:
            return asked_ns
        return self.timeout_ns or NEVER_NS


@dataclass(frozen=True, slots=True)
class BatcherRules:
    """Of one model.

    Attributes:
        preferred: Numbers of rows that go at once, ascending; none: only the most that may be.
        delay_ns: How long the oldest may be kept waiting for others.
        levels: How many levels of priority there are; 0 where nobody has one.
        level_default: That of a request that brings none, or one that there is not.
        queue: The rules of each level that has none of its own.
        queues: The others', by level.
        is_ordered: Whether answers leave in the order in which requests came.
        held: Nothing runs before so many wait, once; for tests that must not race.
    """

    preferred: tuple[int, ...] = ()
    delay_ns: int = 0
    levels: int = 0
    level_default: int = 0
    queue: QueueRules = QueueRules()
    queues: tuple[tuple[int, QueueRules], ...] = ()
    is_ordered: bool = False
    held: int = 0

    def __post_init__(self) -> None:
        assert all(size >= 1 for size in self.preferred)
        assert self.delay_ns >= 0
        assert not self.levels or 1 <= self.level_default <= self.levels

    def sizes(self, rows_max: int) -> tuple[int, ...]:
        """The preferred numbers of rows of a model that takes so many."""
        return tuple([size for size in self.preferred if size <= rows_max]) or (rows_max,)

    def level_of(self, asked: int) -> int:
        """The level of a request that asks for a priority; 0 is none."""
        if not self.levels:
            return PRIORITY_NORMAL
        return asked if 1 <= asked <= self.levels else self.level_default

    def queue_of(self, level: int) -> QueueRules:
        """The rules of a level."""
        for other, queue in self.queues:
            if other == level:
                return queue
        return self.queue

    @property
    def binds_early(self) -> bool:
        """Whether requests are bound to batches while all instances are busy.

        Who has a level, a timeout or a bounded queue stays in the queue until an instance is free.
        """
        return not self.levels and self.queue == QueueRules()

    def urgency_ns(self, request: Request) -> int:
        """What the queue is sorted by: the level; within it in order, as requests came in."""
        return 2 * request.priority * _LEVEL

    def urgency_behind_ns(self, request: Request, now_ns: int) -> int:
        """The same for one who has waited too long: behind those of its level, as they came."""
        return (2 * request.priority + 1) * _LEVEL + now_ns

    def latest_ns(self, request: Request) -> int:
        """When it is given up if it still waits."""
        return NEVER_NS if self.queue_of(request.priority).is_kept else request.deadline_ns
