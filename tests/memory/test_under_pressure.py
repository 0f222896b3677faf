"""Real models in real pages of a pool that is far too small: all answers right, all comes home."""

import asyncio
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.support.memory_models import encoder

from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_allocator import allocator
from xirang.config import ModelSettings
from xirang.core.memory.pool import PoolSettings
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.repository.discover import discover
from xirang.repository.load import load

SLAB = 64 << 10
SETTINGS = ModelSettings(
    learned="off", warmup_s=0, memory_keep_mib=0, max_batch_size=32, length_max=64, instances=2
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Two encoders and their plain twins, which allocate as they like."""
    if allocator() is None:
        pytest.skip("the native allocator is not built")
    found = []
    for seed in (0, 1):
        path = encoder(tmp_path_factory.mktemp("m") / f"m{seed}.onnx", width=64, seed=seed)
        (source,) = discover([str(path)])
        model = load(source, SETTINGS, clock=MonotonicClock()).model
        assert model.claim is not None
        found.append((model, OnnxExecutable(path)))
    return found


def house(loaded, slabs, *, law=1.0):
    """An engine with a pool of so many slabs beyond the weights."""
    claims = [model.claim for model, _ in loaded]
    weights = sum(-(-claim.fixed_bytes // SLAB) for claim in claims)
    pool = PoolSettings((weights + slabs) * SLAB, slab_bytes=SLAB)
    engine = Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool))
    for (model, _), claim in zip(loaded, claims, strict=True):
        peaks = tuple(
            replace(peak, denominator=round(peak.denominator * 1000 / (1000 * law)))
            for peak in claim.peaks
        )
        engine.add(replace(model, claim=replace(claim, peaks=peaks)))
    return engine


def play(loaded, engine, *, count, seed):
    dice = Random(seed)

    async def ask(model, plain):
        rows, length = dice.choice([1, 1, 2, 5, 16]), dice.randint(1, 64)
        ids = np.array([[dice.randrange(100) for _ in range(length)] for _ in range(rows)])
        inputs = {"ids": ids, "mask": np.ones_like(ids)}
        outputs = await engine.infer(model.name, inputs, budget_ms=60_000)
        alone = plain.run(inputs, ["hidden"])
        np.testing.assert_allclose(outputs["hidden"], alone["hidden"], atol=2e-5)

    async def main():
        async with engine:
            for _ in range(count // 20):
                await asyncio.gather(*[ask(*dice.choice(loaded)) for _ in range(20)])
            memory = engine._look()[1].memory
            assert memory.held_bytes <= memory.capacity_bytes
            assert not any(share.leased_bytes for share in memory.shares)
            engine.check_integrity()
            return memory

    return asyncio.run(asyncio.wait_for(main(), 120))


def test_models_that_fight_for_pages_answer_as_alone(loaded):
    most = max(model.claim.peaks[0].bytes_at(16, 64) for model, _ in loaded)
    memory = play(loaded, house(loaded, -(-most * 5 // 4 // SLAB)), count=200, seed=1)
    counts = [dict(share.counts) for share in memory.shares]
    assert sum(each["reclaim"] for each in counts) > 0
    assert sum(each["refuse"] for each in counts) > 0


def test_a_law_that_says_half_of_the_truth_is_corrected_by_the_runs(loaded):
    memory = play(loaded, house(loaded, 400, law=0.5), count=100, seed=2)
    assert sum(dict(share.counts)["extend"] for share in memory.shares) > 0
    for share in memory.shares:
        assert share.real_bytes <= share.predicted_bytes + SLAB
