"""Which models run in processes of their own."""

import os

import numpy as np
import pytest
from tests.support import models

from xirang.config import ModelSettings
from xirang.engine.clock import MonotonicClock
from xirang.errors import InvalidSetting
from xirang.repository.apart import opened_apart
from xirang.repository.discover import Kind, Source
from xirang.repository.load import load

OBEY = Source("obey", Kind.PYTHON, target="tests.backends.perilous:obey")


@pytest.mark.parametrize(
    ("source", "process"),
    [
        (OBEY, "no"),
        (Source("m", Kind.ONNX), "auto"),
        (Source("m", Kind.TEXT), "auto"),
        (Source("m", Kind.TORCH_MODULE, target="a:b"), "auto"),
    ],
)
def test_what_stays_in_the_server(source, process):
    assert opened_apart(source, ModelSettings(process=process)) is None


def loaded(source, **settings):
    return load(source, ModelSettings(learned="off", **settings), clock=MonotonicClock()).model


def test_a_callable_is_apart_unless_told_otherwise_and_has_one_process():
    model = loaded(OBEY, hang_s=7)
    try:
        assert model.policy.instances == len(model.executable.process_ids) == 1
        assert (model.workers, model.hang_ns) == (model.executable, 7_000_000_000)
        outputs = model.executable.run({"command": np.zeros((1, 1), np.int64)}, ["process"])
        assert outputs["process"][0, 0] != os.getpid()
        assert not model.workers.is_governed, "it allocates as it likes: no tiny runs"
    finally:
        model.workers.close()


def test_several_instances_are_several_processes():
    model = loaded(OBEY, instances=2)
    try:
        assert model.policy.instances == len(model.executable.process_ids) == 2
    finally:
        model.workers.close()


def test_an_onnx_model_may_be_told_to_be_apart_and_is_probed_there(tmp_path):
    source = Source("mlp", Kind.ONNX, path=models.mlp(tmp_path / "mlp.onnx"))
    apart, here = loaded(source, process="yes", instances=1), loaded(source, instances=1)
    try:
        assert apart.signature == here.signature
        assert here.workers is None
        assert apart.workers.is_governed
    finally:
        apart.workers.close()


def test_a_callable_that_is_wrong_is_said_and_leaves_no_process():
    with pytest.raises(InvalidSetting, match="absent"):
        loaded(Source("m", Kind.PYTHON, target="tests.backends.perilous:absent"))
