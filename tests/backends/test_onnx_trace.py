"""Lifetimes from ONNX Runtime's own allocator: who lives when, views, and what nodes need."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from xirang.backends.onnx_trace import trace
from xirang.errors import InvalidSetting

ROWS, WIDTH = 4, 64
BYTES = ROWS * WIDTH * 4


@pytest.fixture
def path(tmp_path):
    """x → exp → reshape → tanh → sin."""
    nodes = [
        helper.make_node("Exp", ["x"], ["a"], name="exp"),
        helper.make_node("Reshape", ["a", "flat"], ["b"], name="flatten"),
        helper.make_node("Tanh", ["b"], ["c"], name="tanh"),
        helper.make_node("Sin", ["c"], ["y"], name="sin"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("flat", TensorProto.INT64, [1], [-1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    save(model, tmp_path / "m.onnx")
    return Path(tmp_path / "m.onnx")


def feed(rows=ROWS):
    return {"x": np.ones((rows, WIDTH), np.float32)}


def test_tensors_live_from_who_makes_them_to_who_needs_them_last(path):
    (found,) = trace(path, [feed()])
    blocks = {
        name: (start, end, size)
        for name, start, end, size in zip(
            found.names,
            found.lifetimes.starts,
            found.lifetimes.ends,
            found.lifetimes.sizes_bytes,
            strict=True,
        )
        if size
    }
    # b is a view of a, which therefore lives until tanh has run.
    assert blocks == {"a": (0, 3, BYTES), "c": (2, 4, BYTES), "y": (3, 5, BYTES)}
    assert found.unexplained_bytes == 0


def test_the_bound_is_the_peak_that_the_arena_counted(path):
    for found, rows in zip(trace(path, [feed(4), feed(8)]), (4, 8), strict=True):
        assert found.lifetimes.bound_bytes == found.peak_bytes == 2 * rows * WIDTH * 4


def test_a_peak_below_an_earlier_one_is_not_known(path):
    _, hidden = trace(path, [feed(8), feed(4)])
    assert hidden.peak_bytes is None
    assert len(hidden.unseen) == 4


def test_what_is_no_model_is_told(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no")
    with pytest.raises(InvalidSetting, match="cannot be traced"):
        trace(tmp_path / "m.onnx", [feed()])


def test_what_the_model_refuses_is_told(path):
    with pytest.raises(InvalidSetting, match="cannot be traced"):
        trace(path, [{"x": np.ones((2, 3), np.float32)}])
