"""One version of a model, loaded as its configuration wants it and as Triton would show it."""

import asyncio
import json

import numpy as np
import pytest
from tests.support import models
from tests.support.repositories import plus

from xirang.config import ModelSettings
from xirang.core.rules import BatcherRules
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.engine.info import describe
from xirang.errors import InvalidSetting
from xirang.repository.triton.layout import Place
from xirang.repository.triton.serving import Terms, load_version

COMMON = ModelSettings(learned="off", warmup_s=0, batching="first-come", instances=1)

# What a genuine Triton 2.51 shows of such a configuration, its name and backend apart.
TRITONS = """
{"name":"m","platform":"onnxruntime_onnx","backend":"onnxruntime","runtime":"",
"version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,
"input":[{"name":"x","data_type":"TYPE_INT64","format":"FORMAT_NONE","dims":[1],
"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,
"is_non_linear_format_io":false}],
"output":[{"name":"y","data_type":"TYPE_INT64","dims":[1],"label_filename":"",
"is_shape_tensor":false,"is_non_linear_format_io":false}],"batch_input":[],"batch_output":[],
"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},
"output_pinned_memory":{"enable":true},"gather_kernel_buffer_threshold":0,"eager_batching":false},
"dynamic_batching":{"preferred_batch_size":[4],"max_queue_delay_microseconds":0,
"preserve_ordering":false,"priority_levels":0,"default_priority_level":0,
"priority_queue_policy":{}},
"instance_group":[{"name":"m","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],
"profile":[],"passive":false,"host_policy":""}],"default_model_filename":"model.onnx",
"cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}
"""


def loaded(root, config=None, make=plus, arguments=(5,), **terms):
    folder = root / "m" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    make(*arguments, folder / "model.onnx")
    if config is not None:
        (root / "m" / "config.pbtxt").write_text(config)
    place = Place("m", root / "m", root)
    return load_version(place, place.config(), 1, Terms(COMMON, **terms), clock=MonotonicClock())


def infer(model, **inputs):
    async def ask():
        async with Engine() as engine:
            engine.add(model)
            return await engine.infer("m", inputs)

    return asyncio.run(ask())


@pytest.mark.parametrize("config", ["max_batch_size: 4 dynamic_batching { }", None])
def test_a_configuration_is_shown_as_by_triton(tmp_path, config):
    model = loaded(tmp_path, config).model
    shown = dict(describe(model, ("1",), is_ready=True).config)
    assert shown.pop("xirang")["verdict"] == model.verdict
    assert shown == json.loads(TRITONS)
    assert list(shown) == list(json.loads(TRITONS))


def test_what_was_written_decides_and_what_was_completed_does_not(tmp_path):
    completed = loaded(tmp_path).model.policy
    assert (completed.max_batch_size, completed.efficiency) == (128, 0.5)
    written = loaded(tmp_path, "max_batch_size: 4 dynamic_batching { }").model.policy
    assert (written.max_batch_size, written.batcher) == (4, BatcherRules(preferred=(4,)))
    assert not written.rejects_early


@pytest.mark.parametrize(("ragged", "can_pad"), [("false", False), ("true", True)])
def test_by_tritons_rules_shapes_mix_only_where_they_may(tmp_path, ragged, can_pad):
    text = "max_batch_size: 4 dynamic_batching { } "
    for name in ("ids", "attention_mask"):
        dims = f"data_type: TYPE_INT64 dims: -1 allow_ragged_batch: {ragged}"
        text += f"input {{ name: '{name}' {dims} }} "
    text += "output { name: 'total' data_type: TYPE_INT64 dims: 1 }"
    assert loaded(tmp_path, text, models.masked_double, ()).model.policy.can_pad is can_pad


def test_without_a_batch_a_request_is_a_run_of_its_own_whatever_its_first_axis(tmp_path):
    text = "input { name: 'x' data_type: TYPE_FP32 dims: [ -1, 4 ] }"
    text += "output { name: 'y' data_type: TYPE_FP32 dims: [ -1, 4 ] }"
    model = loaded(tmp_path, text, models.softmax_over_batch, ()).model
    assert model.verdict == "max_batch_size is 0: a request is a run of its own"
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = infer(model, x=x)["y"]
    expected = np.exp(x) / np.exp(x).sum(axis=0)  # along what is no batch
    assert np.allclose(y, expected)


def test_clients_may_see_other_shapes_and_fewer_outputs(tmp_path):
    text = """
    max_batch_size: 4
    input { name: "INPUT0" data_type: TYPE_INT32 dims: [ 4, 4 ] reshape { shape: 16 } }
    input { name: "INPUT1" data_type: TYPE_INT32 dims: 16 }
    output { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 2, 8 ] reshape { shape: 16 } }
    """
    model = loaded(tmp_path, text, models.add_sub, ()).model
    first = np.arange(32, dtype=np.int32).reshape(2, 4, 4)
    outputs = infer(model, INPUT0=first, INPUT1=np.ones((2, 16), np.int32))
    assert list(outputs) == ["OUTPUT1"]
    assert np.array_equal(outputs["OUTPUT1"], (first - 1).reshape(2, 2, 8))
    info = describe(model, ("1",), is_ready=True)
    assert [spec.shape for spec in info.inputs] == [(-1, 4, 4), (-1, 16)]


def test_labels_are_read_from_the_models_folder(tmp_path):
    text = "max_batch_size: 4 output { name: 'y' data_type: TYPE_INT64 dims: 1 label_filename: %r }"
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "labels.txt").write_text("cat\ndog\n")
    (tmp_path / "secret.txt").write_text("secret")
    assert loaded(tmp_path, text % "labels.txt").model.labels == {"y": ("cat", "dog")}
    with pytest.raises(InvalidSetting, match="failed to open text file for read"):
        loaded(tmp_path, text % "nope.txt")
    with pytest.raises(InvalidSetting, match="leads out"):
        loaded(tmp_path, text % "../../secret.txt")


def test_without_a_configuration_a_tokenizer_makes_a_text_model(tmp_path):
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidSetting, match=r"tokenizer\.json is not a tokenizer"):
        loaded(tmp_path, None, models.hidden_states, ())
    config = "max_batch_size: 4"  # then clients see what Triton's clients see
    outputs = loaded(tmp_path, config, models.hidden_states, ()).model.output_names
    assert outputs == ("last_hidden_state",)


@pytest.mark.parametrize(
    ("config", "terms", "message"),
    [
        (
            "backend: 'onnxruntime' default_model_filename: 'no.onnx'",
            {},
            "unable to find 'no.onnx'",
        ),
        ("default_model_filename: '../../../x.onnx' backend: 'onnxruntime'", {}, "leads out of"),
        ("backend: 'tensorrt'", {}, "unable to find backend library for backend 'tensorrt'"),
        ("backend: 'python'", {}, "unable to find 'model.py' in version 1 of m"),
        (None, {"can_complete": False}, "completing it from the model is switched off"),
        (
            "max_batch_size: 4 model_warmup { name: 'w' batch_size: 8 }",
            {},
            "failed to run warmup sample 'w': batch size 8 for 'm', max allowed is 4",
        ),
    ],
)
def test_what_cannot_be_served_is_named(tmp_path, config, terms, message):
    with pytest.raises(InvalidSetting) as raised:
        loaded(tmp_path, config, **terms)
    assert message in str(raised.value)


def test_what_has_no_effect_is_logged(tmp_path, caplog):
    loaded(tmp_path, "max_batch_size: 4 dynamic_batching { } runtime: 'x'")
    assert "m: without effect here: runtime" in caplog.text
