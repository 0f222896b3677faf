"""Runs in worker processes take leases of the server's arenas, and leave nothing behind."""

import asyncio
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.support import memory_models
from tests.support.native import needs_native
from tests.support.wire import until

from xirang.backends.executable import WorkerDied, footprint_of
from xirang.backends.isolated.executable import IsolatedExecutable
from xirang.backends.isolated.leases import WorkerFootprint
from xirang.backends.isolated.life import Life, LifeEnded
from xirang.backends.isolated.messages import Raised
from xirang.backends.isolated.segment import Placed
from xirang.config import ModelSettings
from xirang.core.memory.pool import PoolSettings
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.memory.arena import NoMemory
from xirang.repository.calibrate import feed
from xirang.repository.discover import discover
from xirang.repository.load import load

pytestmark = [needs_native, pytest.mark.slow]

RESERVED_BYTES = 1 << 30
SHAPE = (16, 100)


def loaded(path, **settings):
    (source,) = discover([str(path)])
    settings = {"instances": 1, "process": "yes", "max_batch_size": 64} | settings
    told = ModelSettings(learned="off", warmup_s=0.0, **settings)
    return load(source, told, clock=MonotonicClock()).model


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return memory_models.encoder(tmp_path_factory.mktemp("m") / "encoder.onnx")


@pytest.fixture(scope="module")
def here(path):
    return loaded(path, process="no")


@pytest.fixture
def apart(path):
    model = loaded(path)
    yield model
    model.workers.close()


class Guest:
    """Runs of a model in one arena."""

    def __init__(self, model):
        self.model = model
        self.footprint = footprint_of(model.executable)
        self.arena = self.footprint.arena(RESERVED_BYTES)
        self.room = self.footprint.room(self.arena)
        self.reach = 0

    def reach_to(self, reach_bytes):
        self.arena.resize(self.reach, reach_bytes)
        self.reach = reach_bytes

    def run(self, shape, lease_bytes, seed=0):
        inputs = inputs_of(self.model, shape, seed)
        self.reach_to(max(self.reach, lease_bytes))
        self.room.open(*shape, lease_bytes)
        own = {name: self.room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return self.room.run(self.model.executable, own, self.model.output_names)

    def held_bytes(self):
        """Pages of the file behind the arena."""
        return os.fstat(self.arena.descriptor).st_blocks * 512


def inputs_of(model, shape, seed=0):
    made = feed(model.signature, shape[0], shape[1:])
    made["ids"][:] = np.random.default_rng(seed).integers(0, 100, shape)
    return made


def expected(here, shape, seed=0):
    return here.executable.run(inputs_of(here, shape, seed), ["hidden"])["hidden"]


def test_what_processes_find_is_what_is_found_here(apart, here):
    mine, theirs = footprint_of(apart.executable), footprint_of(here.executable)
    assert isinstance(mine, WorkerFootprint)
    assert mine.peaks == theirs.peaks
    assert apart.claim.fixed_bytes == apart.workers.held_bytes > 1 << 20


@pytest.mark.parametrize("shape", [(1, 5), (3, 40), SHAPE])
def test_a_run_in_a_lease_gives_the_same_bits_and_reaches_as_far_as_was_foreseen(
    apart, here, shape
):
    guest = Guest(apart)
    need = guest.footprint.peak_bytes(*shape)
    outputs = guest.run(shape, need)
    np.testing.assert_array_equal(outputs["hidden"], expected(here, shape))
    assert outputs["hidden"].flags.owndata, "the next run begins at the same bottom"
    assert guest.room.is_planned
    assert 0.99 * need - 256 < guest.room.peak_bytes <= need


def test_the_largest_batch_of_a_lease_passes_and_one_row_more_does_not(apart):
    guest = Guest(apart)
    for length in (16, 50, 128):
        rows = guest.footprint.rows_max(length, 4 << 20)
        guest.run((rows, length), 4 << 20)
        with pytest.raises(NoMemory) as refused:
            guest.run((rows + 1, length), 4 << 20)
        assert refused.value.needed_bytes > 4 << 20
        guest.run((rows + 1, length), refused.value.needed_bytes)


def test_a_run_that_was_refused_goes_on_in_place_with_more(apart, here):
    guest = Guest(apart)
    inputs = inputs_of(apart, SHAPE)
    guest.reach_to(32 << 20)
    guest.room.open(*SHAPE, 1 << 20)
    own = {name: guest.room.take(array.shape, array.dtype) for name, array in inputs.items()}
    for name, array in inputs.items():
        own[name][...] = array
    with pytest.raises(NoMemory) as refused:
        guest.room.run(apart.executable, own, ["hidden"])
    guest.room.extend(refused.value.needed_bytes)
    outputs = guest.room.run(apart.executable, own, ["hidden"])
    np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE))


