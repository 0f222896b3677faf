"""Findings survive a way through JSON."""

import json

import pytest
from tests.support import models
from tests.support.made import CountingClock

from xirang.backends.onnx import OnnxExecutable
from xirang.engine.probe import probe
from xirang.engine.probe.kept import from_plain, to_plain


@pytest.mark.parametrize(
    "make", [models.masked_double, models.batch_of_one, models.doubled_length, models.same_words]
)
def test_findings_are_the_same_again(make, tmp_path):
    executable = OnnxExecutable(make(tmp_path / "model.onnx"))
    findings = probe(executable, rows_max=8, length_max=32, clock=CountingClock())
    assert from_plain(json.loads(json.dumps(to_plain(findings)))) == findings


@pytest.mark.parametrize("plain", [{}, {"verdict": 1}, {"signature": [], "verdict": "exact"}])
def test_another_form_is_forgotten(plain):
    assert from_plain(plain) is None
