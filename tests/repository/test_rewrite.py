"""A batch that is baked to 1 is freed only where that leaves every answer alone."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support import models

from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_rewrite import free_batch
from xirang.config import ModelSettings
from xirang.engine.clock import MonotonicClock
from xirang.errors import InvalidSetting
from xirang.repository.discover import Kind, Source
from xirang.repository.load import load
from xirang.repository.rewrite import rewritten

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def graph_of_one(path, *nodes, constants=(), output=(1, 6)):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, output)
    weights = [numpy_helper.from_array(np.array(value, np.int64), n) for n, value in constants]
    return models.save(path, helper.make_graph(list(nodes), "one", [x], [y], weights))


def flattened(path, shape):
    """x[1, 2, 3] → reshaped, and doubled."""
    return graph_of_one(
        path,
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("Add", ["flat", "flat"], ["y"]),
        constants=[("shape", shape)],
    )


def mean_over_all(path):
    """x[1, 2, 3] less the mean of the whole tensor: with more rows it is another one."""
    return graph_of_one(
        path,
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
        output=(1, 2, 3),
    )


def try_to_free(path):
    original = OnnxExecutable(path)
    return rewritten(path, original, ModelSettings(max_batch_size=4), clock=MonotonicClock())


@pytest.mark.parametrize("shape", [[1, 6], [1, -1], [1, 3, 2], [-1, 6]])
def test_a_reshape_that_means_the_batch_is_freed(tmp_path, shape):
    path = flattened(tmp_path / "one.onnx", shape)
    freed, findings = try_to_free(path)
    assert findings.can_batch
    rows = np.random.default_rng(0).random((3, 2, 3)).astype(np.float32)
    together = freed.run({"x": rows}, ["y"])["y"]
    alone = [OnnxExecutable(path).run({"x": rows[i : i + 1]}, ["y"])["y"] for i in range(3)]
    assert together.tolist() == np.concatenate(alone).tolist()


def test_a_graph_whose_rows_would_change_each_other_stays_as_it_is(tmp_path):
    assert try_to_free(mean_over_all(tmp_path / "one.onnx")) is None


def test_what_has_no_batch_of_one_is_refused(tmp_path):
    path = models.mlp(tmp_path / "mlp.onnx")
    with pytest.raises(InvalidSetting, match="expected 1 for all"):
        free_batch(path, tmp_path / "freed.onnx")
    assert try_to_free(path) is None


@pytest.mark.parametrize("is_wanted", [True, False])
def test_it_is_done_at_load_where_it_is_asked_for(tmp_path, is_wanted):
    path = flattened(tmp_path / "one.onnx", [1, 6])
    settings = ModelSettings(rewrite_batch=is_wanted, max_batch_size=8, learned="off")
    model = load(Source("m", Kind.ONNX, path), settings, clock=MonotonicClock()).model
    assert model.policy.max_batch_size == (8 if is_wanted else 1)
    assert model.signature.is_batched == is_wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet"])
def test_graphs_of_full_size_are_freed(name):
    found = try_to_free(LIGHT / f"{name}.onnx")
    assert found is not None
    assert found[1].can_batch
