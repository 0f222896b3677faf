"""What an operator may decide about a model, and what its signature decides for it."""

from dataclasses import dataclass
from enum import Enum

from xirang.core.request import PRIORITY_HIGH, PRIORITY_LOW, PRIORITY_NORMAL, Request
from xirang.core.rules import BatcherRules


class Batching(Enum):
    """How waiting requests become runs."""

    OPTIMAL = "optimal"  # the cheapest padded runs by the cost model
    FIRST_COME = "first-come"  # in order of arrival, padded to the longest: what others do
    OFF = "off"  # every request alone


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduling of one model.

    Attributes:
        device: Name of the device whose time its runs share.
        instances: How many of its runs may be on the device at once.
        batching: How runs are formed.
        max_batch_size: Most rows in a run.
        elements_max: Most padded elements in a run of more than one request; None for no bound.
        elements_room: Most elements that the device had room for, however runs are formed; None
            for no bound.
        window_ns_max: Longest voluntary wait for company, from the oldest arrival.
        efficiency: 0 never waits on an idle device, 1 as long as budgets allow.
        efficiencies: The same for single priorities, in pairs; those missing have `efficiency`.
            Who is urgent is not kept waiting for company unless this says otherwise.
        age_ns_max: Who has a longer budget, or none, is as urgent as if it were so long.
        depth_max: Most requests that wait; beyond it they are rejected.
        queue_ns_max: Most device time that waits, by prediction; 0 for no such bound.
        fast_priority: Priorities up to this take the fast lane; 0: none does for its priority.
        fast_budget_ns: So do requests with a shorter budget than this.
        fast_share: Share of the device that the fast lane may take from the others.
        fast_wait_ns: Longest run that a fast request may have to wait for; 0: as short as is cheap.
        rejects_early: Whether a request is turned away whose budget cannot be kept, by prediction.
        can_pad: Whether rows of different lengths may share a run.
        is_ragged: Whether they do so without padding: a run is as large as its rows in sum.
        row_sizes: The numbers of rows that a run is filled up to, ascending; none: any will do.
        batcher: The rules of Triton's dynamic batcher, where a configuration asks for them instead
            of our own: those of windows, efficiency and the fast lane then have no part in it.
    """

    device: str = "cpu"
    instances: int = 1
    batching: Batching = Batching.OPTIMAL
    max_batch_size: int = 128
    elements_max: int | None = None
    elements_room: int | None = None
    window_ns_max: int = 5_000_000
    efficiency: float = 0.5
    efficiencies: tuple[tuple[int, float], ...] = ((PRIORITY_HIGH, 0.0),)
    age_ns_max: int = 10_000_000_000
    depth_max: int = 4096
    queue_ns_max: int = 0
    fast_priority: int = 0
    fast_budget_ns: int = 0
    fast_share: float = 0.5
    fast_wait_ns: int = 0
    rejects_early: bool = True
    can_pad: bool = False
    is_ragged: bool = False
    row_sizes: tuple[int, ...] = ()
    batcher: BatcherRules | None = None

    def __post_init__(self) -> None:
        assert self.instances >= 1
        assert self.max_batch_size >= 1
        assert self.elements_max is None or self.elements_max >= 1
        assert self.window_ns_max >= 0
        assert 0.0 <= self.efficiency <= 1.0
        assert all(0.0 <= efficiency <= 1.0 for _, efficiency in self.efficiencies)
        assert self.age_ns_max >= 1
        assert self.depth_max >= 1
        assert self.queue_ns_max >= 0
        assert self.fast_priority >= 0
        assert self.fast_budget_ns >= 0
        assert 0.0 < self.fast_share <= 1.0
        assert self.fast_wait_ns >= 0

    @property
    def rows_max(self) -> int:
        """Most rows of a run under this batching."""
        return 1 if self.batching is Batching.OFF else self.max_batch_size

    def is_fast(self, request: Request) -> bool:
        """Whether a request takes the fast lane."""
        if self.batcher is not None:
            return False
        if request.fast is not None:
            return request.fast
        budget_ns = request.deadline_ns - request.arrival_ns
        return request.priority <= self.fast_priority or budget_ns < self.fast_budget_ns

    def priority_of(self, asked: int) -> int:
        """The priority of a request that asks for this one; 0 is none."""
        if self.batcher is not None:
            return self.batcher.level_of(asked)
        return min(asked, PRIORITY_LOW) if asked > 0 else PRIORITY_NORMAL

    def efficiency_of(self, priority: int) -> float:
        """How patient requests of this priority are."""
        for other, efficiency in self.efficiencies:
            if other == priority:
                return efficiency
        return self.efficiency

    @property
    def is_shelved(self) -> bool:
        """Whether runs are planned by length."""
        is_planned = self.batching is Batching.OPTIMAL and self.batcher is None
        return is_planned and (self.can_pad or bool(self.row_sizes))
