"""Tiny ONNX models authored in code: nothing to download, every number known."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = [helper.make_opsetid("", 17)]


def save(path: Path, graph) -> Path:
    model = helper.make_model(graph, opset_imports=OPSET, ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def mlp(path: Path, *, sizes=(64, 256, 256, 10), seed=0) -> Path:
    """x[batch, 64] float32 → y[batch, 10] float32."""
    rng = np.random.default_rng(seed)
    nodes, weights, name = [], [], "x"
    for i, (n, m) in enumerate(pairwise(sizes)):
        weight = (rng.standard_normal((n, m)) / np.sqrt(n)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        last = i == len(sizes) - 2
        out = "y" if last else f"h{i}"
        nodes.append(helper.make_node("MatMul", [name, f"w{i}"], ["y" if last else f"m{i}"]))
        if not last:
            nodes.append(helper.make_node("Relu", [f"m{i}"], [out]))
        name = out
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", sizes[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", sizes[-1]])
    return save(path, helper.make_graph(nodes, "mlp", [x], [y], weights))


def add_sub(path: Path, *, size=16) -> Path:
    """INPUT0, INPUT1 int32 [batch, 16] → OUTPUT0 their sum, OUTPUT1 their difference."""
    names = ("INPUT0", "INPUT1", "OUTPUT0", "OUTPUT1")
    infos = [helper.make_tensor_value_info(n, TensorProto.INT32, ["batch", size]) for n in names]
    nodes = [
        helper.make_node("Add", names[:2], names[2:3]),
        helper.make_node("Sub", names[:2], names[3:]),
    ]
    return save(path, helper.make_graph(nodes, "add_sub", infos[:2], infos[2:]))


def masked_double(path: Path) -> Path:
    """ids, mask int64 [batch, length] → doubled [batch, length]; total [batch]: padding-neutral."""
    ids, mask = (
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"])
        for n in ("ids", "attention_mask")
    )
    doubled = helper.make_tensor_value_info("doubled", TensorProto.INT64, ["batch", "length"])
    total = helper.make_tensor_value_info("total", TensorProto.INT64, ["batch", 1])
    two = numpy_helper.from_array(np.array(2, np.int64), "two")
    one = numpy_helper.from_array(np.array([1], np.int64), "axes")
    nodes = [
        helper.make_node("Mul", ["ids", "attention_mask"], ["kept"]),
        helper.make_node("Mul", ["kept", "two"], ["doubled"]),
        helper.make_node("ReduceSum", ["kept", "axes"], ["total"], keepdims=1),
    ]
    graph = helper.make_graph(nodes, "masked", [ids, mask], [doubled, total], [two, one])
    return save(path, graph)


def unmasked_mean(path: Path) -> Path:
    """x[batch, length] float32 → its mean over the length: padding changes the answer."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("mean", TensorProto.FLOAT, ["batch", 1])
    node = helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=1)
    return save(path, helper.make_graph([node], "mean", [x], [y]))


def softmax_over_batch(path: Path) -> Path:
    """x[batch, 4] float32 → softmax along the batch: each row changes all others."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    node = helper.make_node("Softmax", ["x"], ["y"], axis=0)
    return save(path, helper.make_graph([node], "softmax", [x], [y]))


def batch_of_one(path: Path) -> Path:
    """x[1, 4] float32 → its double: the batch is baked to one."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    return save(
        path, helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "one", [x], [y])
    )


def quantised_per_run(path: Path, *, seed=0) -> Path:
    """x[batch, 8] float32 → y[batch, 4]: one scale for the whole run, so rows change each other."""
    rng = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(rng.integers(-127, 127, (8, 4)).astype(np.int8), "w"),
        numpy_helper.from_array(np.array(0, np.int8), "w_zero"),
        numpy_helper.from_array(np.array(0.01, np.float32), "w_scale"),
    ]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "q_zero", "w_zero"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["q_scale", "w_scale"], ["scale"]),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    return save(path, helper.make_graph(nodes, "quantised", [x], [y], weights))


def reversed_rows(path: Path) -> Path:
    """x[batch, length] float32 → the row backwards: padding would come first."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "length"])
    names = {"start": -1, "end": np.iinfo(np.int64).min, "axis": 1, "step": -1}
    weights = [numpy_helper.from_array(np.array([v], np.int64), n) for n, v in names.items()]
    node = helper.make_node("Slice", ["x", *names], ["y"])
    return save(path, helper.make_graph([node], "reversed", [x], [y], weights))


def doubled_length(path: Path) -> Path:
    """x[batch, length] float32 → [batch, 2·length]: no axis to cut padding from."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "twice"])
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=1)
    return save(path, helper.make_graph([node], "doubled", [x], [y]))


def length_first(path: Path) -> Path:
    """x[batch, length] float32 → its transpose: axis 0 of the output is not the batch."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["length", "batch"])
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
    return save(path, helper.make_graph([node], "transposed", [x], [y]))


def sum_over_batch(path: Path) -> Path:
    """x[batch, 4] float32 → one row for all: what belongs to whom cannot be told."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    axis = numpy_helper.from_array(np.array([0], np.int64), "axes")
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)
    return save(path, helper.make_graph([node], "sum", [x], [y], [axis]))


def same_words(path: Path) -> Path:
    """s[batch, 1] strings → the same."""
    s = helper.make_tensor_value_info("s", TensorProto.STRING, ["batch", 1])
    t = helper.make_tensor_value_info("t", TensorProto.STRING, ["batch", 1])
    return save(
        path, helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "words", [s], [t])
    )


def hidden_states(path: Path, *, vocabulary=30_522, dimension=8, seed=0) -> Path:
    """ids, mask int64 [batch, tokens] → a row of a table for each token."""
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((vocabulary, dimension)).astype(np.float32)
    ids, mask = (
        helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "tokens"])
        for n in ("input_ids", "attention_mask")
    )
    hidden = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", dimension]
    )
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    weights = [numpy_helper.from_array(table, "table")]
    return save(path, helper.make_graph([node], "hidden", [ids, mask], [hidden], weights))
