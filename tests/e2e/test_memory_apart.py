"""Two models of two processes each in one small pool, whatever happens to them meanwhile."""

import asyncio
import gc
import logging
import os
import signal
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.support import memory_models
from tests.support.native import needs_native

from xirang.config import ModelSettings
from xirang.core.memory.pool import PoolSettings
from xirang.core.scheduler import Scheduler
from xirang.engine.clock import MonotonicClock
from xirang.engine.engine import Engine
from xirang.errors import UnknownModel
from xirang.repository.discover import discover
from xirang.repository.load import load

pytestmark = [pytest.mark.e2e, needs_native]

REQUESTS, CLIENTS = 240, 12
SHAPES = ((1, 7), (3, 40), (8, 96), (16, 64), (2, 250), (30, 33))
SPARE_BYTES = 16 << 20
"""Less than two of the larger runs: they wait for each other, and go in parts."""


def loaded(path, **settings):
    (source,) = discover([str(path)])
    told = ModelSettings(learned="off", warmup_s=0.0, budget_ms=60_000, **settings)
    return load(source, told, clock=MonotonicClock()).model


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m")
    return {n: memory_models.encoder(folder / f"{n}.onnx", seed=k) for k, n in enumerate("ab")}


@pytest.fixture(scope="module")
def answers(paths):
    """Requests of each model, and what it gives when nobody else runs."""
    dice, found = np.random.default_rng(1), {}
    for name, path in paths.items():
        alone = loaded(path, process="no", instances=1).executable
        found[name] = []
        for shape in SHAPES * 2:
            mask = np.ones(shape, np.int64)
            mask[:, shape[1] // 2 :] = dice.integers(0, 2)
            inputs = {"ids": dice.integers(0, 100, shape), "mask": mask}
            found[name].append((inputs, alone.run(inputs, ["hidden"])["hidden"]))
    return found


class Clients:
    """Ask both models at random, and compare every answer."""

    def __init__(self, engine, answers, disturb):
        self.engine, self.answers, self.disturb = engine, answers, disturb
        self.random = Random(2)
        self.asked, self.right, self.refused = 0, 0, 0

    async def live(self):
        while self.asked < REQUESTS:
            self.asked += 1
            if (act := self.disturb.pop(self.asked, None)) is not None:
                act()
            name = self.random.choice("ab")
            inputs, expected = self.random.choice(self.answers[name])
            try:
                outputs = await self.engine.infer(name, inputs)
            except UnknownModel:
                self.refused += 1
                continue
            # Rows that stand beside others may be computed by another kernel.
            np.testing.assert_allclose(outputs["hidden"], expected, rtol=1e-5, atol=1e-6)
            self.right += 1


def engine_of(models):
    held = sum(model.claim.guarantee_bytes for model in models.values())
    pool = PoolSettings(held + SPARE_BYTES)
    engine = Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool))
    for model in models.values():
        engine.add(model)
    return engine


@pytest.mark.parametrize("process", ["no", "yes"])
def test_a_kill_and_an_unload_under_load_cost_nobody_a_wrong_answer(
    paths, answers, process, caplog
):
    caplog.set_level(logging.CRITICAL, "xirang")  # what is logged is kept, with all that it holds
    descriptors = open_files()
    live(paths, answers, process)
    gc.collect()
    assert open_files() <= descriptors + 2


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def live(paths, answers, process):
    models = {name: loaded(path, process=process, instances=2) for name, path in paths.items()}
    engine, leaving = engine_of(models), []

    def kill():
        if process == "yes":
            os.kill(models["a"].workers.process_ids[0], signal.SIGKILL)

    def unload():
        leaving.append(asyncio.ensure_future(engine.unload("b", "1")))

    async def main():
        async with engine:
            disturb = {REQUESTS // 4: kill, REQUESTS // 2: unload, 3 * REQUESTS // 4: kill}
            clients = Clients(engine, answers, disturb)
            await asyncio.gather(*[clients.live() for _ in range(CLIENTS)])
            await asyncio.gather(*leaving)
            engine.check_integrity()
            assert clients.right + clients.refused == clients.asked
            assert clients.right > REQUESTS // 2
            (share,) = engine.memory()["shares"]
            assert (share["model"], share["leased_bytes"]) == ("a", 0)
            assert engine.memory()["held_bytes"] <= engine.memory()["capacity_bytes"]

    asyncio.run(asyncio.wait_for(main(), 60))
    for model in models.values():
        assert model.workers is None or not model.workers.process_ids
    engine.traffic.housing.pages.settle()
