"""TorchScript as the server loads it: no graph, yet its runs are leased and all answers right."""

import asyncio
import json
import warnings
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support.replayed_models import Residual  # noqa: E402
from tests.support.torch_native import needs_allocator  # noqa: E402

from xirang.backends.executable import footprint_of  # noqa: E402
from xirang.backends.torch import torch_file  # noqa: E402
from xirang.config import ModelSettings  # noqa: E402
from xirang.core.memory.pool import PoolSettings  # noqa: E402
from xirang.core.scheduler import Scheduler  # noqa: E402
from xirang.engine.clock import MonotonicClock  # noqa: E402
from xirang.engine.engine import Engine  # noqa: E402
from xirang.engine.info import describe  # noqa: E402
from xirang.errors import XirangError  # noqa: E402
from xirang.memory.room import InstanceRoom  # noqa: E402
from xirang.repository.discover import discover  # noqa: E402
from xirang.repository.load import load  # noqa: E402

pytestmark = pytest.mark.slow

SIDE = 48
SLAB = 64 << 10


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """Two networks, loaded, and their plain twins, which allocate as they like."""
    needs_allocator()
    says = {"inputs": {"x": ["FP32", [3, SIDE, SIDE]]}, "outputs": {"scores": ["FP32", [10]]}}
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        path = tmp_path_factory.mktemp("m") / f"m{seed}.pt"
        extra = {"_xirang_signature": json.dumps(says)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script = torch.jit.script(Residual(width=32).eval())
            torch.jit.save(script, path, _extra_files=extra)
        (source,) = discover([str(path)])
        settings = ModelSettings(
            learned="off", warmup_s=0, memory_keep_mib=0, max_batch_size=16, instances=2
        )
        found.append((load(source, settings, clock=MonotonicClock()).model, torch_file(path)))
    return found


def house(scripts, share):
    """An engine whose pool has this share of what two runs at most would take."""
    claims = [model.claim for model, _ in scripts]
    most = sum(max(peak.bytes_at(16, 1) for peak in claim.peaks) for claim in claims)
    weights = sum(-(-claim.fixed_bytes // SLAB) for claim in claims)
    pool = PoolSettings((weights + int(share * most) // SLAB) * SLAB, slab_bytes=SLAB)
    engine = Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool))
    for model, _ in scripts:
        engine.add(model)
    return engine


def pictures(dice):
    return {"x": dice.standard_normal((int(dice.integers(1, 6)), 3, SIDE, SIDE), np.float32)}


def test_it_is_told_how_it_is_planned(scripts):
    model, _ = scripts[0]
    own = describe(model, ("1",), is_ready=True).config["xirang"]
    assert own["planning"].startswith("each of ")
    assert "TorchScript has no graph" in own["planning"]
    assert model.claim.peaks == footprint_of(model.executable).peaks


def test_two_that_fight_for_pages_answer_as_alone(scripts, monkeypatch):
    planned = []
    run = InstanceRoom.run

    def noted(room, *arguments):
        try:
            return run(room, *arguments)
        finally:
            planned.append(room.is_planned)

    monkeypatch.setattr(InstanceRoom, "run", noted)

    async def ask(engine, dice, choice):
        model, plain = choice.choice(scripts)
        inputs = pictures(dice)
        answer = await engine.infer(model.name, inputs, budget_ms=60_000)
        expected = plain.run(inputs, ["scores"])["scores"]
        # Who shares a run goes another way through oneDNN than who is alone.
        np.testing.assert_allclose(answer["scores"], expected, 1e-4, 1e-5)

    async def main():
        dice, choice = np.random.default_rng(0), Random(0)
        async with house(scripts, 1.2) as engine:
            for _ in range(10):
                await asyncio.gather(*[ask(engine, dice, choice) for _ in range(12)])
            memory = engine._look()[1].memory
            assert memory.held_bytes <= memory.capacity_bytes
            assert not any(share.leased_bytes for share in memory.shares)
            engine.check_integrity()

    asyncio.run(asyncio.wait_for(main(), 120))
    assert sum(planned) > 0.8 * len(planned)


def test_one_that_is_unloaded_under_its_runs_has_answered_all_of_them_or_said_so(scripts):
    async def main():
        dice = np.random.default_rng(1)
        (model, plain), (other, _) = scripts
        async with house(scripts, 2.0) as engine:
            asked = [pictures(dice) for _ in range(12)]
            waiting = [
                asyncio.ensure_future(engine.infer(model.name, each, budget_ms=60_000))
                for each in asked
            ]
            await asyncio.sleep(0)
            await engine.unload(model.name, "1")
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            for inputs, answer in zip(asked, answers, strict=True):
                if not isinstance(answer, XirangError):
                    expected = plain.run(inputs, ["scores"])["scores"]
                    np.testing.assert_allclose(answer["scores"], expected, 1e-4, 1e-5)
            assert any(not isinstance(answer, XirangError) for answer in answers)
            await engine.infer(other.name, asked[0], budget_ms=60_000)
            engine.check_integrity()

    asyncio.run(asyncio.wait_for(main(), 60))
