"""TorchScript that needs less memory: activations are written over what they were made from.

PyTorch's own pass of this kind trusts schemas, which call `dropout` new memory; and in a loop it
would write over the same tensor twice. Here both have to be made in one block, by operations that
are known, and nobody else may look at what is overwritten.
"""

from typing import Any

ACTIVATIONS = frozenset(
    f"aten::{name}"
    for name in ("relu", "relu6", "gelu", "silu", "mish", "elu", "leaky_relu", "hardswish")
)
"""They keep the type of their argument, and compute in place what they compute apart."""

MAKERS = frozenset(
    f"aten::{name}"
    for name in (
        *("linear", "addmm", "mm", "matmul", "bmm", "baddbmm", "add", "sub", "mul"),
        *("conv1d", "conv2d", "conv3d", "_convolution", "conv_transpose1d", "conv_transpose2d"),
        *("batch_norm", "layer_norm", "group_norm", "instance_norm"),
    )
)
"""What they give is always new memory."""


def write_over(module: Any) -> int:
    """Rewrite a module that has not run yet; how many activations need no memory now."""
    import torch

    graph = module.graph
    torch._C._jit_pass_inline(graph)
    # Else `relu` stands in a branch: whether it shall be in place is an argument of its own.
    torch._C._jit_pass_constant_propagation_immutable_types(graph)
    return _rewritten(graph, graph)


def _rewritten(graph: Any, block: Any) -> int:
    count = 0
    made: set[str] = set()
    for node in list(block.nodes()):
        count += sum([_rewritten(graph, inner) for inner in node.blocks()])
        if node.kind() in MAKERS:
            made.add(node.output().debugName())
        elif node.kind() in ACTIVATIONS:
            given = next(node.inputs())
            if given.debugName() in made and len(given.uses()) == 1:
                _replace(graph, node)
                count += 1
    return count


def _replace(graph: Any, node: Any) -> None:
    inputs = list(node.inputs())
    written = graph.create(f"{node.kind()}_", inputs, 1)
    written.insertBefore(node)
    written.output().setType(node.output().type())
    node.output().replaceAllUsesWith(written.output())
    node.destroy()
