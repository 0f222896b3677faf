"""From lifetimes to offsets in one range of addresses, as low as can be found.

First a portfolio of greedy orders, in milliseconds; graphs of real models are mostly done then.
What is still above the bound is searched for ever lower heights: each search is short and starts
over with other priorities, and when all of them failed, with more patience. It can be stopped
after any of them, and the best plan so far is there. There is no clock: work is counted in steps,
so the same lifetimes always get the same plan.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from random import Random
from typing import Protocol

from xirang.core.memory.lifetime import Lifetimes
from xirang.core.memory.orders import orders_of, place
from xirang.core.memory.skyline import Skyline, Sought

STEPS = 8_000_000
"""Work for one plan unless told otherwise: one or two seconds."""

PATIENCE, PATIENCE_MIN = 2, 25_000
"""Steps of the shortest search for each pair of blocks, and at least so many: to build one plan
without turning back takes about one step a pair."""

RUNGS = ((3, 4), (15, 16))
"""Heights to search for, as shares of the way from the bound to the best plan: hard problems go
down little by little. Graphs of real models often reach the bound at once, so that comes first,
with half the patience."""

REACH = 3000
"""Steps for each block in the first searches for a height that is given."""


class Search(Protocol):
    """Looks for a plan within a height."""

    def __call__(
        self, height: int, ranks: Sequence[int], steps_max: int, *, is_wary: bool
    ) -> Sought:
        """What came of it: see `Skyline.search`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where each block lies.

    Attributes:
        offsets: Of each block.
        height_bytes: What the range has to hold.
        bound_bytes: No plan is lower.
    """

    offsets: tuple[int, ...]
    height_bytes: int
    bound_bytes: int

    @property
    def ratio(self) -> float:
        """Height ÷ bound."""
        return self.height_bytes / self.bound_bytes if self.bound_bytes else 1.0


def plan(lifetimes: Lifetimes, *, steps_max: int = STEPS) -> Plan:
    """The lowest plan that is found within some work."""
    planner = Planner(lifetimes)
    while planner.steps < steps_max and planner.advance():
        pass
    return planner.plan


class Planner:
    """A plan that gets better by and by.

    Attributes:
        steps: Work done.
    """

    __slots__ = (
        "_bound",
        "_count",
        "_failures",
        "_floor",
        "_height",
        "_kept",
        "_lifetimes",
        "_offsets",
        "_patience",
        "_priorities",
        "_random",
        "_round",
        "_search",
        "_skyline",
        "_tries",
        "_unit",
        "steps",
    )

    def __init__(
        self,
        lifetimes: Lifetimes,
        *,
        seed: int = 0,
        search: Callable[[Lifetimes], Search] | None = None,
    ) -> None:
        """Find a first plan.

        Args:
            lifetimes: What has to be placed.
            seed: Of the priorities that searches start over with.
            search: Makes what searches; `Skyline`'s by default.
        """
        # Heights are sums of sizes, hence multiples of what all sizes are multiples of.
        self._unit = gcd(*lifetimes.sizes_bytes) or 1
        self._kept = [block for block, size in enumerate(lifetimes.sizes_bytes) if size]
        self._count = len(lifetimes)
        self._lifetimes = Lifetimes(
            tuple(lifetimes.starts[block] for block in self._kept),
            tuple(lifetimes.ends[block] for block in self._kept),
            tuple(lifetimes.sizes_bytes[block] // self._unit for block in self._kept),
        )
        self._skyline = Skyline(self._lifetimes)
        self._search = search(self._lifetimes) if search else self._skyline.search
        self._bound = self._floor = self._lifetimes.bound_bytes
        self._random = Random(seed)
        self._priorities = _priorities(self._lifetimes, self._skyline)
        self._round = self._tries = self.steps = 0
        # Below 0 the bound is tried.
        self._failures = -len(self._priorities)
        self._patience = max(PATIENCE_MIN, PATIENCE * len(self._kept) ** 2)
        self._offsets, self._height = self._greedy()

    @property
    def plan(self) -> Plan:
        """The best so far."""
        unit = self._unit
        offsets = [0] * self._count
        for block, offset in zip(self._kept, self._offsets, strict=True):
            offsets[block] = offset * unit
        return Plan(tuple(offsets), self._height * unit, self._bound * unit)

    def advance(self) -> bool:
        """Work a little more; false once the plan is known to be the lowest."""
        if self._height <= self._floor:
            return False
        turn = self._failures // len(self._priorities)
        cycle, rung = divmod(turn, len(RUNGS))
        share, of = RUNGS[rung] if turn >= 0 else (0, 1)
        target = self._floor + (self._height - 1 - self._floor) * share // of
        if self._seek(target, self._ranks(), self._patience << cycle + 1):
            self._failures = 0
        else:
            self._failures += 1
            self._round += 1
        return self._height > self._floor

    def reach(self, height_bytes: int, *, steps_max: int) -> bool:
        """Look for a plan within a height; whether there is one now.

        The searches start over with other priorities, as they are, then roughly, then mixed; after
        each cycle they have twice the patience.
        """
        target, count = height_bytes // self._unit, len(self._priorities)
        while self._height > target >= self._floor and self.steps < steps_max:
            cycle, number = divmod(self._tries, 3 * count)
            ranks = self._ranks_by(number % count, kind=number // count)
            self._seek(target, ranks, REACH * len(ranks) << cycle)
            self._tries += 1
        return self._height <= target

    def _seek(self, target: int, ranks: Sequence[int], steps_max: int) -> bool:
        """Look for a plan by both rules; whether there is one now."""
        for is_wary in (True, False):
            sought = self._search(target, ranks, steps_max, is_wary=is_wary)
            self.steps += sought.steps
            if sought.offsets is not None:
                self._offsets, self._height = sought.offsets, self._height_of(sought.offsets)
                return True
            if sought.is_exhausted:
                self._floor = target + 1
                return False
        return False

    def _greedy(self) -> tuple[list[int], int]:
        best: list[int] = []
        lowest = self._lifetimes.sum_bytes + 1
        neighbours = self._skyline.neighbours
        for order in orders_of(self._lifetimes, neighbours):
            for is_tight in (True, False):
                offsets = place(order, self._lifetimes, neighbours, is_tight=is_tight)
                height = self._height_of(offsets)
                if height < lowest:
                    best, lowest = offsets, height
                if lowest == self._bound:
                    return best, lowest
        return best, lowest

    def _height_of(self, offsets: list[int]) -> int:
        sizes = self._lifetimes.sizes_bytes
        return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)

    def _ranks(self) -> list[int]:
        """The priorities in turn; from the third turn on roughly."""
        turn, number = divmod(self._round, len(self._priorities))
        return self._ranks_by(number, kind=0 if turn < 2 else 1)

    def _ranks_by(self, number: int, *, kind: int) -> list[int]:
        """Ranks by one priority, as it is (0) or roughly (1), or by several, mixed (2)."""
        priority, uniform = self._priorities[number], self._random.uniform
        order = list(range(len(self._lifetimes)))
        if kind == 0:
            order.sort(key=priority, reverse=True)
        else:
            rough = [uniform(0.7, 1.3) for _ in order]
            weights = (uniform(0, 3), uniform(0, 2), uniform(0, 1.5)) if kind == 2 else ()
            parts = self._priorities[3], self._priorities[1], self._priorities[4]
            keys = [
                rough[i] * prod(part(i)[0] ** w for part, w in zip(parts, weights, strict=True))
                if weights
                else rough[i] * priority(i)[0]
                for i in order
            ]
            order.sort(key=lambda i: keys[i], reverse=True)
        ranks = [0] * len(order)
        for rank, block in enumerate(order):
            ranks[block] = rank
        return ranks


def _priorities(
    lifetimes: Lifetimes, skyline: Skyline
) -> tuple[Callable[[int], tuple[int, int]], ...]:
    """Which blocks are hard to place: in crowds, long, large."""
    sizes = lifetimes.sizes_bytes
    spans = [end - start for start, end in zip(lifetimes.starts, lifetimes.ends, strict=True)]
    crowds = [max(skyline.loads[place] for place in places) for places in skyline.sections_of]
    return (
        lambda i: (crowds[i], spans[i] * sizes[i]),
        lambda i: (spans[i], sizes[i]),
        lambda i: (spans[i] * sizes[i], sizes[i]),
        lambda i: (crowds[i], spans[i]),
        lambda i: (sizes[i], spans[i]),
    )
