"""An exported program as straight code whose tensors lie where a plan puts them.

Two functions are written for each program. The first makes every view that depends on shapes and
offsets alone, once for each shape; the second runs the operations, each into its place. What has
no true variant with `out=` is made outside, as always, and dropped as soon as it is dead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from xirang.backends.torch_lowering import SLICE, Into, into_of, may_replace, slices
from xirang.backends.torch_trace import (
    Kind,
    Trace,
    Unplannable,
    Value,
    formula_of,
    nodes_in,
    trace,
)
from xirang.core.memory.lifetime import Lifetimes

ALIGNMENT = 64
"""Blocks begin at cache lines, as PyTorch's own do."""

Symbols = tuple[int, ...]
"""The sizes of one shape."""


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


class PlannedProgram:
    """A program that can run in an arena.

    Attributes:
        inputs: Names of what it takes, in order.
        placed: Blocks that have a place in the plan.
        outside: Those that have none.
        merged: Results that are written over an argument that nobody needs any more.
        has_slices: Whether some results are made outside slice by slice, and copied.
    """

    def __init__(self, exported: Any, tensors: Mapping[str, Any]) -> None:
        """Look at a program, and write its code.

        Args:
            exported: Of `torch.export`.
            tensors: Inputs of a small run.

        Raises:
            Unplannable: It does what a plan does not know, and what.
        """
        self._trace = trace(exported, tensors)
        self._structure = exported.call_spec.out_spec
        self.inputs = list(self._trace.inputs)
        layout = _Layout(self._trace)
        self.placed = [block for block in layout.blocks if block.into is not None]
        self.outside = [block for block in layout.blocks if block.into is None]
        self.merged = len(layout.replaced)
        self.has_slices = layout.has_slices
        self._shapes = _Shapes(self._trace, self.placed, self.outside)
        code = _Code(self._trace, layout, self._shapes, self.placed)
        self._bind, self._run = code.compiled()
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

    def run(self, bound: Any, symbols: Symbols, tensors: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run it; the outputs lie outside of the arena."""
        result: tuple[Any, ...] = self._run(
            bound, *symbols, *[tensors[name] for name in self.inputs]
        )
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


class _Layout:
    """Which values are blocks, from when to when, and who is written over whom.

    Attributes:
        blocks: In the order of their making.
        replaced: Value to the argument over which it is written.
        has_slices: Whether anything is made slice by slice.
        steps: Value to the number of its step.
    """

    def __init__(self, traced: Trace) -> None:
        self.steps = {value: step for step, value in enumerate(traced.values.values())}
        self.replaced: dict[Value, Value] = {}
        self.has_slices = False
        self._values = traced.values
        self._last = self._last_uses(traced)
        self._roots: dict[Value, Block] = {}
        whole = {value.root for value in traced.outputs if _is_whole(value)}
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
            for each in nodes_in(value.node.args)
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


class _Shapes:
    """From the shapes of inputs to symbols, and from those to sizes.

    Attributes:
        names: Of the symbols, as the code has them.
        sizes: Takes the symbols; gives the size of each block.
    """

    def __init__(self, traced: Trace, placed: Sequence[Block], outside: Sequence[Block]) -> None:
        from torch.utils._sympy.printers import PythonPrinter

        self._printer = PythonPrinter()
        self._inputs = [
            (name, [formula_of(size) for size in value.node.meta["val"].shape])
            for name, value in traced.inputs.items()
        ]
        dims = [dim for _, dims in self._inputs for dim in dims]
        self._known = list(dict.fromkeys(dim for dim in dims if getattr(dim, "is_symbol", False)))
        self.names = [str(symbol) for symbol in self._known]
        self._bounds = [traced.symbols.get(symbol, (0, float("inf"))) for symbol in self._known]
        blocks = [*placed, *outside]
        self.sizes = self._function([self._size(block.root) for block in blocks])
        self._dims = self._function([self.said(dim) for dim in dims])

    def said(self, size: Any) -> str:
        """A size as code."""
        formula = formula_of(size)
        symbols = getattr(formula, "free_symbols", ())
        if not symbols <= set(self._known) if symbols else False:
            raise Unplannable("its shapes depend on its data")
        return str(self._printer.doprint(formula)) if symbols else str(int(formula))

    def symbols(self, tensors: Mapping[str, Any]) -> Symbols | None:
        """See `PlannedProgram.symbols`."""
        given: list[int] = []
        found: dict[Any, int] = {}
        for name, dims in self._inputs:
            shape = tensors[name].shape
            if len(shape) != len(dims) or not tensors[name].is_contiguous():
                return None
            given += shape
            for dim, size in zip(dims, shape, strict=True):
                found.setdefault(dim, size)
        symbols = tuple(found[symbol] for symbol in self._known)
        bounds = zip(symbols, self._bounds, strict=True)
        is_within = all(low <= size <= high for size, (low, high) in bounds)
        return symbols if is_within and list(self._dims(*symbols)) == given else None

    def _size(self, root: Value) -> str:
        tensors = root.node.meta["val"]
        many = tensors if isinstance(tensors, list | tuple) else [tensors]
        return " + ".join(self._size_of(tensor) for tensor in many)

    def _size_of(self, tensor: Any) -> str:
        """Up to its last element, whatever the order of its axes."""
        terms = [
            f"(({self.said(size)}) - 1) * ({self.said(stride)})"
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        ]
        return f"max(0, ({' + '.join(['1', *terms])}) * {tensor.dtype.itemsize})"

    def _function(self, expressions: Sequence[str]) -> Any:
        source = f"def given({', '.join(self.names)}): return ({', '.join([*expressions, ''])})"
        return compiled(source, "given", {})


class _Code:
    """Writes the two functions."""

    def __init__(
        self, traced: Trace, layout: _Layout, shapes: _Shapes, placed: Sequence[Block]
    ) -> None:
        self._trace = traced
        self._layout = layout
        self._shapes = shapes
        self._slots = {block: slot for slot, block in enumerate(placed)}
        self._names: dict[Value, str] = {}
        self._ready: list[str] = []
        self._running: list[str] = []
        self._beforehand: set[str] = {SLICE}
        self._used: dict[str, None] = {}
        self._constants: dict[str, Any] = {}
        self._views: dict[str, str] = {}
        self._held: dict[Block, list[str]] = {}
        self._owners: dict[str, Block] = {}
        for step, value in enumerate(traced.values.values()):
            self._value(step, value)
            self._drop(step)
        self._outputs = [self._given(value) for value in traced.outputs]

    def compiled(self) -> tuple[Any, Any]:
        """The functions: views from symbols, and outputs from views."""
        names = [*self._shapes.names]
        views = ", ".join([*self._used, ""]) if self._used else "()"
        bind = [f"def bind(arena, offsets, {SLICE}, {', '.join(names)}):", *self._ready]
        bind.append(f"return ({views})" if self._used else "return ()")
        inputs = [self._names[value] for value in self._trace.inputs.values()]
        run = [f"def run(bound, {', '.join([*names, *inputs])}):"]
        run += [f"({views}) = bound"] if self._used else []
        run += [*self._running, f"return ({', '.join([*self._outputs, ''])})"]
        return (
            compiled("\n    ".join(bind), "bind", self._constants),
            compiled("\n    ".join(run), "run", self._constants),
        )

    # ------------------------------------------------------------------ for ways of writing

    def said(self, argument: Any) -> str:
        """An argument as code."""
        if hasattr(argument, "op"):
            value = self._trace.values[argument]
            return self._use(self._names[value])
        if isinstance(argument, list | tuple):
            return f"[{', '.join(self.said(each) for each in argument)}]"
        if argument is None or isinstance(argument, bool | int | str):
            return repr(argument)
        if hasattr(argument, "node"):
            return f"({self._shapes.said(argument)})"
        return self.named(argument)

    def named(self, constant: Any) -> str:
        """A constant as code."""
        for name, known in self._constants.items():
            if known is constant:
                return name
        name = f"c{len(self._constants)}"
        self._constants[name] = constant
        return name

    def viewed(self, expression: str, name: str) -> str:
        """A view, made once for each shape where its base does not come with the run."""
        if expression not in self._views:
            view = f"w{len(self._views)}"
            self._views[expression] = view
            if name in self._beforehand:
                self._ready.append(f"{view} = {expression}")
                self._beforehand.add(view)
            else:
                self._running.append(f"{view} = {expression}")
                if name in self._owners:
                    self._keep(self._owners[name], view)
        return self._use(self._views[expression])

    # ------------------------------------------------------------------ values

    def _use(self, name: str) -> str:
        if name in self._beforehand and name not in self._constants:
            self._used[name] = None
        return name

    def _value(self, step: int, value: Value) -> None:
        node, name = value.node, f"v{step}"
        self._names[value] = name
        if value.kind is Kind.SIZE:
            self._names[value] = f"({self._shapes.said(node.meta['val'])})"
        elif value.kind is Kind.WEIGHT and value.root is value:
            self._names[value] = self.named(value.tensor)
            self._beforehand.add(self._names[value])
        elif value.kind in {Kind.NOTHING, Kind.INPUT} and value.root is value:
            return
        elif value.writes:
            self._running.append(f"{name} = {self._call(node)}")
            self._hold(value, name)
        elif not value.is_new:
            self._view(value, name)
        elif value in self._layout.replaced:
            over = self._use(self._names[self._layout.replaced[value]])
            into = into_of(value, self._trace.values)
            assert into is not None
            self._running.append(into.code(self, node, over))
            self._names[value] = over
        else:
            self._make(value, name)

    def _make(self, value: Value, name: str) -> None:
        block = self._layout.block_of(value)
        assert block is not None
        if block.into is None:
            self._running.append(f"{name} = {self._call(value.node)}")
            self._hold(value, name)
            return
        tensor = value.node.meta["val"]
        dtype = self.named(tensor.dtype)
        shape, strides = self.said(list(tensor.shape)), self.said(list(tensor.stride()))
        offset = f"offsets[{self._slots[block]}] // {tensor.dtype.itemsize}"
        self._ready.append(f"{name} = arena[{dtype}].as_strided({shape}, {strides}, {offset})")
        self._beforehand.add(name)
        self._running.append(block.into.code(self, value.node, self._use(name)))

    def _view(self, value: Value, name: str) -> None:
        used = {self._names[self._trace.values[n]] for n in nodes_in(value.node.args)}
        used = {each for each in used if not each.startswith("(")}
        if not used <= self._beforehand:
            self._running.append(f"{name} = {self._call(value.node)}")
            self._hold(value, name)
            return
        before = dict(self._used)
        self._ready.append(f"{name} = {self._call(value.node)}")
        self._used = before
        self._beforehand.add(name)
        if value.kind is Kind.MADE and hasattr(value.node.target, "_schema"):
            (base, *_) = [n for n in nodes_in(value.node.args) if self._is_root(n, value)]
            check = self.named(_check_view)
            self._ready.append(f"{check}({name}, {self._names[self._trace.values[base]]})")

    def _is_root(self, node: Any, value: Value) -> bool:
        return self._trace.values[node].root is value.root

    def _call(self, node: Any) -> str:
        given = [self.said(each) for each in node.args]
        given += [f"{name}={self.said(each)}" for name, each in node.kwargs.items()]
        return f"{self.named(node.target)}({', '.join(given)})"

    def _hold(self, value: Value, name: str) -> None:
        block = self._layout.block_of(value)
        if block is not None:
            self._keep(block, name)

    def _keep(self, block: Block, name: str) -> None:
        self._owners[name] = block
        self._held.setdefault(block, []).append(name)

    def _drop(self, step: int) -> None:
        """Let go of what nobody needs after this step."""
        for block in [each for each in self._held if each.last <= step]:
            self._running.append(f"{' = '.join(self._held.pop(block))} = None")

    def _given(self, value: Value) -> str:
        name = self._use(self._names[value])
        return f"{name}.clone()" if name in self._beforehand else name


def _check_view(view: Any, base: Any) -> None:
    each = view[0] if isinstance(view, list | tuple) else view
    other = base[0] if isinstance(base, list | tuple) else base
    if each.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        raise Unplannable("a view is a copy at this shape")


def compiled(source: str, name: str, constants: Mapping[str, Any]) -> Any:
    """A function from its source; what it says comes from the graph's own sizes and names."""
    space: dict[str, Any] = dict(constants)
    exec(compile(source, "<plan>", "exec"), space)
    return space[name]
