"""A Triton configuration in xirang's settings, and what has no meaning is said."""

from dataclasses import replace

import pytest

from xirang.config import ModelSettings
from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.meaning import meaning_of
from xirang.repository.triton.reading import read_text

COMMON = ModelSettings(budget_ms=500, window_ms=2)


def meaning(text, own=None):
    return meaning_of(checked(read_text(text), "m"), COMMON, own)


def test_without_a_block_xirangs_own_rules_hold():
    assert meaning("") == type(meaning(""))(COMMON, ())
    assert meaning("max_batch_size: 8").settings == replace(COMMON, max_batch_size=8)


def test_a_block_brings_rules_of_its_own():
    found = meaning("max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 1500 }")
    assert found.rules is not None
    assert found.rules.delay_ns == 1_500_000
    assert found.settings == replace(COMMON, max_batch_size=8)
    assert found.unheeded == ()


def test_instances_and_threads():
    text = "instance_group [ { count: 2 }, { kind: KIND_CPU } ] "
    text += "parameters { key: 'intra_op_thread_count' value { string_value: '4' } }"
    settings = meaning(text).settings
    assert (settings.instances, settings.threads) == (3, 4)


def parameter(name, value):
    return f"parameters {{ key: '{name}' value {{ string_value: '{value}' }} }}"


def test_xirangs_own_settings_ride_as_parameters():
    text = parameter("xirang.budget_ms", "50") + parameter("xirang.lengths", "16,64")
    settings = meaning(text + parameter("xirang.crop", "true")).settings
    assert (settings.budget_ms, settings.lengths, settings.crop) == (50.0, (16, 64), True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("xirang.nosuch", "1", "unknown .'nosuch'."),
        ("xirang.budget_ms", "x", "config.pbtxt of m"),
        ("xirang.budget_ms", "-1", "budget_ms is -1"),
        ("xirang.learned", "/etc", "names a place of the server's"),
        ("xirang.length_histogram", "/etc/passwd", "names a place of the server's"),
        ("intra_op_thread_count", "x", "expected a whole number"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name, value, message):
    with pytest.raises(InvalidSetting, match=message):
        meaning(parameter(name, value))


def test_the_operators_own_table_goes_over_the_configuration():
    own = replace(COMMON, max_batch_size=3, instances=2)
    settings = meaning("max_batch_size: 8 " + parameter("xirang.crop", "true"), own).settings
    assert (settings.max_batch_size, settings.instances, settings.crop) == (3, 2, True)
    assert settings.budget_ms == 500


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("optimization { graph { level: 1 } }", "optimization"),
        ("instance_group { rate_limiter { } }", "rate_limiter"),
        ("instance_group { host_policy: 'x' }", "host_policy"),
        ("input { name: 'x' allow_ragged_batch: true }", "allow_ragged_batch"),
        ("input { name: 'x' format: FORMAT_NCHW }", "input: format"),
        ("metric_tags { key: 'a' value: 'b' }", "metric_tags"),
        ("runtime: 'x'", "runtime"),
        (parameter("execution_mode", "1"), "parameters: execution_mode"),
    ],
)
def test_what_has_no_meaning_here_is_said(text, word):
    (unheeded,) = meaning(text).unheeded
    assert unheeded.startswith(word) or word in unheeded
