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


def pictures(path, *, channels=8, seed=0):
    """x float [batch, 3, height, width] → y [batch, channels]: strides, then all places by all."""
    dice = np.random.default_rng(seed)
    weights, nodes = [], []

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    x = "x"
    for step, (before, stride) in enumerate([(3, 2), (channels, 3), (channels, 2)]):
        kernel = dice.standard_normal((channels, before, 3, 3), np.float32) / 9
        weights.append(constant(f"w{step}", kernel))
        x = node(
            *("Conv", [x, f"w{step}"], f"c{step}"),
            kernel_shape=[3, 3],
            pads=[1, 1, 1, 1],
            strides=[stride, stride],
        )
        x = node("Tanh", [x], f"t{step}")
    weights.append(constant("places", np.array([0, channels, -1], np.int64)))
    x = node("Reshape", [x, "places"], "flat")
    turned = node("Transpose", [x], "turned", perm=[0, 2, 1])
    scores = node("Softmax", [node("MatMul", [turned, x], "scores")], "shares", axis=-1)
    mixed = node("MatMul", [scores, turned], "mixed")
    node("ReduceMean", [mixed], "y", axes=[1], keepdims=0)
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", 3, "height", "width"])
    y = helper.make_tensor_value_info("y", FLOAT, ["batch", channels])
    return save(path, helper.make_graph(nodes, "pictures", [x], [y], weights))


def translator(path, *, width=32, seed=0):
    """source, target int64 [batch, its length] → hidden [batch, target, width]: each by each."""
    dice = np.random.default_rng(seed)
    weights = [constant("table", dice.standard_normal((100, width), np.float32) / 4)]
    weights.append(constant("wide", dice.standard_normal((width, 4 * width), np.float32) / 4))
    weights.append(constant("narrow", dice.standard_normal((4 * width, width), np.float32) / 4))
    nodes = [
        helper.make_node("Gather", ["table", "source"], ["s"]),
        helper.make_node("Gather", ["table", "target"], ["t"]),
        helper.make_node("Transpose", ["s"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "turned"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "s"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "wide"], ["grown"]),
        helper.make_node("Erf", ["grown"], ["bent"]),
        helper.make_node("MatMul", ["bent", "narrow"], ["hidden"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, INT64, ["batch", name]) for name in ("source", "target")
    ]
    hidden = helper.make_tensor_value_info("hidden", FLOAT, ["batch", "target", width])
    return save(path, helper.make_graph(nodes, "translator", inputs, [hidden], weights))


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
