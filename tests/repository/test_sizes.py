"""The verdict is obeyed, save where the configuration says otherwise."""

from dataclasses import replace

import pytest

from xirang.config import ModelSettings
from xirang.core.cost import CostModel
from xirang.core.policy import Batching
from xirang.core.rules import BatcherRules
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.probe import Findings, Kind
from xirang.errors import InvalidSetting
from xirang.repository.sizes import equal_shapes, plan_of, policy_of

TEXT = Signature(
    (TensorSpec("ids", "INT64", (None, None)),), (), True, {"ids": Layout(ties=(Tie(1),))}
)
FIXED = Signature((TensorSpec("x", "FP32", (None, 2048)),), (), True)
EXACT = Findings(TEXT, "exact", True, True, kind=Kind.EXACT, paddable=(0,))
SENSITIVE = Findings(TEXT, "batch-sensitive", kind=Kind.BATCH_SENSITIVE)


class Plain:
    """An executable without any capability."""

    inputs = TEXT.inputs


def plan(findings, executable=None, **settings):
    model_settings = ModelSettings(**settings)
    made = plan_of(model_settings, findings, executable or Plain(), CostModel())
    return made, policy_of(model_settings, findings, made, 1)


def test_by_default_the_verdict_holds():
    made, policy = plan(EXACT)
    assert (made.shapes.paddable, made.overrides) == ((0,), ())
    assert (policy.can_pad, policy.max_batch_size) == (True, 128)


def test_rows_that_change_each_other_are_run_as_they_were_sent():
    made, policy = plan(SENSITIVE, max_batch_size=16, batch_sizes=(4, 8))
    assert (policy.batching, policy.max_batch_size) == (Batching.OFF, 16)
    assert (made.shapes.rows_max, made.shapes.row_sizes) == (16, ())
    assert plan(SENSITIVE, allow_batching="yes")[0].shapes.rows_max is None
    assert plan(EXACT, allow_batching="no")[0].shapes.rows_max is None


def test_what_an_operator_decides_is_done_and_said():
    made, policy = plan(SENSITIVE, allow_batching="yes", allow_padding="yes", max_batch_size=16)
    assert (policy.can_pad, policy.max_batch_size) == (True, 16)
    assert made.overrides == ("allow_batching = yes", "allow_padding = yes")
    made, policy = plan(EXACT, allow_batching="no", allow_padding="no")
    assert (policy.can_pad, policy.batching) == (False, Batching.OFF)
    assert made.overrides == ("allow_batching = no", "allow_padding = no")


def test_no_consent_stacks_what_has_no_batch_axis():
    single = Findings(Signature(TEXT.inputs, (), is_batched=False), "batch-fixed")
    made, policy = plan(single, allow_batching="yes")
    assert (policy.max_batch_size, made.overrides) == (1, ())


def test_batch_sizes_bound_the_rows_of_a_run():
    made, policy = plan(EXACT, batch_sizes=(1, 8, 32))
    assert made.shapes.row_sizes == (1, 8, 32)
    assert policy.max_batch_size == 32
    fixed = Signature(TEXT.inputs, (), True, TEXT.input_layouts, rows_fixed=4)
    made, policy = plan(Findings(fixed, "exact", True, kind=Kind.EXACT), batch_sizes=(1, 8))
    assert made.shapes.row_sizes == (4,), "the model knows better"
    assert policy.max_batch_size == 4


def test_a_length_that_is_baked_in_is_found_by_its_size():
    made, policy = plan(Findings(FIXED, "exact", True, kind=Kind.EXACT), lengths=(2048,))
    assert made.signature.input_layout("x").ties == (Tie(1),)
    assert (made.shapes.paddable, policy.can_pad) == ((0,), True)
    made, _ = plan(Findings(FIXED, "exact", True, kind=Kind.EXACT), lengths=(100,))
    assert made.signature == FIXED


class Lists(Plain):
    takes_lists = True


def test_what_takes_lists_or_is_packed_is_ragged():
    assert plan(EXACT, Lists())[0].shapes.is_ragged
    made, policy = plan(replace(EXACT, is_packed=True))
    assert made.shapes.is_ragged
    assert (policy.can_pad, policy.is_ragged) == (False, True)
    assert not plan(SENSITIVE, Lists())[0].shapes.is_ragged


def test_outputs_of_a_model_with_a_baked_in_length_are_cut_back_where_they_have_positions():
    outputs = (
        TensorSpec("hidden", "FP32", (None, 64, 384)),
        TensorSpec("pooled", "FP32", (None, 64)),
        TensorSpec("other", "FP32", (None, 384, 64)),
    )
    baked = Signature((TensorSpec("ids", "INT64", (None, 64)),), outputs, True)
    made, _ = plan(Findings(baked, "exact", True, kind=Kind.EXACT), lengths=(64,))
    assert made.signature.output_layouts == {"hidden": Layout(ties=(Tie(1),))}
    assert made.signature.outputs[0].shape == (-1, -1, 384)


def test_lengths_are_chosen_from_a_histogram(tmp_path):
    file = tmp_path / "lengths.csv"
    file.write_text("length,count\n8,100\n9,100\n200,3\n210,2\n900,1\n")
    settings = {"length_histogram": str(file), "length_sizes": 2}
    assert plan(EXACT, length_max=300, **settings)[0].shapes.lengths == (9, 210)
    assert plan(EXACT, length_max=300, crop=True, **settings)[0].shapes.lengths == (9, 300)
    assert plan(EXACT, lengths=(64,), **settings)[0].shapes.lengths == (64,)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        (None, "cannot read .*No such file"),
        ("length,count\n", "expected lengths and counts from 1"),
        ("length,count\n0,5\n", "expected lengths and counts from 1"),
        ("length,count\n5,-1\n", "expected lengths and counts from 1"),
        ("length\n5\n", "expected columns length and count"),
        ("length,count\nlong,1\n", "expected columns length and count"),
    ],
)
def test_a_histogram_that_is_none_is_refused(tmp_path, text, pattern):
    file = tmp_path / "lengths.csv"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InvalidSetting, match=pattern):
        plan(EXACT, length_histogram=str(file))


class Exported(Plain):
    inputs = (TensorSpec("ids", "INT64", ("s0", "s1")),)
    bounds = {"s0": (1, 8), "s1": (2, 100), "s2": (1, None)}  # noqa: RUF012


def test_no_run_is_larger_than_what_a_program_was_exported_for():
    made, policy = plan(EXACT, Exported())
    assert (policy.max_batch_size, made.shapes.length_max) == (8, 100)
    assert plan(EXACT, Exported(), max_batch_size=4)[1].max_batch_size == 4
    assert plan(SENSITIVE, Exported())[0].shapes.rows_max == 8


class Asked(Plain):
    """A model that takes requests of any lengths."""

    takes_requests = takes_lists = True


def test_a_model_that_is_given_requests_is_taken_to_pad_them():
    made, policy = plan(EXACT, Asked())
    assert made.shapes.is_ragged
    assert (policy.can_pad, policy.is_ragged) == (True, False)


def test_only_equal_shapes_share_a_run_where_a_configuration_says_so():
    made, _ = plan(EXACT, Asked())
    policy = policy_of(ModelSettings(), EXACT, equal_shapes(made), 1, BatcherRules())
    assert (policy.can_pad, policy.is_ragged, policy.rejects_early) == (False, False, False)
    assert not equal_shapes(made).shapes.is_ragged
