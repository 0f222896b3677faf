"""A sliced model is served only if no bit of its answers moves."""

import logging

import numpy as np
import pytest
from tests.support import models
from tests.support.head_models import splade
from tests.support.native import needs_native

from xirang.config import ModelSettings
from xirang.repository import slicing
from xirang.repository.slicing import open_onnx

pytestmark = needs_native


@pytest.fixture
def path(tmp_path):
    return splade(tmp_path / "m.onnx")


def test_what_has_the_same_bits_is_taken(path, caplog):
    caplog.set_level(logging.INFO)
    found = open_onnx(path, ModelSettings())
    assert "computed in slices" in caplog.text
    inputs = {"ids": np.ones((2, 3), np.int64), "mask": np.ones((2, 3), np.int64)}
    assert found.run(inputs, ["best"])["best"].shape == (2, 9000)


def test_what_moves_a_bit_is_not(path, monkeypatch, caplog):
    def wrong(source, target):
        target.write_bytes(splade(source.with_name("other.onnx"), is_turned=True).read_bytes())
        return True

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(slicing, "sliced", wrong)
    open_onnx(path, ModelSettings())
    assert "stay whole: answers of ['best'] move" in caplog.text


def test_what_cannot_be_written_or_run_is_left_alone(path, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("no space left")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(slicing, "sliced", broken)
    assert open_onnx(path, ModelSettings()).outputs[0].name == "best"
    assert "stay whole: no space left" in caplog.text


def test_a_model_that_takes_no_made_up_inputs_is_left_alone(path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(slicing, "HIGHS", (10**6,))
    monkeypatch.setattr(slicing, "SIZES", ((1, 64),))
    open_onnx(path, ModelSettings())
    assert "stay whole: it takes no made-up inputs" in caplog.text


def test_a_model_that_is_left_to_the_runtime_is_not_looked_at(path, monkeypatch):
    monkeypatch.setattr(slicing, "sliced", lambda *_: pytest.fail("looked at"))
    assert open_onnx(path, ModelSettings(memory_native=False)).library is None


def test_others_are_opened_as_they_are(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    assert open_onnx(models.mlp(tmp_path / "m.onnx"), ModelSettings()).inputs
    assert "slices" not in caplog.text
