"""Overload of one device: from arrivals to a level, a share to shed and what is switched off."""

from typing import NamedTuple

from xirang.core.admission.levels import Levels, Thresholds
from xirang.core.admission.pressure import Pressure
from xirang.core.admission.shedding import FLOOR, ClassDemand, Shedder, lot, share_of
from xirang.core.admission.switches import Switches
from xirang.core.event import Function
from xirang.core.request import PRIORITY_LOW


class Arrival(NamedTuple):
    """What admission needs to know of a request that comes.

    Attributes:
        priority: 1 is the highest.
        client: A hash of whoever asks.
        budget_ns: From arrival to deadline.
        queued_ns: Predicted wait until its run could start.
        work_ns: Device time that it will take in good company.
        depth: Requests that wait for the device.
        is_fast: Whether it takes the fast lane, which has its own share and waits for nobody else:
            what the others suffer is no reason to turn it away.
    """

    priority: int
    client: int
    budget_ns: int
    queued_ns: float
    work_ns: float
    depth: int = 0
    is_fast: bool = False


class Overload:
    """Folds arrivals into the three levels; says who is turned away."""

    __slots__ = ("_demand", "_levels", "_pressure", "_shedder", "_switches", "_thresholds")

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()
        self._levels = Levels(self._thresholds)
        self._pressure = Pressure()
        self._shedder = Shedder()
        self._switches = Switches()
        self._demand = ClassDemand()

    @property
    def level(self) -> int:
        """0…3."""
        return self._levels.level

    @property
    def shed(self) -> float:
        """The share of all work that level 2 turns away now."""
        return self._shedder.share if self.level >= 2 else 0.0

    @property
    def off(self) -> tuple[Function, ...]:
        """What is switched off."""
        return self._switches.off

    def pressure(self, now_ns: int) -> float:
        """Predicted queueing time ÷ budget."""
        return self._pressure.at(now_ns)

    def advance(self, now_ns: int) -> bool:
        """Let levels and switches follow the time, also when nobody comes.

        Returns:
            Whether the level or a switch changed.
        """
        before = self.level
        pressure = self._pressure.at(now_ns)
        if before >= 2:
            self._shedder.step(now_ns=now_ns, pressure=pressure)
        else:
            self._shedder.rest(now_ns=now_ns, pressure=pressure)
        level = self._levels.step(now_ns=now_ns, pressure=pressure, shed=self._shedder.share)
        switched = self._switches.step(now_ns=now_ns, level=level)
        return switched or level != before

    def is_settled(self) -> bool:
        """Whether time alone would change nothing any more."""
        return self.level == 0 and not self._switches.count

    def note(self, arrival: Arrival, *, now_ns: int) -> None:
        """Count a request that came, whatever becomes of it; the fast lane shows no pressure."""
        if arrival.is_fast:
            return
        self._demand.on_arrival(now_ns=now_ns, priority=arrival.priority, work_ns=arrival.work_ns)
        if self._thresholds.depths is None:
            ratio = arrival.queued_ns / max(1, arrival.budget_ns)
        else:
            ratio = self._thresholds.pressure_of(arrival.depth)
        self._pressure.sample(ratio, now_ns=now_ns)

    @property
    def goes_by_depth(self) -> bool:
        """Whether levels go by how many wait, and not by queueing time ÷ budget."""
        return self._thresholds.depths is not None

    def note_ease(self, ratio: float, *, now_ns: int) -> None:
        """A request came to a short queue, by queueing time ÷ budget."""
        self._pressure.sample(ratio, now_ns=now_ns)

    def turns_away(self, arrival: Arrival, *, now_ns: int) -> bool:
        """Whether the level costs this request its place."""
        if arrival.is_fast:
            return False
        share = self._share(arrival.priority, now_ns)
        if self.level >= 2:
            share = self._heavier(share, arrival)
        return share > 0.0 and lot(arrival.client, now_ns=now_ns) < share

    def _heavier(self, share: float, arrival: Arrival) -> float:
        heaviness = self._demand.heaviness(priority=arrival.priority, work_ns=arrival.work_ns)
        return max(FLOOR, share * heaviness)

    def _share(self, priority: int, now_ns: int) -> float:
        if self.level >= 2:
            return share_of(priority, shed=self.shed, demand=self._demand.by_priority())
        if self.level == 1 and priority >= PRIORITY_LOW:
            # A ramp, not a cliff: the low class goes as the pressure nears that of level 2.
            begin, end = 0.8 * self._thresholds.low, self._thresholds.all
            return min(1.0, max(0.0, (self._pressure.at(now_ns) - begin) / (end - begin)))
        return 0.0
