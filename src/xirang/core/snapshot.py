"""What is, at one instant: frozen values for metrics, dashboards and tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xirang.core.event import Function


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """One lane."""

    priority: int
    cost_class: int
    depth: int
    rows: int
    oldest_arrival_ns: int


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """One model: its lanes and the controller's present settings.

    Attributes:
        waiting: Requests in its lanes.
        running: Runs on the device.
        work_ns: Predicted device time of what waits.
        demand: Arriving work ÷ the device's capacity (ρ̂); above 1 it cannot keep up.
        window_ns: The window its next lone request would get.
        threshold_ns: Waiting work that lets a batch go at once.
        lanes: Those that are not empty.
        windows_ns: The windows of priorities that have their own efficiency.
        fast_waiting: Requests in its fast lane.
    """

    model: str
    waiting: int
    running: int
    work_ns: int
    demand: float
    window_ns: int
    threshold_ns: int
    lanes: tuple[LaneSnapshot, ...]
    windows_ns: tuple[tuple[int, int], ...] = ()
    fast_waiting: int = 0


@dataclass(frozen=True, slots=True)
class DeviceSnapshot:
    """One device: how pressed it is, and what that costs whom.

    Attributes:
        running: Runs on it.
        pressure: Predicted queueing time ÷ budget, a fading mean.
        level: Of overload, 0…3.
        shed: Share of all work that is turned away.
        off: Functions that are switched off.
        fast_share: Share of its time that the fast lane was given lately.
    """

    device: str
    running: int
    pressure: float
    level: int
    shed: float
    off: tuple[Function, ...]
    fast_share: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the scheduler holds."""

    models: tuple[ModelSnapshot, ...]
    is_draining: bool
    devices: tuple[DeviceSnapshot, ...] = ()

    def named(self, name_of: Callable[[str], str]) -> "Snapshot":
        """The same with other names; those that are named alike are one, set as the last of them.

        Args:
            name_of: A model's name to the one that it shall have.
        """
        alike: dict[str, list[ModelSnapshot]] = {}
        for model in self.models:
            alike.setdefault(name_of(model.model), []).append(model)
        models = tuple(_as_one(name, models) for name, models in alike.items())
        return replace(self, models=models)


def _as_one(name: str, models: Sequence[ModelSnapshot]) -> ModelSnapshot:
    if len(models) == 1:
        return replace(models[0], model=name)
    lanes: dict[tuple[int, int], LaneSnapshot] = {}
    for lane in (lane for model in models for lane in model.lanes):
        key = (lane.priority, lane.cost_class)
        lanes[key] = _added(lanes[key], lane) if key in lanes else lane
    return replace(
        models[-1],
        model=name,
        waiting=sum(model.waiting for model in models),
        running=sum(model.running for model in models),
        work_ns=sum(model.work_ns for model in models),
        demand=sum(model.demand for model in models),
        fast_waiting=sum(model.fast_waiting for model in models),
        lanes=tuple(lanes[key] for key in sorted(lanes)),
    )


def _added(one: LaneSnapshot, other: LaneSnapshot) -> LaneSnapshot:
    return replace(
        one,
        depth=one.depth + other.depth,
        rows=one.rows + other.rows,
        oldest_arrival_ns=min(one.oldest_arrival_ns, other.oldest_arrival_ns),
    )
