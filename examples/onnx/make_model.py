"""Writes a tiny ONNX model: y = relu(x · w), rows of 4 to rows of 2.

python examples/onnx/make_model.py tiny.onnx
xirang serve tiny.onnx
python examples/onnx/client.py      # in another terminal
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

path = sys.argv[1] if len(sys.argv) > 1 else "tiny.onnx"
weights = np.array([[1, 0], [0, 1], [-1, 1], [2, -2]], np.float32)

graph = helper.make_graph(
    [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ],
    "tiny",
    # The first axis has a name and no size: xirang stacks the rows of many requests along it.
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
    [numpy_helper.from_array(weights, "w")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, path)
print(f"wrote {path}")
