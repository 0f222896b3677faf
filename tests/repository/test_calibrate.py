"""At load a model's footprint is found, if its memory is ours and worth it."""

import numpy as np
import pytest
from tests.support import memory_models, models
from tests.support.native import needs_native

from xirang.backends.executable import footprint_of
from xirang.backends.onnx import OnnxExecutable
from xirang.config import ModelSettings
from xirang.engine.clock import MonotonicClock
from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.footprint import CACHED_MAX
from xirang.memory.structure import SIZES_MAX
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


@pytest.fixture(scope="module")
def of_two_lengths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    makers = {"pictures": memory_models.pictures, "translator": memory_models.translator}
    return {name: loaded(make(folder / f"{name}.onnx")) for name, make in makers.items()}


SHAPES_OF_TWO = [
    ("pictures", 2, (97, 33)),
    ("pictures", 3, (64, 200)),
    ("pictures", 1, (31, 150)),
    ("translator", 2, (70, 5)),
    ("translator", 7, (9, 80)),
    ("translator", 3, (41, 43)),
]


@pytest.mark.parametrize(("name", "rows", "lengths"), SHAPES_OF_TWO)
def test_what_it_foresees_of_two_lengths_is_what_runs_take(of_two_lengths, name, rows, lengths):
    model = of_two_lengths[name]
    footprint = footprint_of(model.executable)
    need, inputs = footprint.peak_bytes(rows, lengths), feed(model.signature, rows, lengths)
    arena = HostArena()
    arena.resize(0, 2 * need)
    room = footprint.room(arena)

    def run(lease_bytes, rows):
        inputs = feed(model.signature, rows, lengths)
        room.open(rows, lengths, lease_bytes)
        own = {key: room.take(array.shape, array.dtype) for key, array in inputs.items()}
        for key, array in inputs.items():
            own[key][:] = array
        return room.run(model.executable, own, model.output_names)

    outputs = run(need, rows)
    assert room.is_planned
    assert room.peak_bytes == need
    expected = model.executable.run(inputs, model.output_names)
    assert all(np.array_equal(outputs[key], expected[key]) for key in expected)
    # The largest batch of a limit passes, and one row more is refused before it begins.
    largest = footprint.rows_max(lengths, 2 * need)
    assert largest >= 2 * rows
    run(2 * need, largest)
    with pytest.raises(NoMemory):
        run(2 * need, largest + 1)


def test_two_lengths_are_foreseen_by_a_law(of_two_lengths):
    for name, rows, lengths in SHAPES_OF_TWO:
        footprint = footprint_of(of_two_lengths[name].executable)
        assert footprint.law.is_exact
        need = footprint.peak_bytes(rows, lengths)
        foreseen = max(one.bytes_at(rows, lengths) for one in footprint.peaks)
        assert need <= foreseen <= 1.02 * need + 64 * 40


def test_many_shapes_of_two_lengths_leave_nothing_behind(of_two_lengths):
    footprint = footprint_of(of_two_lengths["translator"].executable)
    structure = footprint.structure(1, (5, 5))
    for number in range(1, 10_001):
        lengths = (1 + number % 100, 1 + number // 100)
        footprint.structure(1, lengths).at(lengths)
        if number % 4 == 0:
            footprint.peak_bytes(1 + number % 7, lengths)
            footprint.rows_max(lengths, 1 << 24)
    assert len(structure._at_size) <= SIZES_MAX
    tables = footprint._peaks, footprint._rows, footprint._bests, footprint._held
    assert max(map(len, tables)) <= CACHED_MAX


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


def test_a_mask_shows_one_padded_position(encoder):
    made = feed(encoder.signature, 2, (5,))
    assert made["mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]
    assert np.all(made["ids"] == 0)
