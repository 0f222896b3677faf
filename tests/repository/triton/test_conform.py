"""A model behind its configuration: other shapes, fewer outputs, the same answers."""

import numpy as np

from xirang.core.signature import TensorSpec
from xirang.repository.triton.checks import checked
from xirang.repository.triton.completion import completed
from xirang.repository.triton.conform import conformed
from xirang.repository.triton.reading import read_text


class Twice:
    """x [batch, a, b] → its double, and the sum of each row as [batch]."""

    platform = "onnxruntime_onnx"
    is_reentrant = True
    keeps_inputs = False
    inputs = (TensorSpec("x", "FP32", ("batch", "a", "b")),)
    outputs = (
        TensorSpec("twice", "FP32", ("batch", "a", "b")),
        TensorSpec("total", "FP32", ("batch",)),
    )

    def run(self, inputs, wanted):
        x = inputs["x"]
        assert x.ndim == 3
        made = {"twice": 2 * x, "total": x.sum(axis=(1, 2))}
        return {name: made[name] for name in wanted}


def behind(text):
    model = Twice()
    config = completed(
        checked(read_text("max_batch_size: 4 " + text), "m"), model.inputs, model.outputs
    )
    return model, conformed(model, config)


def test_a_model_that_is_as_declared_is_not_wrapped():
    text = "output { name: 'twice' data_type: TYPE_FP32 dims: [-1, -1] }"
    model, executable = behind(
        text + "output { name: 'total' data_type: TYPE_FP32 dims: 1 reshape { } }"
    )
    assert executable is not model  # a number a row is a row of one outside
    assert executable.outputs[1].shape == (-1, 1)
    model = Twice()
    model.outputs = model.outputs[:1]
    config = completed(checked(read_text(""), "m"), model.inputs, model.outputs)
    assert conformed(model, config) is model


def test_free_sizes_keep_their_order_and_symbols_are_kept_without_a_reshape():
    text = (
        "input { name: 'x' data_type: TYPE_FP32 dims: [ -1, 1, -1 ] reshape { shape: [ -1, -1 ] } }"
        "output { name: 'twice' data_type: TYPE_FP32 dims: [ -1, 3 ] }"
        "output { name: 'total' data_type: TYPE_FP32 dims: [ 1 ] reshape { shape: [ ] } }"
    )
    _, executable = behind(text)
    assert executable.inputs[0].shape == (-1, -1, 1, -1)
    assert executable.outputs[0].dims == ("batch", "a", 3)
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 1, 3)
    outputs = executable.run({"x": x}, ["twice", "total"])
    assert outputs["twice"].shape == (2, 2, 3)
    assert np.array_equal(outputs["twice"], 2 * x[:, :, 0])
    assert outputs["total"].tolist() == [[15], [51]]


def test_only_declared_outputs_are_shown():
    _, executable = behind("output { name: 'total' data_type: TYPE_FP32 dims: 1 reshape { } }")
    assert [spec.name for spec in executable.outputs] == ["total"]
    x = np.ones((1, 2, 2), np.float32)
    assert executable.run({"x": x}, ["total"])["total"].tolist() == [[4]]
