"""Models that batching or padding changes are caught, every one; the others are not accused."""

import pytest
from tests.support import planted
from tests.support.made import CountingClock

from xirang.backends.onnx import OnnxExecutable
from xirang.engine.probe import Kind, probe

LOWEST = -3.4028234663852886e38


def probed(folder, text, weights=None):
    executable = OnnxExecutable(planted.write(folder, text, weights))
    return probe(executable, rows_max=8, length_max=None, clock=CountingClock())


@pytest.mark.parametrize("name", planted.ROWS_MIX)
def test_rows_that_change_each_other_are_never_run_together(name, tmp_path):
    findings = probed(tmp_path, planted.ROWS_MIX[name])
    assert findings.kind is Kind.BATCH_SENSITIVE
    assert (findings.can_batch, findings.can_pad) == (False, False)


@pytest.mark.parametrize("name", planted.LENGTH_COUNTS)
def test_rows_that_padding_would_change_are_never_padded(name, tmp_path):
    findings = probed(tmp_path, planted.LENGTH_COUNTS[name])
    assert findings.kind is Kind.PAD_UNSAFE
    assert (findings.can_batch, findings.can_pad, findings.paddable) == (True, False, ())


def test_a_recurrent_net_without_lengths_is_not_padded(tmp_path):
    findings = probed(tmp_path, planted.TWO_WAYS, planted.two_ways_weights())
    assert findings.kind is Kind.PAD_UNSAFE
    assert findings.can_batch


def test_a_recurrent_net_that_is_told_its_lengths_is_padded(tmp_path):
    findings = probed(tmp_path, planted.TWO_WAYS_WITH_LENGTHS, planted.two_ways_weights())
    assert findings.kind in (Kind.EXACT, Kind.TOLERANT)
    assert findings.can_pad


@pytest.mark.parametrize("name", planted.NEUTRAL_AT_THE_LOWEST)
def test_a_pad_value_is_found_where_zeros_are_not_neutral(name, tmp_path):
    findings = probed(tmp_path, planted.NEUTRAL_AT_THE_LOWEST[name])
    assert findings.kind in (Kind.EXACT, Kind.TOLERANT)
    assert findings.signature.input_layout("x").pad_value == LOWEST
    assert "x padded with -3.4" in findings.verdict


@pytest.mark.parametrize("name", planted.UNCHANGED)
def test_models_that_batching_leaves_as_they_are_are_not_accused(name, tmp_path):
    findings = probed(tmp_path, planted.UNCHANGED[name])
    assert findings.kind in (Kind.EXACT, Kind.TOLERANT)
    assert (findings.can_batch, findings.can_pad, findings.paddable) == (True, True, (0,))


def test_masks_are_found_by_what_they_do_and_pads_by_what_is_neutral(tmp_path):
    def layout(model, name):
        return probed(tmp_path, planted.UNCHANGED[model]).signature.input_layout(name)

    by_role = layout("attention_by_another_name", "valid")
    assert (by_role.is_mask, by_role.pad_value, by_role.real_value) == (True, 0, 1)
    inverted = layout("padding_is_one", "padding_mask")
    assert (inverted.is_mask, inverted.pad_value, inverted.real_value) == (True, 1, 0)
    ids = layout("pad_is_id_one", "input_ids")
    assert (ids.is_mask, ids.pad_value) == (False, 1)
