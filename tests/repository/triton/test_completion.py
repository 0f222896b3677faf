"""What a configuration leaves out comes from the model; what contradicts it is refused."""

import pytest
from msgspec import UNSET

from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.completion import completed
from xirang.repository.triton.reading import read_text
from xirang.repository.triton.schema import Input, Output, Reshape

X = TensorSpec("x", "FP32", ("batch", 16))
IDS = TensorSpec("ids", "INT64", ("batch", "length"))
Y = TensorSpec("y", "BYTES", ("batch",))
BAKED = TensorSpec("x", "FP32", (1, 16))


def complete(text, inputs=(X, IDS), outputs=(Y,)):
    return completed(checked(read_text(text), "m"), inputs, outputs)


def test_without_a_configuration_a_free_first_axis_is_the_batch():
    config = complete("")
    assert config.max_batch_size == 4
    assert config.dynamic_batching.preferred_batch_size == [4]
    assert config.input == [
        Input("x", "TYPE_FP32", dims=[16]),
        Input("ids", "TYPE_INT64", dims=[-1]),
    ]
    assert config.output == [Output("y", "TYPE_STRING", dims=[1], reshape=Reshape([]))]


def test_without_a_free_first_axis_everything_is_in_the_dims():
    config = complete("", inputs=(BAKED,))
    assert config.max_batch_size == 0
    assert config.dynamic_batching is UNSET
    assert config.input == [Input("x", "TYPE_FP32", dims=[1, 16])]
    assert config.output == [Output("y", "TYPE_STRING", dims=[-1])]


def test_a_batch_that_was_named_stays():
    config = complete("max_batch_size: 64")
    assert config.max_batch_size == 64
    assert config.dynamic_batching is UNSET


def test_named_tensors_stay_and_only_the_others_are_added():
    text = "max_batch_size: 8 output { name: 'y' data_type: TYPE_STRING dims: 1 reshape { } }"
    assert [each.name for each in complete(text).input] == ["x", "ids"]


def tensor(sort, name, datatype, dims, more=""):
    return f"{sort} {{ name: '{name}' data_type: TYPE_{datatype} dims: {dims} {more} }} "


OUT = tensor("output", "y", "STRING", "1", "reshape { }")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            tensor("input", "z", "FP32", "16") + OUT,
            "unexpected inference input 'z', allowed inputs are: x, ids",
        ),
        (
            tensor("input", "x", "INT32", "16") + OUT,
            "unexpected datatype TYPE_FP32 for inference input 'x', expecting TYPE_INT32",
        ),
        (
            tensor("input", "x", "FP32", "[4, 4]") + OUT,
            "configuration specifies 3 dimensions (shape [-1, 4, 4])",
        ),
        (tensor("input", "x", "FP32", "8") + OUT, "(shape [-1, 8])"),
        (tensor("input", "x", "FP32", "16") + OUT, "missing ['ids']"),
    ],
)
def test_what_contradicts_the_model_is_refused(text, message):
    with pytest.raises(InvalidSetting) as raised:
        complete("max_batch_size: 4 " + text)
    assert message in str(raised.value)


def test_a_batch_that_the_model_does_not_have_is_refused():
    with pytest.raises(InvalidSetting, match="expected max_batch_size: 0"):
        complete("max_batch_size: 4", inputs=(BAKED,))


def test_another_shape_outside_is_held_against_the_one_inside():
    text = tensor("input", "x", "FP32", "[4, 4]", "reshape { shape: 16 }")
    config = complete("max_batch_size: 4 " + text + tensor("input", "ids", "INT64", "-1") + OUT)
    assert config.input[0].dims == [4, 4]
