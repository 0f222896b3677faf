"""Computes in slices what is wide and soon reduced, so that it is never there as a whole.

A head that scores a whole vocabulary at each position and keeps the best score has most of a
model's memory in one tensor. Its columns know nothing of each other: the product with a constant,
what is done element by element, and the reduction over positions are the same for a slice of them.
So the graph is made to do them slice by slice and to put the results side by side: the same
operations on the same numbers. That a kernel adds in the same order however wide a matrix is cannot
be read off the graph: whoever uses the result has to run it against the original.
"""

import mmap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

COLUMNS_MIN = 8192
"""A product of fewer columns is no trouble."""

COLUMNS = 2048
"""Of a slice, whole lines of the cache: more and it is the largest tensor again, fewer and calls of
kernels cost time.
"""

ALONE = frozenset(
    {
        *("Abs", "Cast", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "Identity", "Log"),
        *("LeakyRelu", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sign", "Softplus"),
        *("Sqrt", "Tanh"),
    }
)
TOGETHER = frozenset(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Where"))
"""Element by element, of one tensor and of several."""

REDUCTIONS = frozenset(f"Reduce{kind}" for kind in ("Max", "Min", "Mean", "Sum", "L1", "L2"))


def sliced(source: Path, target: Path) -> bool:
    """Write a graph that does the same in slices; false if nothing in it is as wide as that.

    Args:
        source: An ONNX file.
        target: Where to write.
    """
    if not _may_reduce(source):
        return False
    try:
        import onnx
    except ImportError:
        return False
    model = onnx.load(str(source))
    graph = _Graph(model.graph)
    if not any(graph.is_wide(node) for node in model.graph.node):
        return False
    graph.look_at(onnx.shape_inference.infer_shapes(model).graph)
    chains = [chain for node in model.graph.node if (chain := graph.chain(node)) is not None]
    if not chains:
        return False
    for number, chain in enumerate(chains):
        graph.replace(chain, f"sliced_{number}")
    graph.tidy()
    onnx.save(model, str(target))
    return True


def _may_reduce(source: Path) -> bool:
    with source.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return any(data.find(kind.encode()) >= 0 for kind in REDUCTIONS)


@dataclass(frozen=True, slots=True)
class Chain:
    """A wide product, and what is made of it.

    Attributes:
        product: The node that multiplies.
        steps: Nodes that go element by element, in order.
        reduction: The node that leaves one value for each column.
        columns: How many there are.
    """

    product: Any
    steps: tuple[Any, ...]
    reduction: Any
    columns: int


class _Graph:
    """A graph that chains are looked for in, and cut out of."""

    def __init__(self, graph: Any) -> None:
        from onnx import numpy_helper

        self._graph = graph
        self._array = numpy_helper.to_array
        self._held = {tensor.name: tensor for tensor in graph.initializer}
        self._held |= {
            node.output[0]: attribute.t
            for node in graph.node
            if node.op_type == "Constant"
            for attribute in node.attribute
            if attribute.name == "value"
        }
        self._maker = {name: node for node in graph.node for name in node.output}
        self._uses = Counter(name for node in graph.node for name in _named(node))
        self._uses.update(output.name for output in graph.output)
        self._shapes: dict[str, list[int | None]] = {}

    def look_at(self, inferred: Any) -> None:
        """Take the shapes that follow from the graph."""
        for value in (*inferred.value_info, *inferred.output, *inferred.input):
            if value.type.tensor_type.HasField("shape"):
                dims = value.type.tensor_type.shape.dim
                self._shapes[value.name] = [
                    dim.dim_value if dim.HasField("dim_value") else None for dim in dims
                ]
        self._shapes |= {name: list(tensor.dims) for name, tensor in self._held.items()}

    def is_wide(self, node: Any) -> bool:
        """Whether it multiplies with a constant of very many columns."""
        return node.op_type == "MatMul" and (self._columns_of(node) or 0) >= COLUMNS_MIN

    def chain(self, reduction: Any) -> Chain | None:
        """What ends with a reduction; None if that is not what is looked for."""
        columns = self._kept_columns(reduction)
        if columns is None:
            return None
        steps: list[Any] = []
        name = reduction.input[0]
        while (node := self._maker.get(name)) is not None and self._uses[name] == 1:
            if self.is_wide(node):
                is_whole = self._columns_of(node) == columns
                return Chain(node, tuple(reversed(steps)), reduction, columns) if is_whole else None
            following = self._through(node, columns)
            if following is None:
                return None
            steps.append(node)
            name = following
        return None

    def _kept_columns(self, node: Any) -> int | None:
        """Columns that a reduction leaves apart."""
        if node.op_type not in REDUCTIONS:
            return None
        shape = self._shapes.get(node.input[0])
        axes = self._axes(node)
        if not shape or not axes or any(axis % len(shape) == len(shape) - 1 for axis in axes):
            return None
        return shape[-1]

    def _axes(self, node: Any) -> Sequence[int]:
        """Over which it goes; none where that is not told, or is all."""
        for attribute in node.attribute:
            if attribute.name == "axes":
                return list(attribute.ints)
        held = self._held.get(node.input[1]) if len(node.input) > 1 else None
        return [] if held is None else self._array(held).reshape(-1).tolist()

    def _through(self, node: Any, columns: int) -> str | None:
        """The one input of a step that has all the columns, if others allow slices."""
        if node.op_type not in ALONE | TOGETHER or len(node.output) != 1:
            return None
        data = node.input if node.op_type in TOGETHER else node.input[:1]
        whole = [name for name in data if name not in self._held and self._last(name) == columns]
        others = [name for name in data if name not in whole]
        is_plain = all(
            self._last(name) == 1 or (name in self._held and self._last(name) == columns)
            for name in others
        )
        return whole[0] if len(whole) == 1 and is_plain else None

    def _last(self, name: str) -> int | None:
        """How many columns a tensor has, 1 for a number; None if that is not known."""
        shape = self._shapes.get(name)
        return None if shape is None else shape[-1] if shape else 1

    def _columns_of(self, node: Any) -> int | None:
        return None if (array := self._factor(node)) is None else array[0]

    def _factor(self, node: Any) -> tuple[int, Any, bool] | None:
        """Columns of the constant that is multiplied with, its tensor, and whether it is turned."""
        name = node.input[1]
        maker = self._maker.get(name)
        is_turned = maker is not None and maker.op_type == "Transpose"
        if is_turned:
            assert maker is not None
            name = maker.input[0]
        held = self._held.get(name)
        if held is None or len(held.dims) != 2:
            return None
        return held.dims[0 if is_turned else 1], held, is_turned

    # ------------------------------------------------------------------ cutting

    def replace(self, chain: Chain, prefix: str) -> None:
        """Put slices in the place of a chain."""
        from onnx import helper

        nodes = self._graph.node
        gone = [*chain.steps, chain.product, chain.reduction]
        place = list(nodes).index(chain.reduction)
        fresh: list[Any] = []
        parts: list[str] = []
        edges = [*range(0, chain.columns, COLUMNS), chain.columns]
        for number, (begin, end) in enumerate(pairwise(edges)):
            made = list(self._slice(chain, f"{prefix}_{number}", begin, end))
            fresh += made
            parts.append(made[-1].output[0])
        joined = helper.make_node("Concat", parts, [chain.reduction.output[0]], prefix, axis=-1)
        kept = [*list(nodes)[:place], *fresh, joined, *list(nodes)[place:]]
        del nodes[:]
        nodes.extend(node for node in kept if not any(node is one for one in gone))

    def _slice(self, chain: Chain, prefix: str, begin: int, end: int) -> Iterator[Any]:
        """The nodes that make some of the columns."""
        from onnx import NodeProto

        factor = self._factor(chain.product)
        assert factor is not None
        _, held, is_turned = factor
        array = self._array(held)
        own = {chain.product.input[1]: f"{prefix}_factor"}
        part = array[begin:end].T if is_turned else array[:, begin:end]
        self._hold(f"{prefix}_factor", part)
        for step, node in enumerate((chain.product, *chain.steps, chain.reduction)):
            made = NodeProto()
            made.CopyFrom(node)
            made.name = f"{prefix}_{step}"
            for index, name in enumerate(node.input):
                if name not in own and node is not chain.reduction:
                    self._share(own, name, chain.columns, f"{prefix}_{step}_{index}", begin, end)
                made.input[index] = own.get(name, name)
            made.output[0] = own[node.output[0]] = f"{prefix}_{step}_out"
            yield made

    def _share(
        self, own: dict[str, str], name: str, columns: int, new: str, begin: int, end: int
    ) -> None:
        """A constant of all the columns has a slice too."""
        held = self._held.get(name)
        if held is not None and held.dims and held.dims[-1] == columns:
            own[name] = new
            self._hold(new, self._array(held)[..., begin:end])

    def _hold(self, name: str, array: Any) -> None:
        from onnx import numpy_helper

        self._graph.initializer.append(numpy_helper.from_array(array.copy(order="C"), name))

    def tidy(self) -> None:
        """Leave out what nobody needs any more."""
        graph = self._graph
        del graph.value_info[:]
        while True:
            needed = {name for node in graph.node for name in _named(node)}
            needed |= {output.name for output in graph.output}
            kept = [node for node in graph.node if any(name in needed for name in node.output)]
            if len(kept) == len(graph.node):
                break
            del graph.node[:]
            graph.node.extend(kept)
        held = [tensor for tensor in graph.initializer if tensor.name in needed]
        del graph.initializer[:]
        graph.initializer.extend(held)


def _named(node: Any) -> Iterator[str]:
    """What a node uses, inside of it too."""
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _named(inner)
            yield from (output.name for output in graph.output)
