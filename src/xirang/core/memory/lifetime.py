"""Lifetimes: which blocks of memory a run needs, how large, from when to when.

Two blocks whose lifetimes overlap need different addresses; two that do not may share theirs. The
most that lives at one instant is a bound below which no plan can go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Blocks, each by its index.

    Attributes:
        starts: The step at which each comes to life.
        ends: The first step at which it is dead: later than its start.
        sizes_bytes: Its size; a block of no bytes may share its address with any.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    sizes_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Hold the three against each other."""
        assert len(self.starts) == len(self.ends) == len(self.sizes_bytes)
        assert all(start < end for start, end in zip(self.starts, self.ends, strict=True))
        assert all(size >= 0 for size in self.sizes_bytes)

    def __len__(self) -> int:
        """How many blocks."""
        return len(self.sizes_bytes)

    @property
    def sum_bytes(self) -> int:
        """What they take if none ever shares."""
        return sum(self.sizes_bytes)

    @property
    def bound_bytes(self) -> int:
        """The most that lives at one instant: no plan is smaller."""
        return max(self.course_bytes(), default=0)

    def course_bytes(self) -> list[int]:
        """What lives, from each instant at which something is born or dies to the next."""
        changes: dict[int, int] = {}
        for start, end, size in zip(self.starts, self.ends, self.sizes_bytes, strict=True):
            changes[start] = changes.get(start, 0) + size
            changes[end] = changes.get(end, 0) - size
        return list(accumulate(changes[step] for step in sorted(changes)))

    def overlaps(self, one: int, other: int) -> bool:
        """Whether two blocks live at the same time."""
        return self.starts[one] < self.ends[other] and self.starts[other] < self.ends[one]

    def sections(self) -> list[tuple[int, ...]]:
        """The sets of blocks that live together, in order of time, none a part of its neighbour.

        Blocks that are apart in every section of this list never meet.
        """
        born: dict[int, list[int]] = {}
        dead: dict[int, list[int]] = {}
        for block, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            born.setdefault(start, []).append(block)
            dead.setdefault(end, []).append(block)
        living: set[int] = set()
        sections: list[tuple[int, ...]] = []
        # Only where a death follows a birth has the set of the living stopped growing.
        has_grown = False
        for step in sorted(born.keys() | dead.keys()):
            if step in dead:
                if has_grown:
                    sections.append(tuple(sorted(living)))
                    has_grown = False
                living.difference_update(dead[step])
            if step in born:
                living.update(born[step])
                has_grown = True
        return sections

    def aligned(self, alignment: int) -> "Lifetimes":
        """The same with sizes rounded up to a multiple."""
        return Lifetimes(
            self.starts, self.ends, tuple(aligned(s, alignment) for s in self.sizes_bytes)
        )


def aligned(size_bytes: int, alignment: int) -> int:
    """A size rounded up to a multiple."""
    return -(-size_bytes // alignment) * alignment


@dataclass(frozen=True, slots=True)
class Allocate:
    """A block is asked for; blocks are numbered from 0 in this order."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Free:
    """The block with this number is given back."""

    block: int


Traffic = Sequence[Allocate | Free]
"""What an allocator was asked during one run, in order."""


def of_traffic(traffic: Traffic) -> Lifetimes:
    """The lifetimes in an allocator's traffic; who is never freed lives to the end."""
    starts: list[int] = []
    ends: list[int] = []
    sizes: list[int] = []
    for step, happened in enumerate(traffic):
        match happened:
            case Allocate(size_bytes):
                assert size_bytes >= 0
                starts.append(step)
                ends.append(len(traffic))
                sizes.append(size_bytes)
            case Free(block):
                assert ends[block] == len(traffic), "freed twice"
                ends[block] = step
    return Lifetimes(tuple(starts), tuple(ends), tuple(sizes))


def of_rows(rows: Iterable[tuple[int, int, int]]) -> Lifetimes:
    """From (start, end, size) of each block."""
    starts, ends, sizes = zip(*rows, strict=True)
    return Lifetimes(starts, ends, sizes)
