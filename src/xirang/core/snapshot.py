"""What is, at one instant: frozen values for metrics, dashboards and tests."""

from dataclasses import dataclass


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
    """

    model: str
    waiting: int
    running: int
    work_ns: int
    demand: float
    window_ns: int
    threshold_ns: int
    lanes: tuple[LaneSnapshot, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the scheduler holds."""

    models: tuple[ModelSnapshot, ...]
    is_draining: bool
