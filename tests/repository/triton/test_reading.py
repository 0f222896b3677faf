"""From text or JSON to a configuration: names, types and what excludes what."""

import contextlib
import re

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import UNSET
from tests.test_tidy import ROOT

from xirang.errors import InvalidSetting
from xirang.repository.triton.reading import read_json, read_text
from xirang.repository.triton.schema import (
    DynamicBatching,
    Input,
    InstanceGroup,
    ModelConfig,
    Output,
    Parameter,
    QueuePolicy,
    Reshape,
    VersionPolicy,
)

WHOLE = """
name: "resnet"  # as its folder
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "x" data_type: TYPE_FP32 dims: [ 3, -1 ] },
  { name: "ids" data_type: 9 dims: 1 dims: 0x10 reshape { shape: [ 16 ] } }
]
output { name: "y" data_type: TYPE_STRING dims: [ 10 ] label_filename: "labels.txt" }
version_policy: { specific { versions: [ 3, 1 ] } }
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching {
  preferred_batch_size: [ 4, 8 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 1
  priority_queue_policy { key: 2 value { timeout_action: DELAY max_queue_size: 7 } }
}
parameters { key: "xirang.budget_ms" value { string_value: "50" } }
parameters: { key: "other", value: { string_value: "a" } }
optimization { graph { level: 1 } input_pinned_memory { enable: false } }
model_warmup [ {
  name: "w" batch_size: 2
  inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 dims: 4 random_data: true } }
} ]
"""


def test_a_whole_configuration_is_read():
    config = read_text(WHOLE)
    assert (config.name, config.max_batch_size) == ("resnet", 8)
    assert config.input[0] == Input("x", "TYPE_FP32", dims=[3, -1])
    assert config.input[1].data_type == "TYPE_INT64"
    assert (config.input[1].dims, config.input[1].reshape) == ([1, 16], Reshape([16]))
    assert config.output[0].label_filename == "labels.txt"
    assert config.version_policy.specific.versions == [3, 1]
    assert config.dynamic_batching.priority_queue_policy[2].timeout_action == "DELAY"
    assert config.parameters["other"] == Parameter("a")
    assert config.optimization.graph == {"level": ["1"]}
    assert config.model_warmup[0].inputs["x"].random_data is True
    assert config.sequence_batching is UNSET


def test_json_says_the_same():
    config = read_text(WHOLE)
    assert read_json(msgspec.json.encode(config)) == config


def test_a_configuration_that_xirang_showed_may_be_sent_back():
    config = read_text(WHOLE)
    shown = msgspec.to_builtins(config, str_keys=True) | {"xirang": {"verdict": "exact"}}
    assert read_json(msgspec.json.encode(shown)) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nfoo: 1", '2:1: Message type "inference.ModelConfig" has no field named "foo".'),
        ("input { title: 'x' }", '1:9: Message type "inference.Input" has no field named "title".'),
        ("name: 'a' name: 'b'", '1:11: Non-repeated field "name" is specified multiple times.'),
        ("name: ['a']", '1:1: Non-repeated field "name" is specified multiple times.'),
        ("name: a", "1:7: name takes a string in quotes, found 'a'"),
        ("max_batch_size: '3'", "1:17: max_batch_size takes a whole number, found '3'"),
        ("max_batch_size: 1.5", "1:17: max_batch_size takes a whole number, found '1.5'"),
        ("max_batch_size: 3000000000", "1:17: max_batch_size is 3000000000: Expected"),
        ("max_batch_size { }", "1:16: max_batch_size takes no block"),
        ("dynamic_batching: 1", "1:19: dynamic_batching takes a block"),
        (
            "dynamic_batching { preserve_ordering: 2 }",
            "1:39: preserve_ordering takes true or false",
        ),
        (
            "instance_group { kind: KIND_X }",
            'Unknown enumeration value of "KIND_X" for field "kind"',
        ),
        ("instance_group { kind: 9 }", 'Unknown enumeration value of "9" for field "kind"'),
        ("parameters: 1", "1:13: parameters takes blocks with a key and a value"),
        ("parameters { kez: 'a' }", "1:14: parameters takes blocks with one key and one value"),
        ("sequence_batching: 1", "1:20: sequence_batching takes a block"),
        (
            "dynamic_batching {} sequence_batching {}",
            "only one of dynamic_batching, sequence_batching",
        ),
        ("version_policy { all {} latest {} }", "1:16: only one of latest, all may be given"),
    ],
)
def test_what_is_wrong_in_a_text_is_named(text, message):
    with pytest.raises(InvalidSetting) as raised:
        read_text(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"foo": 1}', "unknown field `foo`"),
        ('{"input": [{"dims": "x"}]}', "$.input[0].dims"),
        ('{"dynamic_batching": {}, "ensemble_scheduling": {}}', "only one of"),
        (b"\xff", "wrong"),
        ("[" * 100_000, "wrong"),
    ],
)
def test_what_is_wrong_in_json_is_named(text, message):
    with pytest.raises(InvalidSetting) as raised:
        read_json(text)
    assert message in str(raised.value)


def test_the_page_tells_of_every_field():
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    kinds = (ModelConfig, DynamicBatching, QueuePolicy, InstanceGroup, VersionPolicy, Input, Output)
    fields = {name for kind in kinds for name in kind.__struct_fields__}
    fields -= {"passive", "is_non_linear_format_io"}  # of other hardware
    assert not {name for name in fields if not re.search(rf"\b{name}\b", page)}


def test_octal_numbers_and_short_words_are_as_in_protobuf():
    assert read_text("max_batch_size: 010").max_batch_size == 8
    assert read_text("instance_group { passive: t }").instance_group[0].passive is True


@given(st.text(alphabet='name:input{}[]"x1 \n,<>dims', max_size=60))
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(InvalidSetting):
        read_text(text)
