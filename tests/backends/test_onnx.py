"""ONNX Runtime: what a file declares, and what it refuses."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.support import models

from xirang.backends.onnx import OnnxExecutable
from xirang.errors import InvalidRequest, InvalidSetting

ONNX_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


def identity(path, onnx_type, dims):
    x = helper.make_tensor_value_info("x", onnx_type, dims)
    y = helper.make_tensor_value_info("y", onnx_type, dims)
    node = helper.make_node("Identity", ["x"], ["y"])
    return models.save(path, helper.make_graph([node], "identity", [x], [y]))


@pytest.mark.parametrize("datatype", ONNX_TYPES)
def test_every_datatype_is_known_by_its_protocol_name(datatype, tmp_path):
    executable = OnnxExecutable(identity(tmp_path / "m.onnx", ONNX_TYPES[datatype], ["n", 2]))
    assert executable.inputs[0].datatype == executable.outputs[0].datatype == datatype


def test_dims_are_sizes_symbols_or_unknown(tmp_path):
    executable = OnnxExecutable(
        identity(tmp_path / "m.onnx", TensorProto.FLOAT, ["batch", None, "?", 3])
    )
    assert executable.inputs[0].dims == ("batch", None, None, 3)
    assert executable.inputs[0].shape == (-1, -1, -1, 3)


def test_words_go_through(tmp_path):
    executable = OnnxExecutable(models.same_words(tmp_path / "m.onnx"))
    given = np.array([[b"one"], [b"two"]], object)
    assert executable.run({"s": given}, ["t"])["t"].tolist() == [["one"], ["two"]]
    with pytest.raises(InvalidRequest, match="'s' holds bytes that are not UTF-8"):
        executable.run({"s": np.array([[b"\xff"]], object)}, ["t"])


def test_what_the_model_refuses_is_the_requests_fault(tmp_path):
    executable = OnnxExecutable(models.mlp(tmp_path / "m.onnx"))
    with pytest.raises(InvalidRequest, match="the model refused its input"):
        executable.run({"x": np.zeros((1, 65), np.float32)}, ["y"])


@pytest.mark.parametrize("content", [b"", b"this is no model"])
def test_a_file_that_is_no_model_is_refused_by_name(content, tmp_path):
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(InvalidSetting, match=r"broken\.onnx is not a model"):
        OnnxExecutable(path)
