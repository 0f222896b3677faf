"""What Triton refuses is refused in Triton's words, and what it fills in is filled in."""

from pathlib import Path

import pytest

from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import check_tensors, checked, with_backend
from xirang.repository.triton.reading import read_text
from xirang.repository.triton.schema import Latest, Optimization


def refused(text):
    with pytest.raises(InvalidSetting) as raised:
        check_tensors(checked(read_text(text), "m"))
    return str(raised.value)


BATCHING = "max_batch_size: 4 dynamic_batching "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "name: 'other'",
            "unexpected directory name 'm' for model 'other', directory name must equal model name",
        ),
        ("max_batch_size: -1", "'max_batch_size' must be non-negative value for m"),
        (
            BATCHING + "{ preferred_batch_size: [ 8 ] }",
            "dynamic batching preferred size must be <= max batch size for m",
        ),
        (
            BATCHING + "{ preferred_batch_size: [ 0 ] }",
            "dynamic batching preferred size must be positive for m",
        ),
        (
            BATCHING + "{ priority_levels: 2 }",
            "default priority level must be in range [1, 2] for m",
        ),
        (
            BATCHING + "{ priority_levels: 2 default_priority_level: 1 "
            "priority_queue_policy { key: 3 value { max_queue_size: 1 } } }",
            "priority queue policy must have priority level in range [1, 2] for m",
        ),
        (
            BATCHING + "{ preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
            "Only one priority level is allowed when 'preserve_ordering' is true for m",
        ),
        (
            BATCHING + "{ preserve_ordering: true default_queue_policy { timeout_action: DELAY } }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true "
            "for m",
        ),
        (
            "instance_group { kind: KIND_GPU count: 1 }",
            "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
        ),
        ("input { }", "model input must specify 'name' for m"),
        ("input { name: 'x' dims: 1 }", "model input 'x' must specify 'data_type' for m"),
        (
            "output { name: 'y' data_type: TYPE_FP32 }",
            "model output 'y' must specify 'dims' for m",
        ),
        (
            "input { name: 'x' data_type: TYPE_FP32 dims: 0 }",
            "model input 'x' dimension must be integer >= 1, "
            "or -1 to indicate a variable-size dimension for m",
        ),
        (
            "input { name: 'x' data_type: TYPE_FP32 dims: 4 reshape { shape: 3 } }",
            "model input 'x' has different size for dims and reshape for m",
        ),
    ],
)
def test_it_is_refused_as_by_triton(text, message):
    assert refused(text) == message


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("sequence_batching { }", "sequence_batching"),
        ("batch_input { }", "batch_input"),
        ("model_operations { }", "model_operations"),
        ("model_repository_agents { }", "model_repository_agents"),
        ("input { name: 'x' is_shape_tensor: true }", "shape tensors: x"),
    ],
)
def test_what_would_change_answers_is_refused_and_named(text, block):
    assert refused(text).startswith(f"model 'm' asks for what is not served: {block}")


def test_defaults_are_filled_in():
    config = checked(read_text("max_batch_size: 4 dynamic_batching { }"), "m")
    assert config.name == "m"
    assert config.version_policy.latest == Latest(1)
    assert config.optimization == Optimization()
    assert config.dynamic_batching.preferred_batch_size == [4]
    assert (
        checked(
            read_text("dynamic_batching { }"), "m"
        ).dynamic_batching.max_queue_delay_microseconds
        == 0
    )


@pytest.mark.parametrize(
    ("text", "file", "backend", "platform"),
    [
        ("", "model.onnx", "onnxruntime", "onnxruntime_onnx"),
        ("", "model.pt", "pytorch", "pytorch_libtorch"),
        ("", "model.pt2", "pytorch", ""),
        ("platform: 'onnxruntime_onnx'", "model.onnx", "onnxruntime", "onnxruntime_onnx"),
        ("backend: 'onnxruntime'", "model.onnx", "onnxruntime", "onnxruntime_onnx"),
    ],
)
def test_the_backend_is_found_out_from_the_file(tmp_path, text, file, backend, platform):
    (tmp_path / file).touch()
    config = with_backend(checked(read_text(text), "m"), tmp_path)
    assert (config.backend, config.default_model_filename) == (backend, file)
    assert config.platform == platform


def test_a_file_may_have_another_name(tmp_path):
    text = "backend: 'onnxruntime' default_model_filename: 'net.onnx'"
    assert (
        with_backend(checked(read_text(text), "m"), tmp_path).default_model_filename == "net.onnx"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("platform: 'nosuch'", "unexpected platform type 'nosuch' for m"),
        ("backend: 'tensorrt'", "unable to find backend library for backend 'tensorrt'"),
        (
            "backend: 'onnxruntime' input { name: 'x' optional: true }",
            "model 'm' asks for what is not served: optional inputs: x",
        ),
        (
            "backend: 'python' model_transaction_policy { decoupled: true } "
            "response_cache { enable: true }",
            "model 'm' asks for what is not served: response_cache",
        ),
        (
            "backend: 'onnxruntime' model_transaction_policy { decoupled: true }",
            "model 'm' asks for what is not served: model_transaction_policy",
        ),
        ("", "Could not determine backend for model 'm'"),
    ],
)
def test_a_backend_that_is_not_there_is_named(text, message):
    with pytest.raises(InvalidSetting, match=message):
        with_backend(checked(read_text(text), "m"), Path("nowhere/1"))
