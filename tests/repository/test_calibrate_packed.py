"""A model whose rows stand end to end is counted: by tokens, rows and the longest row."""

import asyncio
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support import packed_encoder  # noqa: E402
from tests.support.torch_native import needs_allocator  # noqa: E402

from xirang.backends.executable import footprint_of  # noqa: E402
from xirang.backends.torch import torch_module  # noqa: E402
from xirang.config import ModelSettings  # noqa: E402
from xirang.core.memory.pool import PoolSettings  # noqa: E402
from xirang.core.scheduler import Scheduler  # noqa: E402
from xirang.engine.clock import MonotonicClock  # noqa: E402
from xirang.engine.engine import Engine  # noqa: E402
from xirang.memory.room import InstanceRoom  # noqa: E402
from xirang.repository.discover import discover  # noqa: E402
from xirang.repository.load import load  # noqa: E402

SLAB = 64 << 10


@pytest.fixture(scope="module")
def model():
    needs_allocator()
    (source,) = discover(["torch:tests.support.packed_encoder:PackedEncoder"])
    settings = ModelSettings(warmup_s=0, max_batch_size=32, length_max=100, instances=1)
    return load(source, settings, clock=MonotonicClock()).model


def test_it_has_a_law_and_a_claim(model):
    footprint = footprint_of(model.executable)
    assert footprint is not None
    assert model.claim is not None
    assert model.claim.is_packed
    assert "by tokens, rows and the longest row" in model.executable.planning
    assert footprint.peak_bytes(8, (80, 40)) < footprint.peak_bytes(8, (320, 40))


def test_every_run_stays_in_a_lease_that_is_close_to_what_it_takes(model, monkeypatch):
    runs = []
    run = InstanceRoom.run

    def noted(room, *arguments):
        try:
            return run(room, *arguments)
        finally:
            runs.append((room.rows, room.length, room.peak_bytes, room._lease_bytes))

    monkeypatch.setattr(InstanceRoom, "run", noted)
    footprint, dice = footprint_of(model.executable), Random(0)
    plain = torch_module(packed_encoder.PackedEncoder(), name="plain")
    lengths = [dice.choice([3, 9, 30, 64, 100]) for _ in range(80)]
    requests = [
        {
            "ids": np.array(
                [[dice.randrange(100) for _ in range(n)] for _ in range(dice.choice((1, 3)))]
            )
        }
        for n in lengths
    ]
    pool = PoolSettings((footprint.peak_bytes(16, 100) // SLAB + 40) * SLAB, slab_bytes=SLAB)

    async def ask():
        async with Engine(scheduler=Scheduler(devices={"cpu": 1}, pool=pool)) as engine:
            engine.add(model)
            answers = await asyncio.gather(*[engine.infer(model.name, each) for each in requests])
            return answers, engine._look()[1].memory.shares[0]

    answers, share = asyncio.run(asyncio.wait_for(ask(), 60))
    for each, answer in zip(requests, answers, strict=True):
        expected = plain.run(each, ["hidden", "mean"])
        for name in expected:
            np.testing.assert_allclose(answer[name], expected[name], 1e-4, 1e-5)
    assert any(len({rows, size[0] // size[1]}) > 1 for rows, size, _, _ in runs), (
        "of unlike lengths"
    )
    for rows, size, peak_bytes, lease_bytes in runs:
        need = footprint.peak_bytes(rows, size)
        assert peak_bytes <= need <= max(lease_bytes, SLAB)
        assert need <= 1.5 * peak_bytes + 8192
    assert dict(share.counts)["extend"] == 0
    assert 0 < share.real_bytes <= share.predicted_bytes + SLAB
