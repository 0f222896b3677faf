"""Whether a program keeps something from call to call, read off its graph.

Two threads may run a program at once if no operation writes into a weight, a buffer or an input.
"""

from collections.abc import Iterator
from typing import Any


def is_pure_graph(graph: Any) -> bool:
    """Whether an exported graph writes only into what it made itself."""
    return not any(
        _writes_outside(node) for node in graph.nodes if node.op == "call_function" and node.args
    )


def _writes_outside(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return False
    return any(
        argument.alias_info is not None
        and argument.alias_info.is_write
        and _comes_from_outside(value)
        for argument, value in zip(schema.arguments, node.args, strict=False)
    )


def _comes_from_outside(node: Any) -> bool:
    """Whether a value is an input or an attribute, or a view of one."""
    while getattr(node, "op", None) == "call_function" and node.args:
        schema = getattr(node.target, "_schema", None)
        if schema is None or not any(returned.alias_info for returned in schema.returns):
            return False
        node = node.args[0]
    return getattr(node, "op", None) in {"placeholder", "get_attr"}


def is_pure_script(graph: Any) -> bool:
    """The same of a TorchScript graph: no attribute is set, none is written in place."""
    return not any(_script_writes(node) for node in _nodes(graph))


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _script_writes(node: Any) -> bool:
    if node.kind() == "prim::SetAttr":
        return True
    is_in_place = node.kind().startswith("aten::") and node.kind().endswith("_")
    return is_in_place and _origin(node) in {"prim::GetAttr", "prim::Param"}


def _origin(node: Any) -> str:
    """What made the first input of an operation, looking through views."""
    views = {"aten::view", "aten::select", "aten::slice", "aten::transpose", "aten::reshape"}
    maker = next(node.inputs()).node()
    while maker.kind() in views:
        maker = next(maker.inputs()).node()
    return str(maker.kind())
