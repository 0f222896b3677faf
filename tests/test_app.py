"""The library's front door, and the port."""

import asyncio

import numpy as np
import pytest

import xirang
from tests.support import models
from xirang.app import serve
from xirang.config import Config, ModelSettings
from xirang.errors import InvalidSetting
from xirang.memory.machine import pool_bytes


def test_models_are_loaded_for_use_inside_a_program(tmp_path):
    models.masked_double(tmp_path / "doubled.onnx")
    models.add_sub(tmp_path / "add_sub.onnx")

    async def ask(engine, row):
        ids = np.array([row])
        inputs = {"ids": ids, "attention_mask": np.ones_like(ids)}
        outputs = await engine.infer("doubled", inputs, budget_ms=10_000)
        return outputs["doubled"].tolist()

    async def main():
        async with xirang.load(str(tmp_path), max_batch_size=4) as engine:
            assert engine.model_names() == ["add_sub", "doubled"]
            rows = [list(range(1, length + 2)) for length in range(10)]
            answers = await asyncio.gather(*(ask(engine, row) for row in rows))
            assert answers == [[[2 * i for i in row]] for row in rows]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_settings_of_the_library_are_checked_and_the_environment_is_not_read(monkeypatch):
    monkeypatch.setenv("XIRANG_QUEUE", "many")
    with pytest.raises(InvalidSetting, match="queue is 0"):
        xirang.load(queue=0)
    assert xirang.load().model_names() == []


def test_settings_for_a_model_that_is_not_served_are_refused(tmp_path):
    models.add_sub(tmp_path / "add_sub.onnx")
    config = Config(models={"addsub": ModelSettings()})
    with pytest.raises(InvalidSetting, match=r"\['addsub'\], which are not served.*add_sub"):
        serve([str(tmp_path)], config)


def test_everything_public_is_there():
    assert all(hasattr(xirang, name) for name in xirang.__all__)


@pytest.mark.parametrize(("mib", "capacity_mib"), [(-1, None), (300, 300)])
def test_the_memory_pool_is_as_large_as_was_said(mib, capacity_mib):
    text = xirang.load(memory_pool_mib=mib).metrics_text()
    line = f'xirang_memory_pool_bytes{{kind="capacity"}} {(capacity_mib or 0) << 20}'
    assert (line in text) == (capacity_mib is not None)


def test_each_device_has_a_pool_of_its_own(monkeypatch):
    asked = []
    devices = (("cuda:0", 10 << 21), ("cuda:1", 20 << 21))
    monkeypatch.setattr("xirang.app.pools_bytes", lambda wanted: asked.append(wanted) or devices)
    text = xirang.load(memory_pool_mib=300, memory_device_mib=7).metrics_text()
    assert set(asked) == {7 << 20}
    for device, capacity_bytes in devices:
        name = f'xirang_memory_pool_bytes{{device="{device}",kind="capacity"}}'
        assert f"{name} {capacity_bytes}" in text


def test_by_itself_it_is_most_of_what_there_is():
    capacity_bytes = pool_bytes()
    if capacity_bytes is not None:
        text = xirang.load().metrics_text()
        assert f'xirang_memory_pool_bytes{{kind="capacity"}} {capacity_bytes >> 21 << 21}' in text
