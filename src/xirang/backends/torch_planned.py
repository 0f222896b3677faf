"""An exported program whose tensors lie where a plan puts them.

Two functions are written for each program. The first makes every view that depends on shapes and
offsets alone, once for each shape; the second runs the operations, each into its place. What has
no true variant with `out=` is made outside, as always, and dropped as soon as it is dead.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from xirang.backends.torch_code import Code
from xirang.backends.torch_layout import Block, Layout
from xirang.backends.torch_shapes import Shapes, Symbols
from xirang.backends.torch_trace import Kind, trace
from xirang.core.memory.lifetime import Lifetimes

ALIGNMENT = 64
"""Blocks begin at cache lines, as PyTorch's own do."""


class PlannedProgram:
    """A program that can run in an arena.

    Attributes:
        inputs: Names of what it takes, in order.
        placed: Blocks that have a place in the plan.
        outside: Those that have none.
        merged: Results that are written over an argument that nobody needs any more.
        is_placed: Whether all outputs that a run makes lie in the plan.
        has_slices: Whether some results are made outside slice by slice, and copied.
    """

    def __init__(
        self, exported: Any, tensors: Mapping[str, Any], *, outputs_stay: bool = True
    ) -> None:
        """Look at a program, and write its code.

        Args:
            exported: Of `torch.export`.
            tensors: Inputs of a small run.
            outputs_stay: Whether its outputs are needed when the next run begins: then they lie
                outside of the arena.

        Raises:
            Unplannable: It does what a plan does not know, and what.
        """
        self._trace = trace(exported, tensors)
        self._structure = exported.call_spec.out_spec
        self.inputs = list(self._trace.inputs)
        layout = Layout(self._trace, outputs_stay=outputs_stay)
        self.placed = [block for block in layout.blocks if block.into is not None]
        self.outside = [block for block in layout.blocks if block.into is None]
        self.merged = len(layout.replaced)
        self.has_slices = layout.has_slices
        self._shapes = Shapes(self._trace, [*self.placed, *self.outside])
        given = {layout.block_of(value) for value in self._trace.outputs} - {None}
        self.is_placed = given <= set(self.placed)
        code = Code(self._trace, layout, self._shapes, self.placed, outputs_stay=outputs_stay)
        self._bind, self._run, self._watched = code.compiled()
        for value in self._trace.values.values():
            value.tensor = None if value.kind is Kind.MADE else value.tensor

    @cached_property
    def lifetimes(self) -> Lifetimes:
        """When each placed block lives; the sizes are those of no shape."""
        return _lifetimes(self.placed)

    @cached_property
    def outside_lifetimes(self) -> Lifetimes:
        """The same of those that are made outside."""
        return _lifetimes(self.outside)

    def symbols(self, tensors: Mapping[str, Any]) -> Symbols | None:
        """The sizes of a run; None if the program was not made for such inputs."""
        return self._shapes.symbols(tensors)

    def is_made_for(self, tensors: Mapping[str, Any]) -> bool:
        """Whether its guards let inputs of this shape pass."""
        if self._trace.guards is None:
            return True
        try:
            self._trace.guards(*[tensors[name] for name in self.inputs])
        except Exception:  # it says what is wrong by any of several classes
            return False
        return True

    def sizes_bytes(self, symbols: Symbols) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes of the placed blocks, and of those outside."""
        sizes, count = self._shapes.sizes(*symbols), len(self.placed)
        return sizes[:count], sizes[count:]

    def bind(
        self,
        arena: Mapping[Any, Any],
        offsets: Sequence[int],
        symbols: Symbols,
        *,
        slice_bytes: int,
    ) -> Any:
        """Make the views of one shape.

        Args:
            arena: The arena's bytes, as a tensor of each type.
            offsets: Of each placed block.
            symbols: The shape.
            slice_bytes: How much is made outside at once where it has to be copied.

        Raises:
            Unplannable: At this shape something is a copy that was a view.
        """
        return self._bind(arena, offsets, slice_bytes, *symbols)

    def run(
        self,
        bound: Any,
        symbols: Symbols,
        tensors: Mapping[str, Any],
        *,
        mark: Callable[[int], object] | None = None,
    ) -> tuple[Any, ...]:
        """Run it.

        Args:
            bound: The views of this shape.
            symbols: The shape.
            tensors: The inputs by name.
            mark: Is told the number of each step before it is made.
        """
        inputs = [tensors[name] for name in self.inputs]
        if mark is not None:
            return tuple(self._watched(mark, bound, *symbols, *inputs))
        result: tuple[Any, ...] = self._run(bound, *symbols, *inputs)
        return result

    def shaped(self, outputs: Sequence[Any]) -> Any:
        """Its outputs as the program itself gives them: one alone, a tuple or a dict."""
        from torch.utils._pytree import tree_unflatten

        return tree_unflatten(list(outputs), self._structure)

    @property
    def dtypes(self) -> set[Any]:
        """Of the placed blocks."""
        return {block.root.node.meta["val"].dtype for block in self.placed}


def _lifetimes(blocks: Sequence[Block]) -> Lifetimes:
    starts = tuple(block.start for block in blocks)
    return Lifetimes(starts, tuple(block.last + 1 for block in blocks), (1,) * len(blocks))
