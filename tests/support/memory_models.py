"""ONNX models whose memory is of interest: an encoder, one that drops its mask, one with counts."""

import numpy as np
from onnx import TensorProto, helper

from tests.support.models import save

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


def encoder(path, *, width=32, layers=2, seed=0):
    """ids, mask int64 [batch, length] → hidden [batch, length, width]: attention without heads."""
    dice = np.random.default_rng(seed)
    weights, nodes = [constant("table", dice.standard_normal((100, width), np.float32) / 4)], []

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def times(x, name):
        weights.append(constant(name, dice.standard_normal((width, width), np.float32) / width))
        return node("MatMul", [x, name], f"{name}_out")

    x = node("Gather", ["table", "ids"], "x")
    weights += [constant("one", np.float32(1)), constant("far", np.float32(-1e4))]
    weights.append(constant("axis", np.array([1], np.int64)))
    real = node("Cast", ["mask"], "real", to=FLOAT)
    bias = node(
        "Unsqueeze", [node("Mul", [node("Sub", ["one", real], "gone"), "far"], "b"), "axis"], "bias"
    )
    for layer in range(layers):
        q, k, v = (times(x, f"{kind}{layer}") for kind in "qkv")
        k = node("Transpose", [k], f"kt{layer}", perm=[0, 2, 1])
        scores = node("Add", [node("MatMul", [q, k], f"s{layer}"), bias], f"sb{layer}")
        mixed = node("MatMul", [node("Softmax", [scores], f"p{layer}", axis=-1), v], f"m{layer}")
        x = node("Add", [x, node("Tanh", [times(mixed, f"o{layer}")], f"t{layer}")], f"x{layer}")
    node("Identity", [x], "hidden")
    inputs = [helper.make_tensor_value_info(n, INT64, ["batch", "length"]) for n in ("ids", "mask")]
    hidden = helper.make_tensor_value_info("hidden", FLOAT, ["batch", "length", width])
    return save(path, helper.make_graph(nodes, "encoder", inputs, [hidden], weights))


def dropping_mask(path, *, width=32):
    """x float [batch, length, width], mask int64 [batch, length] → y; a mask of ones is skipped."""
    then = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y_then"])],
        "then",
        [],
        [helper.make_tensor_value_info("y_then", FLOAT, ["batch", "length", width])],
    )
    otherwise = helper.make_graph(
        [
            helper.make_node("Cast", ["mask"], ["real"], to=FLOAT),
            helper.make_node("Unsqueeze", ["real", "last"], ["wide"]),
            helper.make_node("Mul", ["x", "wide"], ["masked"]),
            helper.make_node("Exp", ["masked"], ["high"]),
            helper.make_node("Add", ["masked", "high"], ["sum"]),
            helper.make_node("Sub", ["sum", "high"], ["same"]),
            helper.make_node("Add", ["same", "masked"], ["y_else"]),
        ],
        "else",
        [],
        [helper.make_tensor_value_info("y_else", FLOAT, ["batch", "length", width])],
    )
    nodes = [
        helper.make_node("ReduceMin", ["mask"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["all"], to=BOOL),
        helper.make_node("If", ["all"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", "length", width])
    mask = helper.make_tensor_value_info("mask", INT64, ["batch", "length"])
    y = helper.make_tensor_value_info("y", FLOAT, ["batch", "length", width])
    last = constant("last", np.array([2], np.int64))
    return save(path, helper.make_graph(nodes, "dropping", [x, mask], [y], [last]))


def wide_head(path, *, vocabulary=8192):
    """ids int64 [batch, length] → scores float [batch, length, vocabulary]: one huge output."""
    table = constant("table", np.arange(100 * 8, dtype=np.float32).reshape(100, 8) / 800)
    head = constant("head", np.ones((8, vocabulary), np.float32))
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("MatMul", ["x", "head"], ["scores"]),
    ]
    ids = helper.make_tensor_value_info("ids", INT64, ["batch", "length"])
    scores = helper.make_tensor_value_info("scores", FLOAT, ["batch", "length", vocabulary])
    return save(path, helper.make_graph(nodes, "wide", [ids], [scores], [table, head]))


def counted(path):
    """x float [batch, length] → how many are not 0, and where: as large as the data says."""
    nodes = [helper.make_node("NonZero", ["x"], ["where"])]
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", "length"])
    where = helper.make_tensor_value_info("where", INT64, [2, "count"])
    return save(path, helper.make_graph(nodes, "counted", [x], [where]))


def constant(name, array):
    kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
    return helper.make_tensor(name, kind, np.shape(array), np.asarray(array).tobytes(), raw=True)
