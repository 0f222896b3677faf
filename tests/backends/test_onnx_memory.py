"""ONNX Runtime in our arenas: the same bits as on its own, in as much memory as was foreseen."""

import logging
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.support import memory_models
from tests.support.core import request
from tests.support.native import needs_native

from xirang.backends import onnx_allocator
from xirang.backends.executable import OutOfMemory
from xirang.backends.onnx import OnnxExecutable
from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import of_traffic
from xirang.core.memory.polynomial import Polynomial
from xirang.core.run import Done, Run, Trigger
from xirang.engine.faults import execute
from xirang.errors import XirangError
from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.footprint import NativeFootprint
from xirang.memory.room import recorded_alone

pytestmark = needs_native

TINY = [(rows, length) for rows in (1, 2, 3) for length in (8, 16, 24)]
SHAPES = [(1, 1), (1, 8), (5, 7), (16, 33), (32, 64), (3, 200), (64, 12)]


class Served:
    """A model in a room, and the same as the runtime runs it by itself."""

    def __init__(self, path, inputs_of):
        self.inputs_of = inputs_of
        self.model = OnnxExecutable(path, is_governed=True)
        self.plain = OnnxExecutable(path)
        self.names = [spec.name for spec in self.model.outputs]
        self.library = self.model.library
        assert self.library is not None
        dice = np.random.default_rng(0)
        samples = []
        for size in TINY:
            inputs = inputs_of(dice, *size)
            traffic = recorded_alone(self.library, self.model, inputs, self.names)
            samples.append(Traced(*size, of_traffic(traffic)))
        one = inputs_of(dice, 1, 1)
        each = [Polynomial((0, 0, 0, array.nbytes, 0, 0)) for array in one.values()]
        self.footprint = NativeFootprint(self.library, samples, each, (8, 64, 256))
        self.arena = HostArena(4 << 30)
        self.room = self.footprint.room(self.arena)

    def run(self, inputs, *, lease_bytes=None, room=None):
        room = room or self.room
        rows, length = next(iter(inputs.values())).shape[:2]
        need = self.footprint.peak_bytes(rows, length)
        room.open(rows, length, need if lease_bytes is None else lease_bytes)
        own = {name: room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return room.run(self.model, own, self.names)

    def is_same(self, inputs, outputs):
        expected = self.plain.run(inputs, self.names)
        return all(np.array_equal(outputs[name], expected[name]) for name in self.names)


def ids_and_mask(dice, rows, length):
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 :] = 0
    return {"ids": dice.integers(0, 100, (rows, length)), "mask": mask}


def ids_alone(dice, rows, length):
    return {"ids": dice.integers(0, 100, (rows, length))}


def x_and_mask(dice, rows, length):
    mask = np.ones((rows, length), np.int64)
    mask[0, -1] = 0
    return {"x": dice.standard_normal((rows, length, 32), np.float32), "mask": mask}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return Served(memory_models.encoder(tmp_path_factory.mktemp("m") / "e.onnx"), ids_and_mask)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return Served(memory_models.wide_head(tmp_path_factory.mktemp("m") / "w.onnx"), ids_alone)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_in_exactly_the_memory_that_was_foreseen(encoder, shape):
    inputs = encoder.inputs_of(np.random.default_rng(1), *shape)
    outputs = encoder.run(inputs)
    assert encoder.is_same(inputs, outputs)
    told = encoder.room._ground.run
    assert told.hits == told.requests > 10
    assert encoder.room.is_planned
    assert encoder.room.peak_bytes == encoder.footprint.peak_bytes(*shape)
    assert told.leftover_bytes == told.spilled_bytes == 0


def test_answers_stay_when_the_next_run_overwrites_the_arena(encoder):
    dice = np.random.default_rng(2)
    first = encoder.inputs_of(dice, 4, 9)
    outputs = encoder.run(first)
    for _ in range(3):
        encoder.run(encoder.inputs_of(dice, 8, 30))
    assert encoder.is_same(first, outputs)


@pytest.mark.parametrize("length", [1, 8, 24, 64, 100, 128, 200, 256])
def test_the_largest_batch_of_a_budget_passes_and_one_row_more_does_not(encoder, length):
    dice, budget = np.random.default_rng(3), 4_000_000
    rows = encoder.footprint.rows_max(length, budget)
    inputs = encoder.inputs_of(dice, rows, length)
    assert encoder.is_same(inputs, encoder.run(inputs, lease_bytes=budget))
    with pytest.raises(NoMemory):
        encoder.run(encoder.inputs_of(dice, rows + 1, length), lease_bytes=budget)


def test_the_allocator_refuses_at_each_call_in_turn(encoder):
    inputs = encoder.inputs_of(np.random.default_rng(4), 3, 11)
    encoder.run(inputs)
    told = encoder.room._ground.run
    for number in range(told.requests):
        told.refuse_at = number
        try:
            with pytest.raises(OutOfMemory):
                encoder.run(inputs)
        finally:
            told.refuse_at = -1
        assert told.leftover_bytes == 0
        assert encoder.is_same(inputs, encoder.run(inputs))
        assert encoder.room.is_planned


