"""What an operator may decide about a model, and what its signature decides for it."""

from dataclasses import dataclass
from enum import Enum


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
        window_ns_max: Longest voluntary wait for company, from the oldest arrival.
        efficiency: 0 never waits on an idle device, 1 as long as budgets allow.
        depth_max: Most requests that wait; beyond it they are rejected.
        can_pad: Whether rows of different lengths may share a run.
    """

    device: str = "cpu"
    instances: int = 1
    batching: Batching = Batching.OPTIMAL
    max_batch_size: int = 128
    elements_max: int | None = None
    window_ns_max: int = 5_000_000
    efficiency: float = 0.5
    depth_max: int = 4096
    can_pad: bool = False

    def __post_init__(self) -> None:
        assert self.instances >= 1
        assert self.max_batch_size >= 1
        assert self.elements_max is None or self.elements_max >= 1
        assert self.window_ns_max >= 0
        assert 0.0 <= self.efficiency <= 1.0
        assert self.depth_max >= 1

    @property
    def rows_max(self) -> int:
        """Most rows of a run under this batching."""
        return 1 if self.batching is Batching.OFF else self.max_batch_size
