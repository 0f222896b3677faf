"""Wide tensors that are soon reduced, in slices: the same bits, a fraction of the memory."""

import numpy as np
import onnx
import pytest
from tests.support.head_models import WIDE, head, splade
from tests.support.memory_models import encoder, wide_head

from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_slices import COLUMNS, sliced

SIZES = ((1, 1), (1, 9), (3, 5), (4, 33))


def inputs(rows, length):
    dice = np.random.default_rng(rows * length)
    ids = dice.integers(0, 100, (rows, length))
    return {"ids": ids, "mask": dice.integers(0, 2, (rows, length))}


def both(source, target):
    assert sliced(source, target)
    onnx.checker.check_model(onnx.load(target))
    return OnnxExecutable(source), OnnxExecutable(target)


@pytest.mark.parametrize("is_turned", [True, False])
@pytest.mark.parametrize("opset", [13, 17, 18])
def test_the_best_of_a_vocabulary_has_the_same_bits(tmp_path, opset, is_turned):
    source = splade(tmp_path / "m.onnx", opset=opset, is_turned=is_turned)
    original, other = both(source, tmp_path / "s.onnx")
    for size in SIZES:
        expected, got = (one.run(inputs(*size), ["best"])["best"] for one in (original, other))
        assert expected.shape == (size[0], WIDE)
        assert expected.tobytes() == got.tobytes()


@pytest.mark.parametrize("reduce", ["ReduceMax", "ReduceMean", "ReduceSum", "ReduceL2"])
@pytest.mark.parametrize("axis", [0, 1])
def test_whatever_is_kept_of_each_column(tmp_path, reduce, axis):
    source = head(tmp_path / "m.onnx", steps=(("Sub", "bias"), "Tanh"), reduce=reduce, axis=axis)
    original, other = both(source, tmp_path / "s.onnx")
    for size in SIZES:
        expected, got = (one.run(inputs(*size), ["best"])["best"] for one in (original, other))
        assert expected.tobytes() == got.tobytes()


def test_nothing_wide_is_left(tmp_path):
    assert sliced(splade(tmp_path / "m.onnx"), tmp_path / "s.onnx")
    graph = onnx.shape_inference.infer_shapes(onnx.load(tmp_path / "s.onnx")).graph
    widest = [v.type.tensor_type.shape.dim[-1].dim_value for v in graph.value_info if v.name]
    assert max(widest) <= COLUMNS
    held = {tensor.name for tensor in graph.initializer}
    assert not held & {"factor", "bias"}, "what was cut is not kept as a whole too"


@pytest.mark.parametrize(
    "options",
    [
        {"axis": 2},  # over the columns themselves
        {"axis": -1},
        {"steps": ("Softmax",)},  # columns know of each other
        {"steps": (("Add", "bias"), "Relu"), "shown": ("step0",)},  # who is an answer stays whole
        {"steps": (("Mul", "product"),)},  # of the product twice
        {"steps": ("Relu", ("Add", "product"))},
    ],
)
def test_what_is_not_apart_by_columns_stays_as_it_is(tmp_path, options):
    assert not sliced(head(tmp_path / "m.onnx", **options), tmp_path / "s.onnx")


def test_models_without_a_reduction_or_without_width_stay_as_they_are(tmp_path):
    for make in (encoder, wide_head):
        assert not sliced(make(tmp_path / "m.onnx"), tmp_path / "s.onnx")
