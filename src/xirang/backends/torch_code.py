"""Writes a program as straight code: views that depend on shapes alone, and what a run does.

Names of values in it are numbers of their nodes: `v17`; of views that only a way of writing needs,
`w3`; of constants, `c5`.
"""

from collections.abc import Sequence
from typing import Any

from xirang.backends.torch_layout import Block, Layout
from xirang.backends.torch_lowering import SLICE, into_of
from xirang.backends.torch_shapes import Shapes, compiled
from xirang.backends.torch_trace import Kind, Trace, Unplannable, Value, nodes_in


class Code:
    """Of a program; see `Writer` in torch_lowering.py."""

    def __init__(
        self,
        traced: Trace,
        layout: Layout,
        shapes: Shapes,
        placed: Sequence[Block],
        *,
        outputs_stay: bool,
    ) -> None:
        """Write it.

        Args:
            traced: The program.
            layout: Its blocks.
            shapes: Their sizes.
            placed: Those that have a place in the plan, in its order.
            outputs_stay: Whether its outputs are needed when the next run begins.
        """
        self._trace = traced
        self._layout = layout
        self._shapes = shapes
        self._slots = {block: slot for slot, block in enumerate(placed)}
        self._names: dict[Value, str] = {}
        self._ready: list[str] = []
        self._running: list[tuple[int, str]] = []
        self._step = 0
        self._beforehand: set[str] = {SLICE}
        self._used: dict[str, None] = {}
        self._constants: dict[str, Any] = {}
        self._views: dict[str, str] = {}
        self._held: dict[Block, list[str]] = {}
        self._owners: dict[str, Block] = {}
        for step, value in enumerate(traced.values.values()):
            self._step = step
            self._value(step, value)
            self._drop(step)
        self._outputs = [self._given(value, stays=outputs_stay) for value in traced.outputs]

    def compiled(self) -> tuple[Any, Any, Any]:
        """The functions: views from symbols, outputs from views, and the same with marked steps."""
        names = [*self._shapes.names]
        views = ", ".join([*self._used, ""]) if self._used else "()"
        bind = [f"def bind(arena, offsets, {SLICE}, {', '.join(names)}):", *self._ready]
        bind.append(f"return ({views})" if self._used else "return ()")
        inputs = [self._names[value] for value in self._trace.inputs.values()]
        given = ", ".join([*names, *inputs])
        first = [f"({views}) = bound"] if self._used else []
        last = f"return ({', '.join([*self._outputs, ''])})"
        lines = [line for _, line in self._running]
        marked = [line for step, each in self._running for line in (f"mark({step})", each)]
        run = [f"def run(bound, {given}):", *first, *lines, last]
        watched = [f"def watched(mark, bound, {given}):", *first, *marked, last]
        return (
            compiled("\n    ".join(bind), "bind", self._constants),
            compiled("\n    ".join(run), "run", self._constants),
            compiled("\n    ".join(watched), "watched", self._constants),
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
                self._then(f"{view} = {expression}")
                if name in self._owners:
                    self._keep(self._owners[name], view)
        return self._use(self._views[expression])

    # ------------------------------------------------------------------ values

    def _then(self, line: str) -> None:
        self._running.append((self._step, line))

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
            self._then(f"{name} = {self._call(node)}")
            self._hold(value, name)
        elif not value.is_new:
            self._view(value, name)
        elif value in self._layout.replaced:
            over = self._use(self._names[self._layout.replaced[value]])
            into = into_of(value, self._trace.values)
            assert into is not None
            self._then(into.code(self, node, over))
            self._names[value] = over
        else:
            self._make(value, name)

    def _make(self, value: Value, name: str) -> None:
        block = self._layout.block_of(value)
        assert block is not None
        if block.into is None:
            self._then(f"{name} = {self._call(value.node)}")
            self._hold(value, name)
            return
        tensor = value.node.meta["val"]
        dtype = self.named(tensor.dtype)
        shape, strides = self.said(list(tensor.shape)), self.said(list(tensor.stride()))
        offset = f"offsets[{self._slots[block]}] // {tensor.dtype.itemsize}"
        self._ready.append(f"{name} = arena[{dtype}].as_strided({shape}, {strides}, {offset})")
        self._beforehand.add(name)
        self._then(block.into.code(self, value.node, self._use(name)))

    def _view(self, value: Value, name: str) -> None:
        used = {self._names[self._trace.values[n]] for n in nodes_in(value.node.args)}
        used = {each for each in used if not each.startswith("(")}
        if not used <= self._beforehand:
            self._then(f"{name} = {self._call(value.node)}")
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
            self._then(f"{' = '.join(self._held.pop(block))} = None")

    def _given(self, value: Value, *, stays: bool) -> str:
        """An output: if it stays, whatever lies in the arena or is the program's is copied."""
        name, block = self._use(self._names[value]), self._layout.block_of(value)
        is_placed = block is not None and block.into is not None
        is_copied = stays and (is_placed or name in self._beforehand)
        return f"{name}.clone()" if is_copied else name


def _check_view(view: Any, base: Any) -> None:
    each = view[0] if isinstance(view, list | tuple) else view
    other = base[0] if isinstance(base, list | tuple) else base
    if each.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        raise Unplannable("a view is a copy at this shape")
