"""Searches for a plan no higher than a given height.

Any plan can be pushed down until each block rests on the bottom or on another. Such a plan can be
built from below, in the order of the offsets: each block then comes to rest on the skyline, that is
on the highest of those below it that it meets in time. So the search tries blocks, not offsets,
and turns back when

- a block no longer fits under the height;
- in one of the sections the lowest place for any block still to come, plus all that is still to
  come there, passes the height;
- a block rests above the top of another that could have lain under it: that one comes first.

The idea of canonical placement and of the sections' bound is MiniMalloc's (Moffitt, 2023).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from xirang.core.memory.lifetime import Lifetimes

_PLACED = 1 << 62
"""Floor of a block that has its place: higher than any."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What a search came to.

    Attributes:
        offsets: A plan, or None.
        is_exhausted: Without a plan: whether there is none, rather than no more time.
        steps: The work it took, counted in looks at a block.
    """

    offsets: list[int] | None
    is_exhausted: bool
    steps: int


class Skyline:
    """What a search has to know of the lifetimes."""

    __slots__ = ("loads", "neighbours", "pick", "sections", "sections_of", "sizes")

    def __init__(self, lifetimes: Lifetimes) -> None:
        """Find out who meets whom."""
        self.sizes = lifetimes.sizes_bytes
        self.sections = lifetimes.sections()
        self.sections_of: list[list[int]] = [[] for _ in self.sizes]
        near: list[set[int]] = [set() for _ in self.sizes]
        for place, section in enumerate(self.sections):
            for block in section:
                self.sections_of[block].append(place)
                near[block].update(section)
        self.neighbours = [
            sorted(found - {block}, key=lambda i: -self.sizes[i])
            for block, found in enumerate(near)
        ]
        self.loads = [sum(self.sizes[block] for block in section) for section in self.sections]
        self.pick = [_picker(section) for section in self.sections]

    def search(self, height: int, ranks: Sequence[int], steps_max: int) -> Sought:
        """Look for a plan; of blocks with equal offsets those of lower rank come first."""
        if any(load > height for load in self.loads):
            return Sought(None, is_exhausted=True, steps=0)
        descent = _Descent(self, height, ranks)
        choices = [descent.open()]
        while choices:
            if descent.steps >= steps_max:
                return Sought(None, is_exhausted=False, steps=descent.steps)
            choice = choices[-1]
            if choice.block >= 0:
                descent.take_back(choice)
            if not choice.blocks:
                choices.pop()
                continue
            if descent.put(choice, choice.blocks.pop()):
                if not descent.waiting:
                    return Sought(descent.offsets, is_exhausted=False, steps=descent.steps)
                choices.append(descent.open())
        return Sought(None, is_exhausted=True, steps=descent.steps)


def _picker(section: tuple[int, ...]) -> Callable[[list[int]], tuple[int, ...]]:
    """Takes a section's values out of a list of all blocks' values, at the speed of C."""
    if len(section) > 1:
        return itemgetter(*section)
    (block,) = section
    return lambda values: (values[block],)


@dataclass(slots=True, eq=False)
class _Choice:
    """One level of the search, and what has to be put back when it is left.

    Attributes:
        blocks: What may come next, the most promising last.
        level, rank: Of the block before.
        load, place: The most that waits in one section, and in which.
        block: What was taken, -1 before the first; its floor was `floor`.
        raised: Blocks whose floors have risen, with what they were.
        moved: Sections whose lowest place has, with what it was and who held it.
    """

    blocks: list[int]
    level: int
    rank: int
    load: int
    place: int
    block: int = -1
    floor: int = 0
    raised: list[tuple[int, int]] = field(default_factory=list)
    moved: list[tuple[int, int, int]] = field(default_factory=list)


class _Descent:
    """A plan in the making.

    Attributes:
        floors: The lowest place of each block that waits; `tops` is what it would reach.
        lows: Of each section, the lowest place for any of its waiting blocks, held by `holders`.
        loads: Of each section, the size of all that waits.
        level: The offset of the block placed last; later ones lie no lower.
    """

    __slots__ = (
        "floors",
        "height",
        "holders",
        "level",
        "loads",
        "lows",
        "offsets",
        "rank",
        "ranks",
        "skyline",
        "steps",
        "tops",
        "waiting",
    )

    def __init__(self, skyline: Skyline, height: int, ranks: Sequence[int]) -> None:
        self.skyline = skyline
        self.height = height
        self.ranks = ranks
        self.floors = [0] * len(skyline.sizes)
        self.tops = list(skyline.sizes)
        self.offsets = [0] * len(skyline.sizes)
        self.waiting = set(range(len(skyline.sizes)))
        self.loads = list(skyline.loads)
        self.lows = [0] * len(skyline.sections)
        self.holders = [section[0] for section in skyline.sections]
        self.level = 0
        self.rank = -1
        self.steps = 0

    def open(self) -> _Choice:
        """Who may come next."""
        level, rank, ranks = self.level, self.rank, self.ranks
        lowest_top = self._lowest_top()
        self.steps += len(ranks) // 2
        # Of blocks side by side at one level, one order stands for all.
        found = [
            (floor, ranks[i], i)
            for i, floor in enumerate(self.floors)
            if level <= floor < lowest_top and (floor > level or ranks[i] > rank)
        ]
        found.sort(reverse=True)
        load = max(self.loads)
        return _Choice([one[2] for one in found], level, rank, load, self.loads.index(load))

    def _lowest_top(self) -> int:
        """Who rests above this leaves room below in which another would have come first."""
        lowest = min(self.tops)
        if self.floors[self.tops.index(lowest)] >= self.level:
            return lowest
        # It was passed over and will be lifted at least to the level, or there is no plan.
        sizes = self.skyline.sizes
        self.steps += len(sizes) // 2
        return min(max(self.floors[i], self.level) + sizes[i] for i in self.waiting)

    def put(self, choice: _Choice, block: int) -> bool:
        """Place a block; false if no plan can come of it.

        Most blocks fail at one of the first looks, before anything has changed.
        """
        floors, tops, loads = self.floors, self.tops, self.loads
        sizes, height = self.skyline.sizes, self.height
        level, top = floors[block], tops[block]
        neighbours = self.skyline.neighbours[block]  # the largest first
        places = self.skyline.sections_of[block]
        self.steps += 10
        if level + choice.load > height and not places[0] <= choice.place <= places[-1]:
            return False
        for i in neighbours:
            if top + sizes[i] <= height:
                break
            if floors[i] < top:
                return False
        for place in places:
            loads[place] -= sizes[block]
        if level + max(loads) > height:
            for place in places:
                loads[place] += sizes[block]
            return False
        choice.block, choice.floor = block, level
        self.level, self.rank = level, self.ranks[block]
        self.offsets[block] = level
        self.waiting.discard(block)
        floors[block] = tops[block] = _PLACED
        choice.raised = [(i, floors[i]) for i in neighbours if floors[i] < top]
        for i, _ in choice.raised:
            floors[i] = top
            tops[i] = top + sizes[i]
        self.steps += len(neighbours)
        return self._lift(choice)

    def _lift(self, choice: _Choice) -> bool:
        """Raise the lowest places of sections; false if what waits passes the height in one."""
        changed = {block for block, _ in choice.raised}
        changed.add(choice.block)
        lows, holders, sections = self.lows, self.holders, self.skyline.sections
        for place in [k for k, holder in enumerate(holders) if holder in changed]:
            choice.moved.append((place, lows[place], holders[place]))
            floors = self.skyline.pick[place](self.floors)
            low = min(floors)
            self.steps += len(floors) // 4
            if low == _PLACED:
                lows[place], holders[place] = 0, -1
                continue
            lows[place], holders[place] = low, sections[place][floors.index(low)]
            if low + self.loads[place] > self.height:
                return False
        return True

    def take_back(self, choice: _Choice) -> None:
        """As if the choice had not been made."""
        sizes = self.skyline.sizes
        for block, floor in choice.raised:
            self.floors[block] = floor
            self.tops[block] = floor + sizes[block]
        for place, low, holder in choice.moved:
            self.lows[place], self.holders[place] = low, holder
        for place in self.skyline.sections_of[choice.block]:
            self.loads[place] += sizes[choice.block]
        self.floors[choice.block] = choice.floor
        self.tops[choice.block] = choice.floor + sizes[choice.block]
        self.waiting.add(choice.block)
        self.level, self.rank = choice.level, choice.rank
        choice.raised, choice.moved, choice.block = [], [], -1
