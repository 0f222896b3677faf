"""A `dynamic_batching` block: Triton's rules, or the settings that come closest to it."""

import pytest

from xirang.config import ModelSettings
from xirang.core.rules import BatcherRules, QueueRules
from xirang.errors import InvalidSetting
from xirang.repository.triton.batching import mixes_shapes, rules_of
from xirang.repository.triton.checks import checked
from xirang.repository.triton.meaning import meaning_of
from xirang.repository.triton.reading import read_text

COMMON = ModelSettings(budget_ms=500, window_ms=2)
OURS = "parameters { key: 'xirang.scheduler' value { string_value: 'xirang' } } "


def config(text, size=8):
    return checked(read_text(f"max_batch_size: {size} {text}"), "m")


def rules(inside):
    return rules_of(config(f"dynamic_batching {{ {inside} }}"))


def ours(inside):
    return meaning_of(config(f"{OURS} dynamic_batching {{ {inside} }}"), COMMON)


def test_without_a_block_our_own_rules_hold():
    assert rules_of(config("")) is None


def test_a_model_that_does_not_batch_has_no_batcher():
    assert rules_of(config("dynamic_batching { }", size=0)) is None


def test_an_empty_block_has_tritons_meaning():
    assert rules("") == BatcherRules(preferred=(8,))


def test_every_field_has_its_meaning():
    found = rules(
        "preferred_batch_size: [6, 2] max_queue_delay_microseconds: 1500 preserve_ordering: true "
        "priority_levels: 1 default_priority_level: 1 "
        "default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 20000 "
        "allow_timeout_override: true } "
        "priority_queue_policy { key: 1 value { default_timeout_microseconds: 5 } } "
    )
    assert found == BatcherRules(
        preferred=(2, 6),
        delay_ns=1_500_000,
        levels=1,
        level_default=1,
        queue=QueueRules(timeout_ns=20_000_000, can_override=True, depth_max=7),
        queues=((1, QueueRules(timeout_ns=5_000)),),
        is_ordered=True,
    )
    assert rules("default_queue_policy { timeout_action: DELAY }").queue.is_kept


def test_tests_may_hold_batchers_back(monkeypatch):
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "12")
    assert rules("").held == 12
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "x")
    with pytest.raises(InvalidSetting, match="expected a number of requests"):
        rules("")


def test_shapes_mix_only_where_every_input_that_varies_may():
    def mixes(*inputs):
        return mixes_shapes(config("".join(f"input {{ name: 'x' {each} }} " for each in inputs)))

    assert not mixes("dims: [-1]")
    assert mixes("dims: [-1] allow_ragged_batch: true", "dims: [4]")
    assert not mixes("dims: [-1] allow_ragged_batch: true", "dims: [-1]")
    assert not mixes("dims: [4] allow_ragged_batch: true")


def test_the_block_may_stay_and_our_rules_hold():
    assert ours("").rules is None
    assert ours("").unheeded == ()
    with pytest.raises(InvalidSetting, match="expected triton or xirang"):
        rules_of(config(OURS.replace("'xirang' }", "'x' }")))


def test_ours_a_delay_is_a_window_and_no_delay_is_no_waiting():
    delayed = ours("max_queue_delay_microseconds: 1500").settings
    assert (delayed.window_ms, delayed.efficiency) == (1.5, 1.0)
    at_once = ours("").settings
    assert (at_once.window_ms, at_once.efficiency) == (0.0, 0.0)


def test_ours_a_queue_policy_is_a_budget_and_a_bound():
    found = ours(
        "default_queue_policy { max_queue_size: 7 default_timeout_microseconds: 20000 "
        "allow_timeout_override: true }"
    )
    assert (found.settings.queue, found.settings.budget_ms) == (7, 20.0)
    assert found.unheeded == ()


def test_ours_a_delay_beyond_the_budget_is_cut():
    found = ours(
        "max_queue_delay_microseconds: 9000 default_queue_policy "
        "{ default_timeout_microseconds: 4000 allow_timeout_override: true }"
    )
    assert found.settings.window_ms == 2.0


@pytest.mark.parametrize(
    ("inside", "word"),
    [
        ("preferred_batch_size: [2, 4]", "preferred_batch_size"),
        ("preserve_ordering: true", "preserve_ordering"),
        (
            "priority_levels: 5 default_priority_level: 2",
            "priority_levels: there are 3, and 2 is the default",
        ),
        (
            "priority_levels: 3 default_priority_level: 2 "
            "priority_queue_policy { key: 1 value { max_queue_size: 1 } }",
            "priority_queue_policy",
        ),
        (
            "default_queue_policy { default_timeout_microseconds: 1 "
            "timeout_action: DELAY allow_timeout_override: true }",
            "timeout_action: DELAY",
        ),
        (
            "default_queue_policy { default_timeout_microseconds: 1 }",
            "allow_timeout_override",
        ),
    ],
)
def test_ours_what_has_no_meaning_is_said(inside, word):
    (unheeded,) = ours(inside).unheeded
    assert word in unheeded
