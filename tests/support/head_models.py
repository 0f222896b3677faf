"""ONNX models with heads of very many columns, of which little is kept."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.memory_models import constant

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WIDE, WIDTH = 9000, 16


def head(path, *, steps=(), reduce="ReduceMax", axis=1, opset=17, is_turned=False, shown=()):
    """ids, mask int64 [batch, length] → best float [batch, columns] of a wide product.

    Args:
        path: Where to write.
        steps: Kinds of nodes between product and reduction; a pair has a second input.
        reduce: The reduction.
        axis: Over which it goes.
        opset: Reductions had their axes as an attribute before 18.
        is_turned: Whether the matrix is the turned table of the tokens.
        shown: Names of further outputs.
    """
    dice = np.random.default_rng(0)
    table = dice.standard_normal((WIDE if is_turned else 100, WIDTH), np.float32)
    held = [
        constant("table", table),
        constant("bias", dice.standard_normal(WIDE, np.float32)),
        constant("one", np.float32(1)),
        constant("last", np.array([2], np.int64)),
        constant("axes", np.array([axis], np.int64)),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["x"]),
        helper.make_node("Cast", ["mask"], ["real"], to=FLOAT),
        helper.make_node("Unsqueeze", ["real", "last"], ["seen"]),
    ]
    if is_turned:
        nodes.append(helper.make_node("Transpose", ["table"], ["factor"], perm=[1, 0]))
    else:
        held.append(constant("factor", dice.standard_normal((WIDTH, WIDE), np.float32)))
    nodes.append(helper.make_node("MatMul", ["x", "factor"], ["product"]))
    name = "product"
    for number, step in enumerate(steps):
        kind, *others = (step,) if isinstance(step, str) else step
        nodes.append(helper.make_node(kind, [name, *others], [f"step{number}"]))
        name = f"step{number}"
    told = {"axes": [axis]} if opset < 18 and reduce != "ReduceSum" else {}
    inputs = [name] if told else [name, "axes"]
    nodes.append(helper.make_node(reduce, inputs, ["best"], keepdims=0, **told))
    graph = helper.make_graph(
        nodes,
        "head",
        [helper.make_tensor_value_info(n, INT64, ["batch", "length"]) for n in ("ids", "mask")],
        [
            helper.make_tensor_value_info("best", FLOAT, [None, None]),
            *[helper.make_tensor_value_info(n, FLOAT, [None, None, WIDE]) for n in shown],
        ],
        held,
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made)
    onnx.save(made, path)
    return path


def splade(path, **options):
    """As SPLADE has it."""
    steps = (("Add", "bias"), "Relu", ("Add", "one"), "Log", ("Mul", "seen"))
    return head(path, steps=steps, **options)
