"""Real models in real pages of a pool that is far too small: all answers right, all comes home."""

import asyncio
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.support.memory_models import encoder, translator

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

BARE = {"guarantee_bytes": 0, "wish_bytes": 0}
"""Promises are made in slabs of 2 MiB, of which such a pool has none."""


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
        engine.add(replace(model, claim=replace(claim, peaks=peaks, **BARE)))
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


def test_runs_of_two_lengths_are_leased_by_each_of_them(tmp_path):
    """A limit that a long target alone would break, not the product of both."""
    if allocator() is None:
        pytest.skip("the native allocator is not built")
    path = translator(tmp_path / "t.onnx")
    (source,) = discover([str(path)])
    model = load(source, replace(SETTINGS, length_max=0), clock=MonotonicClock()).model
    assert model.claim is not None
    most = max(peak.bytes_at(1, (8, 64)) for peak in model.claim.peaks)
    long_source = max(peak.bytes_at(1, (64, 8)) for peak in model.claim.peaks)
    assert long_source < most / 3, "the product is the same, what it takes is not"
    engine = house([(model, None)], -(-2 * most // SLAB))
    dice, plain = Random(3), OnnxExecutable(path)

    async def ask():
        rows, lengths = dice.choice([1, 1, 2, 9]), dice.choice([(8, 64), (64, 8), (5, 17), (30, 3)])
        inputs = {
            name: np.array([[dice.randrange(100) for _ in range(n)] for _ in range(rows)])
            for name, n in zip(("source", "target"), lengths, strict=True)
        }
        outputs = await engine.infer("t", inputs, budget_ms=60_000)
        alone = plain.run(inputs, ["hidden"])
        np.testing.assert_allclose(outputs["hidden"], alone["hidden"], atol=2e-5)

    async def main():
        async with engine:
            for _ in range(5):
                await asyncio.gather(*[ask() for _ in range(20)])
            engine.check_integrity()
            return engine._look()[1].memory

    (share,) = asyncio.run(asyncio.wait_for(main(), 60)).shares
    assert 0 < share.real_bytes <= share.predicted_bytes <= 2 * most + SLAB
    assert dict(share.counts)["extend"] == 0