def test_pages_that_are_taken_back_go_from_both_and_come_again(apart, here):
    guest = Guest(apart)
    need = guest.footprint.peak_bytes(*SHAPE)
    (process,) = apart.workers.process_ids
    for seed in range(3):
        outputs = guest.run(SHAPE, need, seed)
        np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE, seed))
        assert guest.held_bytes() >= need
        assert shared_bytes(process) >= need
        guest.reach_to(0)
        assert guest.held_bytes() == 0
        assert shared_bytes(process) < need


def shared_bytes(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssShmem"))


def test_a_process_that_dies_under_a_run_leaves_the_arena_to_its_successor(apart, here):
    guest = Guest(apart)
    need = guest.footprint.peak_bytes(*SHAPE)
    guest.run(SHAPE, need)
    (process,) = apart.workers.process_ids
    os.kill(process, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(guest.run, SHAPE, need)
        until(lambda: not apart.workers.wait(0), "the run to have the process")
        os.kill(process, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            running.result()
    assert guest.arena.pinned_bytes == 0
    assert apart.workers.wait(30)
    outputs = guest.run(SHAPE, need)
    np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE))
    assert guest.room.is_planned, "its successor has learned the same"
    assert apart.workers.process_ids != [process]


def test_all_processes_learn_and_each_run_stays_in_its_own_arena(path, here):
    model = loaded(path, instances=2)
    try:
        guests = [Guest(model), Guest(model)]
        need = guests[0].footprint.peak_bytes(*SHAPE)

        def repeated(guest, first):
            for seed in range(first, 40, 2):
                outputs = guest.run(SHAPE, need, seed)
                np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE, seed))
                assert guest.room.is_planned

        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(repeated, guest, n) for n, guest in enumerate(guests)]:
                done.result()
    finally:
        model.workers.close()


def test_what_outlived_its_run_in_a_process_is_in_nobodys_way(apart, here):
    guest = Guest(apart)
    guest.arena.pinned_bytes = 1000
    need = 1024 + guest.footprint.peak_bytes(*SHAPE)
    outputs = guest.run(SHAPE, need)
    np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE))
    assert 0.99 * need - 256 < guest.room.peak_bytes <= need
    assert guest.arena.pinned_bytes == 0, "the process says that nothing lives there"


@pytest.mark.parametrize(
    "where",
    [
        Placed("hidden", "<f4", (1 << 40,), 0, in_arena=True),
        Placed("hidden", "<f4", (1,), RESERVED_BYTES, in_arena=True),
        Placed("hidden", "<f4", (1,), -8, in_arena=True),
        Placed("hidden", "<f4", (-1, -1), 8, in_arena=True),
        Placed("hidden", "|O", (1,), 0, in_arena=True),
        Placed("hidden", "nonsense", (1,), 0, in_arena=True),
    ],
)
def test_a_process_that_points_beside_the_arena_is_ended(apart, monkeypatch, where):
    guest = Guest(apart)
    ask = Life._ask

    def lying(self, message, descriptor, line):
        answer = ask(self, message, descriptor, line)
        return (
            msgspec.structs.replace(answer, placed=[where]) if hasattr(answer, "placed") else answer
        )

    monkeypatch.setattr(Life, "_ask", lying)
    with pytest.raises(WorkerDied, match="nonsense"):
        guest.run(SHAPE, 16 << 20)


def test_what_a_process_says_of_its_memory_is_not_taken_for_less_than_nothing(
    apart, here, monkeypatch
):
    guest, ask = Guest(apart), Life._ask

    def lying(self, message, descriptor, line):
        answer = ask(self, message, descriptor, line)
        if hasattr(answer, "pinned_bytes"):
            answer = msgspec.structs.replace(answer, pinned_bytes=-640, peak_bytes=-1)
        return answer

    monkeypatch.setattr(Life, "_ask", lying)
    for _ in range(2):
        outputs = guest.run(SHAPE, guest.footprint.peak_bytes(*SHAPE))
        np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE))
        assert (guest.room.peak_bytes, guest.arena.pinned_bytes) == (0, 0)


def test_a_process_that_cannot_map_an_arena_says_so(apart, monkeypatch):
    guest = Guest(apart)
    ask = Life._ask

    def full(self, message, descriptor, line):
        if descriptor is not None:
            os.close(descriptor)
        return Raised("NoMemory", "no addresses", "")

    monkeypatch.setattr(Life, "_ask", full)
    with pytest.raises(NoMemory, match="no addresses"):
        guest.run(SHAPE, 16 << 20)
    monkeypatch.setattr(Life, "_ask", ask)
    guest.run(SHAPE, 16 << 20)


def test_a_process_that_ends_over_its_study_is_followed_by_one_that_learns(path, monkeypatch):
    study, failures = Life.study, [1]

    def failing(self, lesson):
        if failures:
            failures.pop()
            self.end()
            raise LifeEnded("it ended")
        return study(self, lesson)

    monkeypatch.setattr(Life, "study", failing)
    model = loaded(path)
    try:
        assert footprint_of(model.executable) is None, "nobody told what it takes"
        inputs = inputs_of(model, SHAPE)
        assert model.workers.wait(30)
        assert model.executable.run(inputs, ["hidden"])["hidden"].shape == (*SHAPE, 32)
    finally:
        model.workers.close()


