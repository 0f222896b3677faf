"""Free the batch of an ONNX graph in which it is baked to 1.

Inputs and outputs whose first dim is 1 get a symbol there, constants that reshape to [1, …] get
"as many as there are", and inferred shapes inside the graph are dropped, since they say 1 too.
What means the batch and what happens to be 1 cannot be told for sure: whoever uses the result has
to run it against the original.
"""

from pathlib import Path
from typing import Any

from xirang.errors import InvalidSetting

BATCH = "batch"


def free_batch(source: Path, target: Path) -> None:
    """Write a graph that takes any number of rows.

    Args:
        source: An ONNX file whose inputs have 1 as their first dim.
        target: Where to write.

    Raises:
        InvalidSetting: The package onnx is not installed, or the graph has no such batch.
    """
    try:
        import onnx
    except ImportError as error:
        raise InvalidSetting(f"to rewrite {source} the package onnx is needed") from error
    model = onnx.load(str(source))
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if not inputs or not all(_starts_with_one(value) for value in inputs):
        raise InvalidSetting(f"{source} has an input whose first dim is not 1; expected 1 for all")
    for value in [*inputs, *filter(_starts_with_one, graph.output)]:
        value.type.tensor_type.shape.dim[0].dim_param = BATCH
    del graph.value_info[:]
    _free_reshapes(graph)
    onnx.save(model, str(target))


def _starts_with_one(value: Any) -> bool:
    dims = value.type.tensor_type.shape.dim
    return bool(dims) and dims[0].HasField("dim_value") and dims[0].dim_value == 1


def _free_reshapes(graph: Any) -> None:
    """In every constant that a Reshape goes by, a leading 1 becomes the input's own."""
    from onnx import helper, numpy_helper

    held = {tensor.name: tensor for tensor in graph.initializer}
    held |= {
        node.output[0]: attribute.t
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    }
    for index, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.input[1] not in held:
            continue
        sizes = numpy_helper.to_array(held[node.input[1]]).tolist()
        if not sizes or sizes[0] != 1:
            continue
        # 0 copies the input's first dim, -1 takes what is left: it is the batch if the others
        # are known. A constant may serve other nodes too, so each Reshape gets one of its own.
        sizes[0] = 0 if -1 in sizes else -1
        name = f"{node.input[1]}_batch_{index}"
        graph.initializer.append(helper.make_tensor(name, 7, [len(sizes)], sizes))
        node.input[1] = name
