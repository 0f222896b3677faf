"""Suspicious operators are found in an ONNX file without ONNX."""

import onnx
import pytest
from onnx import helper
from tests.support import models, planted

from xirang.engine.probe.operators import suspects


def test_dynamic_quantisation_is_named_and_counted(tmp_path):
    found = suspects(models.quantised_per_run(tmp_path / "m.onnx"))
    assert found == (
        "DynamicQuantizeLinear x 1: one scale for the whole run",
        "MatMulInteger x 1: follows a scale for the whole run",
    )


def test_a_recurrent_net_is_suspected_only_without_lengths(tmp_path):
    weights = planted.two_ways_weights()
    assert suspects(planted.write(tmp_path, planted.TWO_WAYS, weights)) == (
        "LSTM x 1: runs through padding without sequence_lens",
    )
    assert suspects(planted.write(tmp_path, planted.TWO_WAYS_WITH_LENGTHS, weights)) == ()


@pytest.mark.parametrize("mode", [0, 1])
def test_a_norm_in_training_is_suspected_also_within_a_branch(mode, tmp_path):
    norm = helper.make_node("BatchNormalization", list("xsbmv"), ["y"], training_mode=mode)
    info = helper.make_tensor_value_info("y", 1, ["N", 4])
    branch = helper.make_graph([norm], "branch", [], [info])
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph([node], "m", [], [])), path)
    assert len(suspects(path)) == mode
    assert all(each.startswith("BatchNormalization x 2") for each in suspects(path))


@pytest.mark.parametrize("content", [b"not a model", b"\x3a\xff\xff\xff\xff\x7f", b"\xff" * 40])
def test_what_is_no_graph_gives_no_hint(content, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert suspects(path) == ()