@pytest.mark.parametrize("settings", [{"memory_native": False}, {"length_max": 8}])
def test_small_models_and_those_without_our_allocator_are_left_alone(path, settings):
    model = loaded(path, **settings)
    try:
        assert footprint_of(model.executable) is None
        assert model.claim.peaks == ()
        assert model.claim.fixed_bytes == model.workers.held_bytes > 1 << 20
        assert model.executable.run(inputs_of(model, (2, 8)), ["hidden"])["hidden"].shape[0] == 2
    finally:
        model.workers.close()


def test_a_process_that_has_learned_nothing_runs_without_its_lease(path, here):
    knowing, ignorant = loaded(path), loaded(path, memory_native=False)
    try:
        ignorant.executable.footprint = footprint_of(knowing.executable)
        guest = Guest(ignorant)
        outputs = guest.run(SHAPE, guest.footprint.peak_bytes(*SHAPE))
        np.testing.assert_allclose(outputs["hidden"], expected(here, SHAPE), rtol=1e-5)
        assert (guest.room.peak_bytes, guest.room.is_planned) == (0, False)
    finally:
        knowing.workers.close()
        ignorant.workers.close()


async def answered(engine, name, here, shapes):
    async def one(number, shape):
        inputs = inputs_of(here, shape, number)
        outputs = await engine.infer(name, inputs)
        np.testing.assert_array_equal(outputs["hidden"], expected(here, shape, number))

    await asyncio.gather(*[one(number, shape) for number, shape in enumerate(shapes)])


def engine_with(*found, capacity_bytes=256 << 20):
    pool = PoolSettings(capacity_bytes)
    engine = Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool))
    for model in found:
        engine.add(model)
    return engine


def leased(engine):
    return [share["leased_bytes"] for share in engine.memory()["shares"]]


def test_a_lease_is_held_until_a_hung_process_is_ended_and_given_back_once(path, here, monkeypatch):
    model = loaded(path, hang_s=1.0)
    engine = engine_with(model)
    held, run = [], IsolatedExecutable.run

    def noted(*arguments):
        held.append(leased(engine))
        return run(*arguments)

    async def main():
        async with engine:
            await answered(engine, model.name, here, [SHAPE])
            (process,) = model.workers.process_ids
            os.kill(process, signal.SIGSTOP)
            monkeypatch.setattr(IsolatedExecutable, "run", noted)
            # The process is ended, and the run made again in another.
            outputs = await engine.infer(model.name, inputs_of(here, SHAPE))
            assert len(held) == 2
            assert min(held) > [0]
            np.testing.assert_array_equal(outputs["hidden"], expected(here, SHAPE))
            assert leased(engine) == [0]
            assert model.workers.restarts == 1
            engine.check_integrity()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_limit_holds_in_processes_and_whoever_wants_more_goes_in_parts(path, here):
    model = loaded(path)
    held = model.workers.held_bytes
    limit_bytes = (held // (2 << 20) + 4) * (2 << 20)
    model.claim = replace(
        model.claim, limit_bytes=limit_bytes, guarantee_bytes=0, wish_bytes=0, keep_bytes=0
    )
    engine = engine_with(model)

    async def main():
        async with engine:
            await answered(engine, model.name, here, [(60, 100), *[(1, 100)] * 20])
            (share,) = engine.memory()["shares"]
            assert share["committed_bytes"] + share["fixed_bytes"] <= limit_bytes
            assert share["real_bytes"] <= 6 << 20

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_program_of_pytorch_is_planned_in_its_process_as_it_is_here(tmp_path):
    torch = pytest.importorskip("torch")
    planned_models = pytest.importorskip("tests.support.planned_models")
    rows, length = (torch.export.Dim(n, min=1, max=512) for n in ("rows", "length"))
    example = torch.ones(2, 16, dtype=torch.int64)
    program = torch.export.export(
        planned_models.Encoder(width=64).eval(),
        (example, example),
        dynamic_shapes=({0: rows, 1: length},) * 2,
    )
    torch.export.save(program, tmp_path / "encoder.pt2")
    here = loaded(tmp_path / "encoder.pt2", process="no")
    apart = loaded(tmp_path / "encoder.pt2")
    try:
        assert apart.executable.planning == here.executable.planning
        guest, (name,) = Guest(apart), here.output_names
        for shape in ((1, 5), SHAPE):
            outputs = guest.run(shape, guest.footprint.peak_bytes(*shape))
            plain = here.executable.run(inputs_of(here, shape), [name])
            np.testing.assert_array_equal(outputs[name], plain[name])
            assert guest.room.is_planned
        with pytest.raises(NoMemory):
            guest.run(SHAPE, 1 << 16)
    finally:
        apart.workers.close()
