"""Searches for a plan no higher than a given height.

Any plan can be pushed down until each block rests on the bottom or on another. Such a plan can be
built from below, on a skyline over the sections: the sets of blocks that live together. Where the
skyline has a valley, between higher neighbours, whatever rests on its floor lies within it. So each
section of a valley is a question by itself: who covers it there? One of few blocks, or nobody, if
the section can afford a gap. The search asks where the answers are fewest. That is mostly in one
region until it is full or has failed, so a mistake is found before much is built elsewhere.

- A block that was tried on a floor in vain is barred from it. A valley whose blocks are all barred
  is filled up to its brim, unless one of them would fit below that: it could have lain there.
- A block that meets all others may as well lie on top, as a lid.
- As soon as what waits falls into parts that never meet, each is searched alone. When one has no
  plan, nothing that was chosen in another could have helped.

There are two rules for what few answers are. The wary one holds that a section which can afford a
gap tells little; some problems want one rule, some the other.

That plans may be pushed down, and parts searched apart, is known from MiniMalloc (Moffitt, 2023);
valleys are what packing of rectangles looks at. `memory/native/search.cpp` does the same, step for
step, fifty times as fast.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from xirang.core.memory.lifetime import Lifetimes

_LOOK = 20
"""Steps of a look at a part, beside one for each of its blocks and sections."""

_NOWHERE = 1 << 128
"""Above all: the brim of a valley without sides. Who has a place is barred from all below it."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What a search came to.

    Attributes:
        offsets: A plan, or None.
        is_exhausted: Without a plan: whether there is none, rather than no more time.
        steps: The work it took, counted in looks at a block or a section.
    """

    offsets: list[int] | None
    is_exhausted: bool
    steps: int


class Skyline:
    """What a search has to know of the lifetimes.

    Attributes:
        sizes: Of the blocks.
        neighbours: Of each block, those that it meets, the largest first.
        sections_of: Of each block, the sections that it is in.
        loads, crossings: Of each section, the size of its blocks, and how many of them are in the
            next one too.
    """

    __slots__ = ("crossings", "loads", "neighbours", "sections_of", "sizes")

    def __init__(self, lifetimes: Lifetimes) -> None:
        """Find out who meets whom."""
        self.sizes = lifetimes.sizes_bytes
        sections = lifetimes.sections()
        near: list[set[int]] = [set() for _ in self.sizes]
        first, end = [0] * len(self.sizes), [0] * len(self.sizes)
        for place, section in reversed(list(enumerate(sections))):
            for block in section:
                first[block], end[block] = place, end[block] or place + 1
                near[block].update(section)
        self.sections_of = [range(*span) for span in zip(first, end, strict=True)]
        self.neighbours = [
            sorted(found - {block}, key=lambda i: -self.sizes[i])
            for block, found in enumerate(near)
        ]
        self.loads = [sum(self.sizes[block] for block in section) for section in sections]
        self.crossings = [
            sum(place + 1 < end[block] for block in section)
            for place, section in enumerate(sections)
        ]

    def search(self, height: int, ranks: Sequence[int], steps_max: int, *, is_wary: bool) -> Sought:
        """Look for a plan.

        Args:
            height: What it may not pass.
            ranks: Of blocks that may lie in one place, that of the lowest rank is tried first.
            steps_max: Work to spend.
            is_wary: By which rule to choose where to go on.
        """
        if any(load > height for load in self.loads):
            return Sought(None, is_exhausted=True, steps=0)
        descent = _Descent(self, ranks, is_wary=is_wary)
        is_found = descent.run(height, steps_max)
        offsets = descent.offsets if is_found else None
        return Sought(offsets, is_exhausted=is_found is False, steps=descent.steps)


class _Part(NamedTuple):
    """Blocks that hang together and wait.

    Attributes:
        blocks: By rank; some may have got their places since.
        waiting: How many have not.
        begin, end: The sections that they are in.
        ceiling: What they lie below.
        depth: How many choices there were before those of this part.
    """

    blocks: list[int]
    waiting: int
    begin: int
    end: int
    ceiling: int
    depth: int = 0


class _Valley(NamedTuple):
    """A stretch of the skyline between higher neighbours; the brim is the lower one of them."""

    begin: int
    end: int
    floor: int
    brim: int


@dataclass(slots=True, eq=False)
class _Choice:
    """Who covers a section.

    Attributes:
        part: What waits.
        section: Which one.
        answers: Who may.
        may_be_nobody: Whether it can afford a gap there.
        mark: What had changed before.
        agenda: How many other parts waited.
        tried: How many of the answers were tried.
    """

    part: _Part
    section: int
    answers: list[int]
    may_be_nobody: bool
    mark: tuple[int, int]
    agenda: int
    tried: int = 0


class _Descent:
    """A plan in the making.

    Attributes:
        floors: Of each section, what all that waits lies above.
        loads: Of each section, the size of all that waits.
        crossings: Of each section, how many that wait are in the next one too.
        barred: Of each block, the highest level at which it cannot lie.
        tried: Of each block, the floor on which it was tried last, in vain.
        agenda: Parts to be searched, the last one first.
        choices: What may be chosen otherwise.
        saved, bars: What has to be put back then.
    """

    __slots__ = (
        "agenda",
        "barred",
        "bars",
        "choices",
        "crossings",
        "first",
        "floors",
        "is_wary",
        "last",
        "loads",
        "offsets",
        "order",
        "saved",
        "sizes",
        "steps",
        "tried",
        "valley_of",
    )

    def __init__(self, skyline: Skyline, ranks: Sequence[int], *, is_wary: bool) -> None:
        self.sizes = skyline.sizes
        self.first = [sections[0] for sections in skyline.sections_of]
        self.last = [sections[-1] for sections in skyline.sections_of]
        self.order = sorted(range(len(self.sizes)), key=ranks.__getitem__)
        self.is_wary = is_wary
        self.steps = 0
        self.floors = [0] * len(skyline.loads)
        self.loads = list(skyline.loads)
        self.crossings = list(skyline.crossings)
        self.valley_of = [-1] * len(skyline.loads)
        self.barred = [-1] * len(self.sizes)
        self.tried = [0] * len(self.sizes)
        self.offsets = [0] * len(self.sizes)
        self.agenda: list[_Part] = []
        self.choices: list[_Choice] = []
        self.saved: list[tuple[int, int, int, int]] = []
        self.bars: list[tuple[int, int, int]] = []

    def run(self, height: int, steps_max: int) -> bool | None:
        """Whether there is a plan; None if there was no more time."""
        whole = _Part(self.order, len(self.order), 0, len(self.loads), height, depth=0)
        self._add(whole, len(self.order), height)
        while self.agenda:
            part = self.agenda.pop()
            # What was chosen in parts that have a plan by now does not matter to this one.
            del self.choices[part.depth :]
            self.steps += len(part.blocks) + part.end - part.begin + _LOOK
            if self.steps > steps_max:
                return None
            if not self._look_at(part) and not self._go_on():
                return False
        return True

    def _add(self, part: _Part, waiting: int, ceiling: int) -> None:
        """Put what waits of a part on the agenda, its smaller pieces on top: they fail sooner."""
        begin, end, depth, crossings = part.begin, part.end, len(self.choices), self.crossings
        edges = [begin, *[s + 1 for s in range(begin, end - 1) if not crossings[s]], end]
        if len(edges) == 2 and 4 * waiting > 3 * len(part.blocks):
            self.agenda.append(_Part(part.blocks, waiting, begin, end, ceiling, depth))
            return
        pieces: list[list[int]] = [[] for _ in edges[1:]]
        for i in part.blocks:
            if self.barred[i] < _NOWHERE:
                pieces[bisect(edges, self.first[i]) - 1].append(i)
        parts = [
            _Part(piece, len(piece), *span, ceiling, depth)
            for piece, span in zip(pieces, pairwise(edges), strict=True)
            if piece
        ]
        parts.sort(key=lambda one: len(one.blocks), reverse=True)
        self.agenda += parts

    def _look_at(self, part: _Part) -> bool:
        """Do what is sure; false if something has to be chosen first, or if there is no plan."""
        first, last, barred = self.first, self.last, self.barred
        lids = [
            i
            for i in part.blocks
            if first[i] == part.begin and last[i] == part.end - 1 and barred[i] < _NOWHERE
        ]
        if lids:
            self._put_lids(part, lids)
            return True
        valleys = self._find_valleys(part)
        resting = self._who_may_rest(part)
        leasts = [_NOWHERE] * len(valleys)
        for i in resting:
            number = self.valley_of[first[i]]
            leasts[number] = min(leasts[number], self.sizes[i])
        barren = [
            valley for valley, least in zip(valleys, leasts, strict=True) if least == _NOWHERE
        ]
        if barren:
            self.agenda.append(part)
            return all(self._fill(valley, part) for valley in barren)
        section, may_be_nobody = self._hardest(part, valleys, leasts, resting)
        if section >= 0:
            answers = [i for i in resting if first[i] <= section <= last[i]]
            mark = len(self.saved), len(self.bars)
            self.choices.append(
                _Choice(part, section, answers, may_be_nobody, mark, len(self.agenda))
            )
        return False

    def _put_lids(self, part: _Part, lids: list[int]) -> None:
        """Who lives as long as all the others may lie above them."""
        ceiling = part.ceiling
        for block in lids:
            ceiling -= self.sizes[block]
            self.offsets[block] = ceiling
            self._leave(block, 0, 0)
        self._add(part, part.waiting - len(lids), ceiling)

    def _find_valleys(self, part: _Part) -> list[_Valley]:
        """The valleys; `valley_of` says of each section which one it is in, or -1."""
        floors, valley_of = self.floors, self.valley_of
        valleys: list[_Valley] = []
        begin, left = part.begin, _NOWHERE
        while begin < part.end:
            floor, end = floors[begin], begin + 1
            while end < part.end and floors[end] == floor:
                end += 1
            right = floors[end] if end < part.end else _NOWHERE
            is_valley = left > floor < right
            valley_of[begin:end] = [len(valleys) if is_valley else -1] * (end - begin)
            if is_valley:
                valleys.append(_Valley(begin, end, floor, min(left, right)))
            begin, left = end, floor
        return valleys

    def _who_may_rest(self, part: _Part) -> list[int]:
        """Those that may lie on the floor of a valley."""
        first, last, barred = self.first, self.last, self.barred
        valley_of, floors = self.valley_of, self.floors
        return [
            i
            for i in part.blocks
            if (number := valley_of[first[i]]) == valley_of[last[i]]
            and number >= 0
            and barred[i] < floors[first[i]]
        ]

    def _fill(self, valley: _Valley, part: _Part) -> bool:
        """Raise the floor of a valley that nobody may rest in; false if that cannot be."""
        begin, end, brim = valley.begin, valley.end, valley.brim
        if brim + max(self.loads[begin:end]) > part.ceiling:
            return False
        first, last = self.first, self.last
        for i in part.blocks:
            if begin <= first[i] and last[i] < end and self.barred[i] < _NOWHERE:
                if self.tried[i] + self.sizes[i] <= brim:
                    return False
                self._bar(i, brim, self.tried[i])
        self.saved.append((begin, end, valley.floor, -1))
        self.floors[begin:end] = [brim] * (end - begin)
        return True

    def _hardest(
        self, part: _Part, valleys: list[_Valley], leasts: list[int], resting: list[int]
    ) -> tuple[int, bool]:
        """The section with the fewest answers, and whether one is nobody; -1 if one has none."""
        begin, first, last = part.begin, self.first, self.last
        changes = [0] * (part.end - begin + 1)
        for i in resting:
            changes[first[i] - begin] += 1
            changes[last[i] + 1 - begin] -= 1
        counts = list(accumulate(changes))
        fewest = lowest = _NOWHERE
        found = (-1, False)
        for valley, least in zip(valleys, leasts, strict=True):
            floor = valley.floor
            load_max = part.ceiling - floor - min(valley.brim - floor, least)
            for s in range(valley.begin, valley.end):
                may_be_nobody = self.loads[s] <= load_max
                if not (count := counts[s - begin]):
                    if not may_be_nobody:
                        return -1, False
                    continue
                answers = count + may_be_nobody
                if self.is_wary and may_be_nobody:
                    answers *= answers
                if (answers, floor) < (fewest, lowest):
                    fewest, lowest, found = answers, floor, (s, may_be_nobody)
        return found

    def _go_on(self) -> bool:
        """Take back what failed, and choose otherwise; false if there is nothing left to choose."""
        if not self.choices:
            return False
        choice = self.choices[-1]
        self._take_back(choice.mark)
        del self.agenda[choice.agenda :]
        if choice.tried == len(choice.answers):
            self.choices.pop()
            floor = self.floors[choice.section]
            for block in choice.answers:
                self._bar(block, floor, floor)
            self.agenda.append(choice.part)
            return True
        block = choice.answers[choice.tried]
        choice.tried += 1
        if choice.tried == len(choice.answers) and not choice.may_be_nobody:
            self.choices.pop()
        self._lay(block, choice.part)
        return True

    def _lay(self, block: int, part: _Part) -> None:
        begin, end = self.first[block], self.last[block] + 1
        self._leave(block, begin, end)
        self.offsets[block] = floor = self.floors[begin]
        self.floors[begin:end] = [floor + self.sizes[block]] * (end - begin)
        self._add(part, part.waiting - 1, part.ceiling)

    def _leave(self, block: int, begin: int, end: int) -> None:
        """It waits no more; the floor from `begin` to `end` is to be put back as it is now."""
        self.saved.append((begin, end, self.floors[begin], block))
        self._count(block, -1)
        self._bar(block, _NOWHERE, 0)

    def _count(self, block: int, change: int) -> None:
        """Of one that waits from now on, or no more."""
        begin, end, size = self.first[block], self.last[block] + 1, change * self.sizes[block]
        self.loads[begin:end] = [load + size for load in self.loads[begin:end]]
        crossings = self.crossings[begin : end - 1]
        self.crossings[begin : end - 1] = [count + change for count in crossings]

    def _bar(self, block: int, level: int, tried: int) -> None:
        self.bars.append((block, self.barred[block], self.tried[block]))
        self.barred[block], self.tried[block] = level, tried

    def _take_back(self, mark: tuple[int, int]) -> None:
        saved, bars = mark
        for begin, end, floor, block in reversed(self.saved[saved:]):
            self.floors[begin:end] = [floor] * (end - begin)
            if block >= 0:
                self._count(block, 1)
        for block, level, tried in reversed(self.bars[bars:]):
            self.barred[block], self.tried[block] = level, tried
        del self.saved[saved:], self.bars[bars:]
