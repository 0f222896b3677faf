"""How much memory a planned program's runs take: inputs, planned blocks, and what lies outside.

All sizes follow from the graph, so nothing has to be run to know them, but for what operations need
while they run. That is measured at a few tiny shapes.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

from xirang.backends.torch_cuda import Accelerator
from xirang.backends.torch_graphs import OUTSIDE_BYTES
from xirang.backends.torch_planned import ALIGNMENT, PlannedProgram
from xirang.backends.torch_room import TorchRoom
from xirang.backends.torch_shapes import Symbols
from xirang.backends.torch_site import DeviceSite, HostSite
from xirang.core.memory.fitting import Measured, fit
from xirang.core.memory.law import ROWS_END, Law, Regime
from xirang.core.memory.lifetime import Lifetimes, aligned
from xirang.core.memory.planner import Planner
from xirang.core.memory.polynomial import NOTHING, Polynomial, Size, area, middle, total
from xirang.core.memory.validate import fault_of
from xirang.memory.arena import DeviceArena, HostArena

ROWS = 8
"""Plans are made for so many rows: more make all blocks larger by nearly the same factor."""

STEPS = 200_000
"""Work for one plan: a twentieth of a second on a quiet core."""

CLOSE = 1.001
STACKS_MAX = 4
CACHED_MAX = 4096

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Sample:
    """A tiny run.

    Attributes:
        rows, length: Its shape.
        symbols: The same, as the program has it.
        working: Step to the most that it took of PyTorch's own allocator, beside tensors; slices
            were of one row each.
    """

    rows: int
    length: Size
    symbols: Symbols
    working: Mapping[int, int]


class Stack:
    """What of a plan holds at every shape: who stands on whom."""

    def __init__(self, lifetimes: Lifetimes) -> None:
        """Plan blocks, and keep their order from the bottom up.

        Args:
            lifetimes: Of the blocks, at some shape.
        """
        planner = Planner(lifetimes)
        while planner.steps < STEPS and planner.advance():
            pass
        plan = planner.plan
        fault = fault_of(lifetimes, plan.offsets, plan.height_bytes)
        assert fault is None, fault
        order = sorted(range(len(lifetimes)), key=lambda block: plan.offsets[block])
        self._order = [
            (block, [other for other in order[:place] if lifetimes.overlaps(block, other)])
            for place, block in enumerate(order)
        ]

    def place(self, sizes_bytes: Sequence[int]) -> tuple[list[int], int]:
        """Where blocks of these sizes lie, and how high that is."""
        tops = [0] * len(sizes_bytes)
        offsets = [0] * len(sizes_bytes)
        for block, below in self._order:
            offsets[block] = max([tops[other] for other in below], default=0)
            tops[block] = offsets[block] + sizes_bytes[block]
        return offsets, max(tops, default=0)


class TorchFootprint:
    """What is known of a model's memory; see `Footprint` in backends/executable.py.

    Attributes:
        peaks: Never less than `peak_bytes` at the shapes that were tried.
        program: What runs.
        accelerator: Where; None for the CPU.
        device: Its name as settings have it; empty for the CPU.
        beside_bytes: What each instance holds beside its arena: operations in captured graphs.
    """

    def __init__(
        self,
        program: PlannedProgram,
        samples: Sequence[Sample],
        inputs: Sequence[Polynomial],
        lengths: Sequence[Size],
        accelerator: Accelerator | None = None,
    ) -> None:
        """Find the law and the plans.

        Args:
            program: What runs.
            samples: Tiny runs, at least one.
            inputs: What each input takes.
            lengths: For which plans are made; runs of others use the best of them.
            accelerator: Where it runs; None for the CPU.
        """
        self.program = program
        self.accelerator = accelerator
        self.device = "" if accelerator is None else accelerator.device
        self.beside_bytes = 0 if accelerator is None else OUTSIDE_BYTES
        self._lengths = tuple(lengths)
        sizes = [program.sizes_bytes(sample.symbols) for sample in samples]
        self._inputs = inputs
        placed = _fitted(samples, [one for one, _ in sizes])
        self._placed = _regime(program.lifetimes, placed)
        slice_bytes = (HostSite if accelerator is None else DeviceSite).slice_bytes
        outside = _outside(program, samples, [other for _, other in sizes])
        # Runs make slices of several rows where the samples made one row each.
        self._outside = [each.plus(slice_bytes * program.has_slices) for each in outside]
        self._stacks: list[Stack] = []
        self._peaks: dict[tuple[int, Size], int] = {}
        self._rows: dict[tuple[Size, int], int] = {}
        self._plan()
        self.peaks = self._law()

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of its lease."""
        inputs = sum([aligned(one.bytes_at(rows, length), ALIGNMENT) for one in self._inputs])
        return _kept(
            self._peaks,
            (rows, length),
            lambda: inputs + self._height(rows, length) + self.outside_bytes(rows, length),
        )

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of a length that stays within so many bytes; 0 if not one row does."""
        return _kept(
            self._rows,
            (length, size_bytes),
            lambda: bisect_right(
                range(1, ROWS_END), size_bytes, key=lambda rows: self.peak_bytes(rows, length)
            ),
        )

    def arena(self, reserved_bytes: int) -> DeviceArena:
        """Addresses for the runs of one instance."""
        if self.accelerator is None:
            return HostArena(reserved_bytes)
        return self.accelerator.arena(reserved_bytes)

    def room(self, arena: DeviceArena) -> TorchRoom:
        """A place for runs of one instance."""
        return TorchRoom(self, arena)

    # ------------------------------------------------------------------ for rooms

    def offsets(self, symbols: Symbols) -> tuple[Sequence[int], int]:
        """Where each block lies at a shape, and how high the plan is."""
        sizes = [aligned(size, ALIGNMENT) for size in self.program.sizes_bytes(symbols)[0]]
        return min((stack.place(sizes) for stack in self._stacks), key=lambda found: found[1])

    def outside_bytes(self, rows: int, length: Size) -> int:
        """The most that lies outside of the plan at once."""
        return max(one.bytes_at(rows, length) for one in self._outside)

    # ------------------------------------------------------------------ plans

    def _plan(self) -> None:
        """As many plans as it takes to be close to the bound at all lengths."""
        length = max(self._lengths, key=area)
        while len(self._stacks) < STACKS_MAX:
            self._stacks.append(Stack(self._lifetimes(ROWS, length)))
            ratios = {each: self._ratio(each) for each in self._lengths if each != length}
            length = max(ratios, key=lambda each: ratios[each], default=length)
            if ratios.get(length, 1.0) <= CLOSE:
                break

    def _lifetimes(self, rows: int, length: Size) -> Lifetimes:
        return self._placed.lifetimes(rows, length).aligned(ALIGNMENT)

    def _height(self, rows: int, length: Size) -> int:
        sizes = self._lifetimes(rows, length).sizes_bytes
        return min(stack.place(sizes)[1] for stack in self._stacks)

    def _ratio(self, length: Size) -> float:
        return self._height(ROWS, length) / max(1, self._lifetimes(ROWS, length).bound_bytes)

    def _law(self) -> tuple[Polynomial, ...]:
        """The sum of the parts, lifted to where plans are above the bound."""
        inputs = total([one.plus(ALIGNMENT - 1) for one in self._inputs])
        placed = Law([self._placed], alignment=ALIGNMENT).peaks or (NOTHING,)
        sums = [total([inputs, one, other]) for one in placed for other in self._outside]
        between = [middle(one, other) for one, other in pairwise(self._lengths)]
        tried = [(rows, n) for rows in (1, ROWS, 8 * ROWS) for n in (*self._lengths, *between)]
        excess = max(
            Fraction(self.peak_bytes(*size), max(1, *(one.bytes_at(*size) for one in sums)))
            for size in tried
        )
        return tuple(_scaled(one, max(Fraction(1), excess)) for one in sums)


def _outside(
    program: PlannedProgram, samples: Sequence[Sample], sizes: Sequence[Sequence[int]]
) -> list[Polynomial]:
    """What lies outside of the plan at the instants that may be the worst."""
    steps = sorted({step for sample in samples for step in sample.working})
    working = [[sample.working.get(step, 0) for step in steps] for sample in samples]
    slots = [*_fitted(samples, sizes), *_fitted(samples, working)]
    known = program.outside_lifetimes
    starts = (*known.starts, *steps)
    ends = (*known.ends, *(step + 1 for step in steps))
    return list(Law([Regime(starts, ends, tuple(slots))], alignment=ALIGNMENT).peaks or (NOTHING,))


def _scaled(polynomial: Polynomial, by: Fraction) -> Polynomial:
    by = by.limit_denominator(1 << 20) + Fraction(by > 1, 1 << 20)
    return polynomial.times(by)


def _regime(lifetimes: Lifetimes, slots: Sequence[Polynomial]) -> Regime:
    return Regime(lifetimes.starts, lifetimes.ends, tuple(slots))


def _fitted(samples: Sequence[Sample], sizes: Sequence[Sequence[int]]) -> list[Polynomial]:
    """The polynomial of each of several things, from its size at each sample."""
    known: dict[tuple[int, ...], Polynomial] = {}
    for column in zip(*sizes, strict=True):
        if column not in known:
            measured = [
                Measured(sample.rows, sample.length, size)
                for sample, size in zip(samples, column, strict=True)
            ]
            known[column] = fit(measured)[0]
    return [known[column] for column in zip(*sizes, strict=True)]


def _kept(table: dict[_Key, int], key: _Key, find: Callable[[], int]) -> int:
    if (known := table.get(key)) is None:
        if len(table) >= CACHED_MAX:
            table.clear()
        known = table[key] = find()
    return known