def test_two_models_in_two_threads_at_random_shapes(encoder, wide):
    wrong, count = [], [0, 0]

    def live(seed):
        dice = np.random.default_rng(seed)
        arena = HostArena(4 << 30)
        rooms = {served: served.footprint.room(arena) for served in (encoder, wide)}
        for _ in range(60):
            served = (encoder, wide)[dice.integers(2)]
            inputs = served.inputs_of(dice, int(dice.integers(1, 20)), int(dice.integers(1, 40)))
            outputs = served.run(inputs, room=rooms[served])
            if not (served.is_same(inputs, outputs) and rooms[served].is_planned):
                wrong.append(seed)
            count[seed] += 1

    threads = [threading.Thread(target=live, args=[seed]) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, count) == ([], [60, 60])


def test_a_mask_of_ones_that_the_model_drops_changes_the_trace_and_not_the_answer(tmp_path):
    served = Served(memory_models.dropping_mask(tmp_path / "d.onnx"), x_and_mask)
    dice, planned = np.random.default_rng(5), []
    for turn in range(12):
        inputs = served.inputs_of(dice, 4, 16)
        if 3 <= turn < 8:
            inputs["mask"][:] = 1
        assert served.is_same(inputs, served.run(inputs))
        planned.append(served.room.is_planned)
        served.footprint.settle()
    assert planned[:4] == [True, True, True, False]
    assert planned[6:8] == [True, True], "it has learned the other way"
    assert planned[-2:] == [True, True], "and knows the first one still"


def test_sizes_that_hang_on_the_data_are_answered(tmp_path):
    def zeros(dice, rows, length):
        return {"x": (dice.random((rows, length)) < 0.01).astype(np.float32)}

    served = Served(memory_models.counted(tmp_path / "c.onnx"), zeros)
    dice = np.random.default_rng(6)
    for density in (0.0, 0.01, 0.5, 1.0):
        for rows, length in ((1, 8), (20, 300)):
            inputs = {"x": (dice.random((rows, length)) < density).astype(np.float32)}
            assert served.is_same(inputs, served.run(inputs))
            served.footprint.settle()


class FakeClock:
    def now_ns(self):
        return 0


def test_an_output_larger_than_the_budget_is_split_and_answered(wide):
    """32 rows of 128 tokens and 8,192 scores each: 134 MB under 80."""
    budget = 80_000_000
    assert wide.footprint.peak_bytes(32, 128) > 134_000_000
    dice = np.random.default_rng(7)
    members = [wide.inputs_of(dice, 1, 128)["ids"] for _ in range(32)]

    def work(part, *, clock):
        scores = wide.run({"ids": np.concatenate(part)}, lease_bytes=budget)["scores"]
        return list(scores), Done(ran_ns=1)

    requests = tuple(request(number) for number in range(32))
    run = Run(1, "wide", 0, requests, 32, 128, Trigger.ALONE, 0, 1, 0, 0)
    results, outcome = execute(run, members, work, clock=FakeClock())
    assert outcome.is_out_of_memory
    assert not any(isinstance(result, XirangError) for result in results)
    for ids, scores in zip(members, results, strict=True):
        assert np.array_equal(scores, wide.plain.run({"ids": ids}, ["scores"])["scores"][0])


def test_a_library_that_cannot_be_loaded_is_warned_of_once(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(onnx_allocator, "_found", [])
    with caplog.at_level(logging.WARNING):
        assert onnx_allocator.allocator(tmp_path / "nothing.so") is None
        assert onnx_allocator.allocator() is None
    (record,) = caplog.records
    assert onnx_allocator.LOST in record.message


def test_a_library_that_is_no_allocator_is_warned_of(monkeypatch, caplog, tmp_path):
    monkeypatch.setattr(onnx_allocator, "_found", [])
    (tmp_path / "text.so").write_text("this is no library")
    assert onnx_allocator.allocator(tmp_path / "text.so") is None
    assert "not used" in caplog.text


PORTABLE = """
import sys
from pathlib import Path
import numpy as np
from xirang.backends import onnx_allocator
from xirang.backends.onnx import LULL, OnnxExecutable

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

assert onnx_allocator.allocator(Path("/nowhere.so")) is None
model, plain = (OnnxExecutable(Path(sys.argv[1]), is_governed=g) for g in (True, False))
small = {"ids": np.zeros((1, 1), np.int64)}
model.run(small, ["scores"])
before = resident()
large = {"ids": np.full((64, 64), 3)}
found, expected = (each.run(large, ["scores"])["scores"] for each in (model, plain))
assert np.array_equal(found, expected)
del found, expected
del plain
kept = resident() - before
for _ in range(LULL):
    model.run(small, ["scores"])
given = resident() - before
print(kept, given, onnx_allocator._shared)
assert onnx_allocator._shared == [True]
assert given < kept - 100e6, (kept, given)
"""


@pytest.mark.slow
def test_the_portable_tier_shares_an_arena_and_shrinks_it_when_told(tmp_path):
    path = memory_models.wide_head(tmp_path / "w.onnx")
    ended = subprocess.run(
        [sys.executable, "-c", PORTABLE, str(path)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_the_native_source_comes_with_the_package():
    from xirang.memory.native import compile as building

    assert all(Path(source).exists() for source in building.SOURCES)
