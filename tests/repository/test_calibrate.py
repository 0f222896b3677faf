"""At load a model's footprint is found, if its memory is ours and worth it."""

import numpy as np
import pytest
from tests.support import memory_models, models
from tests.support.native import needs_native

from xirang.backends.executable import footprint_of
from xirang.backends.onnx import OnnxExecutable
from xirang.config import ModelSettings
from xirang.engine.clock import MonotonicClock
from xirang.memory.arena import HostArena
from xirang.repository import calibrate as module
from xirang.repository.calibrate import feed
from xirang.repository.discover import discover
from xirang.repository.load import load

pytestmark = needs_native


def loaded(path, **settings):
    (source,) = discover([str(path)])
    told = ModelSettings(learned="off", warmup_s=0.0, **settings)
    return load(source, told, clock=MonotonicClock()).model


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return loaded(memory_models.encoder(tmp_path_factory.mktemp("m") / "e.onnx"))


@pytest.mark.parametrize("shape", [(1, 5), (3, 40), (16, 100)])
def test_what_it_foresees_is_what_runs_take(encoder, shape):
    footprint = footprint_of(encoder.executable)
    inputs = feed(encoder.signature, shape[0], shape[1:])
    need = footprint.peak_bytes(*shape)
    arena = HostArena()
    arena.resize(0, need)
    room = footprint.room(arena)
    room.open(*shape, need)
    own = {name: room.take(array.shape, array.dtype) for name, array in inputs.items()}
    for name, array in inputs.items():
        own[name][:] = array
    outputs = room.run(encoder.executable, own, encoder.output_names)
    assert room.is_planned
    assert room.peak_bytes == need
    assert outputs["hidden"].shape == (*shape, 32)


def test_it_is_found_in_a_moment(encoder):
    footprint = footprint_of(encoder.executable)
    assert footprint.law.is_exact
    assert footprint.lengths[0] >= 1


def test_a_model_of_a_few_kilobytes_is_left_alone(tmp_path):
    model = loaded(models.add_sub(tmp_path / "m.onnx"))
    assert footprint_of(model.executable) is None
    assert model.executable.is_bare


@pytest.mark.parametrize(
    "make", [models.batch_of_one, models.softmax_over_batch, models.same_words]
)
def test_models_of_any_kind_are_loaded(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH_BYTES", 1)
    model = loaded(make(tmp_path / "m.onnx"))
    found = footprint_of(model.executable)
    assert found is None or found.peak_bytes(1, 1) > 0


def test_it_may_be_switched_off(tmp_path):
    model = loaded(memory_models.encoder(tmp_path / "e.onnx"), memory_native=False)
    assert footprint_of(model.executable) is None
    assert model.executable.library is None


def test_a_rewritten_model_is_governed_too(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "WORTH_BYTES", 1)
    model = loaded(models.batch_of_one(tmp_path / "m.onnx"), rewrite_batch=True)
    assert footprint_of(model.executable) is not None


def test_only_what_takes_its_memory_from_us_is_run(tmp_path):
    path = models.mlp(tmp_path / "m.onnx")
    model = loaded(path)
    plain = OnnxExecutable(path)
    assert module.calibrate(model, plain, lengths_run=(), clock=MonotonicClock()) is None


def test_a_model_that_takes_no_made_up_inputs_has_no_footprint(encoder, monkeypatch):
    def refuse(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(module, "recorded_alone", refuse)
    inner = encoder.executable
    assert module.calibrate(encoder, inner, lengths_run=(), clock=MonotonicClock()) is None


def test_lengths_that_a_model_takes_are_kept_to():
    assert module._tiny(()) == [8, 16, 24]
    assert module._tiny((1, 300)) == [8, 16, 24]
    assert module._tiny((32, 64, 96, 128)) == [32, 64, 96]
    assert module._tiny((224,)) == [224]
    assert module._tiny((4, 12)) == [4, 12]


def test_a_mask_shows_one_padded_position(encoder):
    made = feed(encoder.signature, 2, (5,))
    assert made["mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]
    assert np.all(made["ids"] == 0)
