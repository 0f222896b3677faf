"""From the shapes of a program's inputs to its symbols, and from those to sizes in bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

from xirang.backends.torch_layout import Block
from xirang.backends.torch_trace import Trace, Unplannable, Value, formula_of

Symbols = tuple[int, ...]
"""The sizes of one shape."""


class Shapes:
    """Of a program.

    Attributes:
        names: Of the symbols, as the code has them.
        sizes: Takes the symbols; gives the size of each block.
    """

    def __init__(self, traced: Trace, blocks: Sequence[Block]) -> None:
        """Write the formulas of a program's blocks as functions.

        Raises:
            Unplannable: Some size does not follow from the inputs' shapes.
        """
        from torch.utils._sympy.printers import PythonPrinter

        self._printer = PythonPrinter()
        self._inputs = [
            (name, [formula_of(size) for size in value.node.meta["val"].shape])
            for name, value in traced.inputs.items()
        ]
        dims = [dim for _, dims in self._inputs for dim in dims]
        self._known = list(dict.fromkeys(dim for dim in dims if getattr(dim, "is_symbol", False)))
        self.names = [str(symbol) for symbol in self._known]
        if not all(name.isidentifier() for name in self.names):
            raise Unplannable(f"its sizes have the names {self.names}")
        self._bounds = [traced.symbols.get(symbol, (0, float("inf"))) for symbol in self._known]
        self.sizes = self._function([self._size(block.root) for block in blocks])
        self._dims = self._function([self.said(dim) for dim in dims])

    def said(self, size: Any) -> str:
        """A size as code."""
        formula = formula_of(size)
        symbols = getattr(formula, "free_symbols", ())
        if symbols and not symbols <= set(self._known):
            raise Unplannable("its shapes depend on its data")
        return str(self._printer.doprint(formula)) if symbols else str(int(formula))

    def symbols(self, tensors: Mapping[str, Any]) -> Symbols | None:
        """The sizes of a run; None if the program was not made for such inputs."""
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


def compiled(source: str, name: str, constants: Mapping[str, Any]) -> Any:
    """A function from its source; what it says comes from the graph's own sizes and names."""
    space: dict[str, Any] = dict(constants)
    exec(compile(source, "<plan>", "exec"), space)
    return space[name]
