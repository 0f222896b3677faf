"""Models of PyTorch on a device, loaded, leased and served as others are, over puppets of it."""

import asyncio
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support import planned_models  # noqa: E402
from tests.support.accelerator import Accelerator  # noqa: E402
from tests.support.cuda_driver import Driver  # noqa: E402

from xirang.backends import torch as torch_backend  # noqa: E402
from xirang.backends.torch import torch_file  # noqa: E402
from xirang.backends.torch_place import DevicePlace  # noqa: E402
from xirang.config import ModelSettings  # noqa: E402
from xirang.core.memory.pool import PoolSettings  # noqa: E402
from xirang.core.scheduler import Scheduler  # noqa: E402
from xirang.engine.clock import MonotonicClock  # noqa: E402
from xirang.engine.engine import Engine  # noqa: E402
from xirang.engine.info import describe  # noqa: E402
from xirang.repository.discover import discover  # noqa: E402
from xirang.repository.load import load  # noqa: E402

pytestmark = pytest.mark.slow

SLAB_BYTES, SLABS = 2 << 20, 128
GRAPHS_BYTES = 64 << 20


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    made = {}
    for name, is_whole in (("whole", True), ("parts", False)):
        torch.manual_seed(0)
        made[name] = tmp_path_factory.mktemp("m") / f"{name}.pt2"
        rows = torch.export.Dim("rows", min=1, max=256)
        length = torch.export.Dim("length", min=1, max=512)
        example = torch.ones(2, 16, dtype=torch.int64)
        program = torch.export.export(
            planned_models.Encoder(width=64, is_whole=is_whole).eval(),
            (example, example),
            dynamic_shapes=({0: rows, 1: length},) * 2,
        )
        torch.export.save(program, made[name])
    return made


def loaded(path, monkeypatch, puppet, **settings):
    (source,) = discover([str(path)])
    with monkeypatch.context() as patch:
        patch.setattr(torch_backend, "place_of", lambda *_, **__: DevicePlace(puppet))
        settings = ModelSettings(budget_ms=100_000, **settings)
        return load(source, settings, clock=MonotonicClock()).model


def request(dice, rows, length):
    ids = [[dice.randrange(100) for _ in range(length)] for _ in range(rows)]
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": np.array(ids), "mask": mask}


def served(models, requests, *, slabs, at_once):
    """The answers, and what there was at the end."""

    async def ask():
        pool = PoolSettings(64 << 20, devices=(("cuda:0", slabs * SLAB_BYTES),))
        async with Engine(scheduler=Scheduler(devices={"cpu": 1}, pool=pool)) as engine:
            for model in models:
                engine.add(model)
            answers = []
            for begin in range(0, len(requests), at_once):
                some = requests[begin : begin + at_once]
                answers += await asyncio.gather(*[engine.infer(*each) for each in some])
            return answers, engine.memory()

    return asyncio.run(asyncio.wait_for(ask(), 120))


def check(models, paths, requests, answers):
    plain = {model.name: torch_file(paths[model.name], device="cpu") for model in models}
    for (name, each), answer in zip(requests, answers, strict=True):
        (output,) = answer
        expected = plain[name].run(each, [output])[output]
        np.testing.assert_allclose(answer[output], expected, 1e-5, 1e-6)


def test_it_leases_from_the_pool_of_its_device(paths, monkeypatch):
    driver = Driver(slabs=SLABS)
    puppet = Accelerator(driver)
    model = loaded(paths["whole"], monkeypatch, puppet, max_batch_size=8)
    own = describe(model, ("1",), is_ready=True).config["xirang"]
    assert "the same bits" in own["planning"]
    assert model.claim is not None
    assert model.claim.device == "cuda:0"
    assert model.claim.fixed_bytes == paths["whole"].stat().st_size + (
        model.policy.instances * GRAPHS_BYTES
    )
    puppet.log.clear()
    dice = Random(0)
    requests = [
        ("whole", request(dice, dice.randint(1, 2), dice.choice([9, 30]))) for _ in range(60)
    ]
    answers, told = served([model], requests, slabs=SLABS, at_once=1)
    check([model], paths, requests, answers)
    (there,), (share,) = told["devices"], told["shares"]
    assert told["held_bytes"] == 0
    assert there["held_bytes"] == share["fixed_bytes"] + share["committed_bytes"]
    assert share["real_bytes"] > 0
    assert puppet.log.count("sent") == 0  # every input went by the pinned arena
    assert puppet.log.count("replay") > 30


@pytest.mark.slow
def test_models_that_fight_for_a_device_get_their_answers_right(paths, monkeypatch):
    driver = Driver(slabs=SLABS)
    puppet = Accelerator(driver)
    models = [
        loaded(paths[name], monkeypatch, puppet, max_batch_size=64, instances=1) for name in paths
    ]
    puppet.log.clear()
    dice = Random(1)
    requests = [
        (
            dice.choice(sorted(paths)),
            request(dice, dice.randint(1, 8), dice.choice([9, 9, 9, 30])),
        )
        for _ in range(60)
    ]
    # Each of these takes all that its model may have, and what the other has borrowed.
    requests += [(name, request(dice, 64, 200)) for name in sorted(paths) * 2]
    # Beside what each is promised there is room for one larger run.
    slabs = sum(model.claim.guarantee_bytes // SLAB_BYTES for model in models) + 2
    answers, told = served(models, requests, slabs=slabs, at_once=4)
    check(models, paths, requests, answers)
    (there,) = told["devices"]
    assert there["held_bytes"] <= there["capacity_bytes"] == slabs * SLAB_BYTES
    assert puppet.log.count("replay") > 0
