"""Which values of a program are blocks of memory, from when to when, and which share one."""

from dataclasses import dataclass
from math import prod
from typing import Any

from xirang.backends.torch_lowering import Into, into_of, may_replace, slices
from xirang.backends.torch_trace import Trace, Value, formula_of, nodes_in


@dataclass(slots=True, eq=False)
class Block:
    """A new tensor of a run.

    Attributes:
        root: The value that it was made for.
        into: How it is written in its place; None if it is made outside.
        start: The step at which it comes to life.
        last: The last step that needs it.
    """

    root: Value
    into: Into | None
    start: int
    last: int


class Layout:
    """Of a program.

    Attributes:
        blocks: In the order of their making.
        replaced: Value to the argument over which it is written.
        has_slices: Whether anything is made slice by slice.
        steps: Value to the number of its step.
    """

    def __init__(self, traced: Trace, *, outputs_stay: bool) -> None:
        """Find the blocks of a program that was looked at.

        Args:
            traced: The program.
            outputs_stay: Whether its outputs are needed when the next run begins.
        """
        self.steps = {value: step for step, value in enumerate(traced.values.values())}
        self.replaced: dict[Value, Value] = {}
        self.has_slices = False
        self._values = traced.values
        self._last = self._last_uses(traced)
        self._roots: dict[Value, Block] = {}
        given = traced.outputs if outputs_stay else ()
        whole = {value.root for value in given if _is_whole(value)}
        for value in traced.values.values():
            if value.is_new:
                self._place(value, is_given=value in whole)
        self.blocks = list(dict.fromkeys(self._roots.values()))

    def block_of(self, value: Value) -> Block | None:
        """The block in which a value lies; None if that is no run's."""
        return self._roots.get(value.root)

    def _last_uses(self, traced: Trace) -> dict[Value, int]:
        last: dict[Value, int] = {}
        for node, value in traced.values.items():
            for used in nodes_in([node.args, *node.kwargs.values()]):
                last[self._values[used].root] = self.steps[value]
            last[value.root] = max(last.get(value.root, 0), self.steps[value])
        return last | {value.root: len(traced.values) for value in traced.outputs}

    def _place(self, value: Value, *, is_given: bool) -> None:
        step, last = self.steps[value], self._last[value]
        into = into_of(value, self._values)
        self.has_slices |= into is not None and slices(into)
        if into is not None and may_replace(value.node):
            for used in nodes_in(value.node.args):
                block = self._roots.get(self._values[used].root)
                if block is not None and self._fits(value, used, block, is_given=is_given):
                    self.replaced[value] = self._values[used]
                    self._roots[value] = block
                    block.last = max(block.last, last)
                    return
        # What a run gives stays when the next one begins.
        self._roots[value] = Block(value, None if is_given else into, step, last)

    def _fits(self, value: Value, used: Any, block: Block, *, is_given: bool) -> bool:
        """Whether a value may be written over an argument, or that is needed, or read otherwise."""
        if block.last != self.steps[value] or (is_given and block.into is not None):
            return False
        mine = _form(value)
        others = [
            _form(self._values[each])
            for each in nodes_in([value.node.args, *value.node.kwargs.values()])
            if self._roots.get(self._values[each].root) is block
        ]
        is_all = _extent(self._values[used]) == _extent(block.root)
        return is_all and all(form == mine for form in others)


def _form(value: Value) -> tuple[Any, ...]:
    tensor = value.node.meta["val"]
    if isinstance(tensor, list | tuple):
        return (value,)
    return (tensor.dtype, [str(n) for n in tensor.shape], [str(n) for n in tensor.stride()])


def _is_whole(value: Value) -> bool:
    return bool(_extent(value) == _extent(value.root))


def _extent(value: Value) -> Any:
    """Its elements, as a formula; a tuple of tensors is like nothing else."""
    tensor = value.node.meta["val"]
    if isinstance(tensor, list | tuple):
        return value
    sizes = [formula_of(size) for size in tensor.shape]
    formula = prod(sizes) * tensor.dtype.itemsize
    return formula.expand() if hasattr(formula, "expand") else formula
