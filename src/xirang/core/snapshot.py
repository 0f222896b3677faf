"""What is, at one instant: frozen values for metrics, dashboards and tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

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
class ShareSnapshot:
    """One model's memory, in bytes.

    Attributes:
        guarantee_bytes: What it always gets.
        limit_bytes: What it never passes.
        fixed_bytes: What it holds as long as it is there, its weights.
        reserved_bytes: Addresses of its arenas.
        committed_bytes: What its arenas have of the pool.
        leased_bytes: What runs use of that.
        surplus_bytes: What no run uses: it stays for the next one, or goes to whoever needs it.
        waiting_bytes: What of it recent runs did not need: it waits to be given back.
        predicted_bytes: What the largest run so far was expected to take.
        real_bytes: What the largest run so far took, as far as runs say so.
        counts: How often something happened to it, by name.
    """

    model: str
    guarantee_bytes: int
    limit_bytes: int
    fixed_bytes: int
    reserved_bytes: int
    committed_bytes: int
    leased_bytes: int
    surplus_bytes: int
    waiting_bytes: int
    predicted_bytes: int
    real_bytes: int
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The pool of one device's memory: see `MemorySnapshot`."""

    device: str
    capacity_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """The memory pool.

    Attributes:
        capacity_bytes: What all may have together.
        held_bytes: What they have: weights and pages of arenas.
        shares: Of each model, on the host or on a device.
        devices: The pools of devices, beside that.
    """

    capacity_bytes: int
    held_bytes: int
    shares: tuple[ShareSnapshot, ...]
    devices: tuple[PoolSnapshot, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the scheduler holds; no memory where there is no pool."""

    models: tuple[ModelSnapshot, ...]
    is_draining: bool
    devices: tuple[DeviceSnapshot, ...] = ()
    memory: MemorySnapshot | None = None

    def named(self, name_of: Callable[[str], str]) -> "Snapshot":
        """The same with other names; those that are named alike are one, set as the last of them.

        Args:
            name_of: A model's name to the one that it shall have.
        """
        alike: dict[str, list[ModelSnapshot]] = {}
        for model in self.models:
            alike.setdefault(name_of(model.model), []).append(model)
        models = tuple(_as_one(name, models) for name, models in alike.items())
        memory = self.memory and replace(self.memory, shares=_added_up(self.memory.shares, name_of))
        return replace(self, models=models, memory=memory)


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


def _added_up(
    shares: Sequence[ShareSnapshot], name_of: Callable[[str], str]
) -> tuple[ShareSnapshot, ...]:
    """Shares by their other names, those that are named alike as one."""
    found: dict[str, ShareSnapshot] = {}
    for share in shares:
        name = name_of(share.model)
        known = found.get(name)
        found[name] = replace(share, model=name) if known is None else _sum_of(known, share)
    return tuple(found.values())


def _sum_of(one: ShareSnapshot, other: ShareSnapshot) -> ShareSnapshot:
    sums = {
        field.name: getattr(one, field.name) + getattr(other, field.name)
        for field in fields(one)
        if field.name.endswith("_bytes")
    }
    sums["predicted_bytes"] = max(one.predicted_bytes, other.predicted_bytes)
    sums["real_bytes"] = max(one.real_bytes, other.real_bytes)
    pairs = zip(one.counts, other.counts, strict=True)
    counts = tuple((name, count + more) for (name, count), (_, more) in pairs)
    return replace(one, counts=counts, **sums)
