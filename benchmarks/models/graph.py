"""Writes ONNX graphs node by node."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 20


class Graph:
    """Nodes and constants in the making; every node's result has a name of its own."""

    def __init__(self) -> None:
        self._nodes = []
        self._constants = {}

    def constant(self, values, dtype=np.float32) -> str:
        """Values that come along with the graph."""
        name = f"constant_{len(self._constants)}"
        self._constants[name] = numpy_helper.from_array(np.asarray(values, dtype), name)
        return name

    def node(self, kind: str, *inputs: str, result: str = "", **attributes) -> str:
        """One more node; its first result's name."""
        name = result or f"value_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def save(self, path: Path, inputs: Sequence, outputs: Sequence) -> None:
        """Check and write the graph; inputs and outputs are (name, type, dims)."""
        graph = helper.make_graph(
            self._nodes,
            path.parent.name,
            [helper.make_tensor_value_info(*each) for each in inputs],
            [helper.make_tensor_value_info(*each) for each in outputs],
            initializer=list(self._constants.values()),
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10  # the oldest that knows this opset: older runtimes read it too
        onnx.checker.check_model(model)
        onnx.save(model, path)
