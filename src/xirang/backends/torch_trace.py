"""What an exported program does, node by node: what is a view, what is written, what is new.

PyTorch's words do not say it: `reshape`, `to` and `dropout` give a view at one time and a copy at
another. So the graph is run once, at a small shape, and the memory of each value is looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any


class Unplannable(Exception):
    """A program cannot be run from a plan, and why."""


class Kind(Enum):
    """What a value is."""

    SIZE = auto()
    """A number that follows from the shapes of the inputs."""
    WEIGHT = auto()
    """A tensor that belongs to the program, or a view of one."""
    INPUT = auto()
    """A tensor that comes with a run, or a view of one."""
    MADE = auto()
    """A tensor, or several, that a run makes, or a view of one."""
    NOTHING = auto()
    """An assertion about shapes and types: those of the inputs are checked."""


@dataclass(slots=True, eq=False)
class Value:
    """One node of the graph.

    Attributes:
        node: Of PyTorch's graph.
        kind: What it is.
        root: The value whose memory it lies in; itself if it is new.
        writes: Whether its operation writes into memory that is there already.
        is_as_told: Whether it is one tensor, and lies as the graph says.
        tensor: What it was in the run that was looked at: a tensor, several, or a number.
    """

    node: Any
    kind: Kind
    root: "Value"
    writes: bool = False
    is_as_told: bool = False
    tensor: Any = None

    @property
    def is_new(self) -> bool:
        """Whether the run takes memory for it."""
        return self.kind is Kind.MADE and self.root is self


@dataclass(slots=True, eq=False)
class Trace:
    """A program, looked at.

    Attributes:
        values: Of all nodes, in order.
        inputs: Those that come with a run, by name, in order.
        outputs: Those that it gives.
        guards: Takes the inputs; raises if the program was not made for their shapes.
        symbols: Symbols of sizes to the smallest and largest that they may have.
    """

    values: dict[Any, Value] = field(default_factory=dict)
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: list[Value] = field(default_factory=list)
    guards: Any = None
    symbols: dict[Any, tuple[int, float]] = field(default_factory=dict)


_CHECKS = ("_assert", "sym_constrain", "aten._assert")


def trace(exported: Any, tensors: Mapping[str, Any]) -> Trace:
    """Run an exported program and look at the memory of each value.

    Args:
        exported: The program.
        tensors: Its inputs by name, in its own order; no axis that may vary of size 1.

    Raises:
        Unplannable: It does something that a plan does not know.
    """
    module = exported.module()
    nodes = exported.graph_signature.user_inputs
    if len(nodes) != len(tensors):
        raise Unplannable(f"it takes {len(nodes)} inputs, not just {list(tensors)}")
    found = Trace(guards=getattr(module, "_guards_fn", None), symbols=_symbols(exported))
    watch = _Watch(
        found, _weights(exported, module), dict(zip(nodes, tensors.items(), strict=True))
    )
    for node in exported.graph.nodes:
        if node.op == "output":
            found.outputs = [_output(found, each) for each in node.args[0]]
        else:
            found.values[node] = watch.value(node)
    return found


def _output(found: Trace, node: Any) -> Value:
    value = found.values.get(node)
    if value is None or value.kind in {Kind.SIZE, Kind.NOTHING}:
        raise Unplannable(f"its output {node} is no tensor")
    return value


def _symbols(exported: Any) -> dict[Any, tuple[int, float]]:
    return {
        symbol: (int(span.lower), int(span.upper) if span.upper.is_Integer else float("inf"))
        for symbol, span in exported.range_constraints.items()
    }


def _weights(exported: Any, module: Any) -> dict[str, Any]:
    """The program's own tensors by the names of their nodes; those that the module runs with."""
    signature = exported.graph_signature
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    named |= signature.inputs_to_lifted_tensor_constants
    tensors = {**exported.constants, **exported.state_dict, **own}
    return {node: tensors[name].detach() for node, name in named.items()}


