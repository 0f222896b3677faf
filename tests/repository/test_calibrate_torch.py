"""A model of PyTorch as the server loads it: planned, leased from the pool, answered as always."""

import asyncio
import logging
import warnings
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support import planned_models  # noqa: E402

from xirang.backends.executable import footprint_of  # noqa: E402
from xirang.backends.torch import TorchExecutable, torch_file  # noqa: E402
from xirang.backends.torch_room import TorchRoom  # noqa: E402
from xirang.config import ModelSettings  # noqa: E402
from xirang.core.memory.pool import PoolSettings  # noqa: E402
from xirang.core.scheduler import Scheduler  # noqa: E402
from xirang.engine.clock import MonotonicClock  # noqa: E402
from xirang.engine.engine import Engine  # noqa: E402
from xirang.engine.info import describe  # noqa: E402
from xirang.repository.discover import discover  # noqa: E402
from xirang.repository.load import load  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("m") / "encoder.pt2"
    rows = torch.export.Dim("rows", min=1, max=256)
    length = torch.export.Dim("length", min=1, max=512)
    example = torch.ones(2, 16, dtype=torch.int64)
    program = torch.export.export(
        planned_models.Encoder(width=64).eval(),
        (example, example),
        dynamic_shapes=({0: rows, 1: length},) * 2,
    )
    torch.export.save(program, path)
    return path


def loaded(path, **settings):
    (source,) = discover([str(path)])
    return load(source, ModelSettings(**settings), clock=MonotonicClock()).model


def request(dice, rows, length):
    ids = [[dice.randrange(100) for _ in range(length)] for _ in range(rows)]
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": np.array(ids), "mask": mask}


def test_it_is_planned_and_says_so_once(encoder, caplog):
    with caplog.at_level(logging.INFO):
        model = loaded(encoder)
    told = [record.getMessage() for record in caplog.records]
    (said,) = [each for each in told if "lie in the plan" in each]
    own = describe(model, ("1",), is_ready=True).config["xirang"]
    assert said == f"encoder: {own['planning']}"
    footprint = footprint_of(model.executable)
    assert footprint is not None
    assert model.claim is not None
    assert model.claim.peaks == footprint.peaks
    assert footprint.rows_max(64, 8 << 20) > 8


def test_it_can_be_switched_off(encoder):
    model = loaded(encoder, memory_native=False)
    assert footprint_of(model.executable) is None
    assert model.claim.peaks == ()


def test_an_engine_leases_its_runs_and_every_answer_is_its_own(encoder, monkeypatch):
    rooms = []
    run = TorchRoom.run

    def noted(room, *arguments):
        try:
            return run(room, *arguments)
        finally:
            rooms.append((room.is_planned, room.peak_bytes, room._lease_bytes))

    monkeypatch.setattr(TorchRoom, "run", noted)
    model, plain = loaded(encoder, max_batch_size=16), torch_file(encoder)
    dice = Random(0)
    requests = [request(dice, dice.randint(1, 4), dice.choice([5, 9, 30, 64])) for _ in range(60)]

    async def ask():
        pool = PoolSettings(64 << 20, slab_bytes=64 << 10)
        async with Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool)) as engine:
            engine.add(model)
            answers = await asyncio.gather(*[engine.infer("encoder", each) for each in requests])
            return answers, engine.memory()

    answers, told = asyncio.run(asyncio.wait_for(ask(), 60))
    name = model.output_names[0]
    for each, answer in zip(requests, answers, strict=True):
        expected = plain.run(each, [name])[name]
        np.testing.assert_allclose(answer[name], expected, 1e-5, 1e-6)
    assert rooms
    assert all(is_planned for is_planned, _, _ in rooms)
    assert all(peak_bytes <= lease_bytes for _, peak_bytes, lease_bytes in rooms)
    assert told["held_bytes"] > 0


def test_a_model_that_cannot_be_planned_serves_as_before(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("xirang.backends.torch.allocator", lambda: None)
    rows = torch.export.Dim("rows", min=1, max=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(
            planned_models.Counted().eval(), (torch.ones(2, 4),), dynamic_shapes=({0: rows},)
        )
    torch.export.save(program, tmp_path / "counted.pt2")
    with caplog.at_level(logging.INFO):
        model = loaded(tmp_path / "counted.pt2")
    assert "counted: runs unplanned: its shapes depend on its data" in caplog.text
    assert isinstance(model.executable, TorchExecutable)
    assert model.claim.peaks == ()
    inputs = {"x": np.ones((3, 4), np.float32)}
    (answer,) = model.executable.run(inputs, model.output_names).values()
    assert answer.tolist() == [4, 4, 4]


def test_what_is_too_small_to_be_worth_a_place_is_left_alone(tmp_path):
    rows = torch.export.Dim("rows", min=1, max=8)
    program = torch.export.export(
        planned_models.Turned().eval(), (torch.ones(2, 4, 4),), dynamic_shapes=({0: rows},)
    )
    torch.export.save(program, tmp_path / "turned.pt2")
    model = loaded(tmp_path / "turned.pt2")
    assert footprint_of(model.executable) is None
    assert "too small to be worth a place" in model.executable.planning
