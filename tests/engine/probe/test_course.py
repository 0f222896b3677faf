"""What a probe finds out about models whose every number is known."""

import numpy as np
import pytest
from tests.support import models
from tests.support.made import CountingClock

from xirang.backends.onnx import OnnxExecutable
from xirang.core.signature import Layout, TensorSpec, Tie
from xirang.engine.probe import LENGTHS, ROWS, Kind, probe


def probed(executable, *, rows_max=8, length_max=32):
    return probe(executable, rows_max=rows_max, length_max=length_max, clock=CountingClock())


def probed_file(make, tmp_path, **bounds):
    return probed(OnnxExecutable(make(tmp_path / "model.onnx")), **bounds)


def test_a_masked_model_is_exact_and_its_tied_axes_are_found(tmp_path):
    findings = probed_file(models.masked_double, tmp_path)
    assert findings.verdict.startswith("exact")
    assert (findings.can_batch, findings.can_pad) == (True, True)
    assert findings.signature.is_batched
    assert findings.signature.input_layouts == {
        "ids": Layout(ties=(Tie(1),)),
        "attention_mask": Layout(ties=(Tie(1),), is_mask=True),
    }
    assert (findings.kind, findings.paddable, findings.difference) == (Kind.EXACT, (0,), 0.0)
    assert "(mask attention_mask)" in findings.verdict
    assert findings.signature.output_layouts == {"doubled": Layout(ties=(Tie(1),))}
    assert findings.elements_max is not None


@pytest.mark.parametrize("make", [models.mlp, models.add_sub, models.same_words])
def test_models_of_fixed_rows_batch_and_have_nothing_to_pad(make, tmp_path):
    findings = probed_file(make, tmp_path)
    assert findings.can_batch
    assert not findings.can_pad
    assert findings.signature.input_layouts == {}
    assert findings.verdict.split(":")[0] in ("exact", "tolerant")
    assert [sample.rows for sample in findings.samples] == [r for r in ROWS if r <= 8]


@pytest.mark.parametrize("make", [models.unmasked_mean, models.reversed_rows])
def test_models_that_padding_would_change_share_only_equal_shapes(make, tmp_path):
    findings = probed_file(make, tmp_path)
    assert findings.verdict.startswith("pad-unsafe: padding moves answers")
    assert (findings.can_batch, findings.can_pad, findings.paddable) == (True, False, ())


def test_outputs_that_cannot_be_cut_back_are_not_padded(tmp_path):
    findings = probed_file(models.doubled_length, tmp_path)
    assert findings.verdict.startswith("pad-unsafe")
    assert (findings.can_batch, findings.can_pad) == (True, False)


@pytest.mark.parametrize(
    "make",
    [
        models.softmax_over_batch,
        models.quantised_per_run,
        models.sum_over_batch,
    ],
)
def test_models_whose_rows_change_each_other_run_singly(make, tmp_path):
    findings = probed_file(make, tmp_path)
    assert findings.verdict.startswith("batch-sensitive: rows change each other")
    assert (findings.can_batch, findings.can_pad) == (False, False)
    assert max(sample.rows for sample in findings.samples) > 1, "a request may have several"


def test_rows_are_found_on_whichever_axis_they_are(tmp_path):
    findings = probed_file(models.length_first, tmp_path)
    assert findings.verdict.startswith("exact")
    assert findings.signature.output_layouts == {"y": Layout(batch_axis=1, ties=(Tie(0),))}


def test_a_baked_batch_runs_singly(tmp_path):
    findings = probed_file(models.batch_of_one, tmp_path)
    assert findings.verdict == "batch-fixed: each request is a run of its own"
    assert findings.kind is Kind.BATCH_FIXED
    assert not findings.can_batch
    assert not findings.signature.is_batched
    assert len(findings.samples) == 1


def test_the_grid_keeps_within_the_models_bounds(tmp_path):
    findings = probed_file(models.masked_double, tmp_path, rows_max=4, length_max=20)
    assert {sample.rows for sample in findings.samples} == {1, 4}
    assert {sample.length for sample in findings.samples} == {8}
    findings = probed_file(models.masked_double, tmp_path, rows_max=1, length_max=None)
    assert {sample.length for sample in findings.samples} == set(LENGTHS)


def test_a_model_shorter_than_the_shortest_probe_is_measured_at_its_own_length(tmp_path):
    findings = probed_file(models.masked_double, tmp_path, length_max=5)
    assert {sample.length for sample in findings.samples} == {5}


def test_probing_stops_when_its_time_is_spent(tmp_path):
    class SlowClock(CountingClock):
        def now_ns(self):
            return super().now_ns() * 1000

    executable = OnnxExecutable(models.mlp(tmp_path / "model.onnx"))
    findings = probe(executable, rows_max=64, length_max=None, clock=SlowClock())
    assert len(findings.samples) == 1


class Picky:
    """Refuses whatever is not all sevens: a probe cannot know that."""

    platform, is_reentrant, keeps_inputs = "picky", True, False
    inputs = (TensorSpec("x", "INT64", ("batch", "length")),)
    outputs = (TensorSpec("y", "INT64", ("batch", "length")),)

    def run(self, inputs, wanted):
        if (inputs["x"] != 7).any():
            raise ValueError("sevens only")
        return {"y": inputs["x"]}


def test_a_model_that_refuses_made_up_inputs_is_served_with_equal_shapes_only():
    findings = probed(Picky())
    assert findings.verdict.startswith("not probed: it refuses made-up inputs")
    assert (findings.can_batch, findings.can_pad) == (True, False)
    assert findings.samples == ()


class OnlyShort(Picky):
    """Fails on rows longer than eight, as a table of positions would."""

    def run(self, inputs, wanted):
        if inputs["x"].shape[1] > 9:
            raise IndexError("no such position")
        return {"y": np.where(inputs["x"] > 0, inputs["x"], 0)}


def test_lengths_that_a_model_refuses_leave_it_served():
    findings = probed(OnlyShort())
    assert (findings.can_batch, findings.can_pad) == (True, True)
    assert max(findings.lengths_run[0]) == 9
    assert {sample.length for sample in findings.samples} == {8}


class Noisy(Picky):
    """Moves by a ten-millionth of its values when batched: no reason not to batch."""

    inputs = (TensorSpec("x", "FP32", ("batch", 4)),)
    outputs = (TensorSpec("y", "FP32", ("batch", 4)),)

    def run(self, inputs, wanted):
        return {"y": inputs["x"] * np.float32(1 + 2e-7 * len(inputs["x"]))}


def test_rounding_is_tolerated_and_told():
    findings = probed(Noisy())
    assert findings.verdict.startswith("tolerant: batching rounds answers off by")
    assert findings.can_batch


def test_a_probe_gives_the_same_each_time(tmp_path):
    first, second = (probed_file(models.masked_double, tmp_path) for _ in range(2))
    assert first == second