class _Watch:
    """Runs one node after another."""

    def __init__(
        self, found: Trace, weights: Mapping[str, Any], tensors: Mapping[str, tuple[str, Any]]
    ) -> None:
        self._found = found
        self._weights = weights
        self._tensors = tensors
        self._owners: dict[int, Value] = {}
        self._sizes: dict[Any, int] = {}

    def value(self, node: Any) -> Value:
        if node.op == "placeholder":
            return self._given(node)
        if node.op != "call_function":
            raise Unplannable(f"it has a node of kind {node.op}")
        if any(word in str(node.target) for word in _CHECKS):
            return _alone(node, Kind.NOTHING, None)
        if not _is_tensor(node.meta.get("val")):
            return self._size(node)
        return self._made(node)

    def _given(self, node: Any) -> Value:
        name = node.name
        if name in self._weights:
            value = _alone(node, Kind.WEIGHT, self._weights[name])
        elif name in self._tensors:
            known, tensor = self._tensors[name]
            value = self._found.inputs[known] = _alone(node, Kind.INPUT, tensor)
            dims = [formula_of(size) for size in node.meta["val"].shape]
            self._sizes |= dict(zip(dims, tensor.shape, strict=True))
        else:
            raise Unplannable(f"it takes {name}, which is neither an input nor a weight")
        self._owners.setdefault(_memory(value.tensor), value)
        return value

    def _size(self, node: Any) -> Value:
        if not _has_name(node.target) and not callable(node.target):
            raise Unplannable(f"it calls {node.target}")
        if node.meta.get("val") is None:
            raise Unplannable(f"it calls {node.target}, which gives nothing that could be planned")
        return _alone(node, Kind.SIZE, self._run(node))

    def _made(self, node: Any) -> Value:
        schema = getattr(node.target, "_schema", None)
        if schema is None and node.target.__name__ != "getitem":
            raise Unplannable(f"it calls {node.target}, whose effects are not known")
        result = self._run(node)
        written = [self._found.values[each].root for each in written_by(node)]
        if any(root.kind is not Kind.MADE for root in written):
            raise Unplannable(f"it writes into its own state, by {node.target}")
        addresses = {_memory(tensor) for tensor in _each(result)}
        roots = {id(root): root for at in addresses if (root := self._owners.get(at))}
        if len(roots) > 1 or (roots and len(addresses) > 1):
            raise Unplannable(f"{node.target} gives views of several tensors")
        if roots:
            (root,) = roots.values()
            return Value(node, root.kind, root, bool(written), tensor=result)
        value = _alone(node, Kind.MADE, result)
        value.is_as_told = self._is_as_told(node.meta["val"], result)
        value.writes = bool(written)
        self._owners |= dict.fromkeys(addresses, value)
        return value

    def _is_as_told(self, told: Any, result: Any) -> bool:
        if isinstance(told, list | tuple):
            return False
        strides = [formula_of(stride) for stride in told.stride()]
        known = [each.subs(self._sizes) if hasattr(each, "subs") else each for each in strides]
        if any(getattr(each, "free_symbols", ()) for each in known):
            raise Unplannable("its shapes depend on its data")
        return [int(each) for each in known] == list(result.stride())

    def _run(self, node: Any) -> Any:
        values = self._found.values
        arguments = _replaced(node.args, values)
        options = {name: _replaced(each, values) for name, each in node.kwargs.items()}
        try:
            return node.target(*arguments, **options)
        except Exception as error:  # whatever a node provokes
            raise Unplannable(f"{node.target} fails outside of its program: {error}") from error


def written_by(node: Any) -> list[Any]:
    """The nodes into whose memory an operation writes."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = dict(zip([a.name for a in schema.arguments], node.args, strict=False)) | node.kwargs
    names = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    return [each for name in names for each in nodes_in(given.get(name))]


def nodes_in(argument: Any) -> Iterator[Any]:
    """The nodes in an argument, however deep."""
    if hasattr(argument, "op"):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from nodes_in(each)


def formula_of(size: Any) -> Any:
    """A size as a formula of PyTorch's symbols, or a number."""
    return size.node.expr if hasattr(size, "node") else size


def _alone(node: Any, kind: Kind, tensor: Any) -> Value:
    value = Value(node, kind, None, tensor=tensor)  # type: ignore[arg-type]
    value.root = value
    return value


def _replaced(argument: Any, values: Mapping[Any, Value]) -> Any:
    if hasattr(argument, "op"):
        return values[argument].tensor
    if isinstance(argument, list | tuple):
        return [_replaced(each, values) for each in argument]
    return argument


def _is_tensor(value: Any) -> bool:
    import torch

    many = value if isinstance(value, list | tuple) else [value]
    return bool(many) and all(isinstance(each, torch.Tensor) for each in many)


def _each(result: Any) -> Sequence[Any]:
    return result if isinstance(result, list | tuple) else (result,)


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _has_name(target: Any) -> bool:
    return hasattr(target, "__name__")
