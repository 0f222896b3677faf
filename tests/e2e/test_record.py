"""A real server writes down what its scheduler decides; a fresh one decides the same again."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support import models
from tests.support.wire import get, post

from xirang.lab.replay import tallies, verify
from xirang.lab.server import ServerProcess
from xirang.observe.recording import Recording

pytestmark = pytest.mark.e2e


def ask(url, length):
    inputs = [
        {"name": name, "datatype": "INT64", "shape": [1, length], "data": [1] * length}
        for name in ("ids", "attention_mask")
    ]
    return post(url, "/v2/models/masked_double/infer", {"inputs": inputs})


def test_a_recorded_server_decides_the_same_when_it_is_replayed(tmp_path):
    models.masked_double(tmp_path / "masked_double.onnx")
    file = tmp_path / "ring"
    options = ["--record", str(file), "--record-mib", "4", "--budget-ms", "500"]
    with ServerProcess([tmp_path / "masked_double.onnx"], *options) as server:
        with ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda n: ask(server.url, 1 + n % 40), range(300)))
        get(server.url, "/metrics")
    recording = Recording(file)
    assert verify(recording) is None
    result = tallies(recording)["masked_double"].result()
    assert result.requests == 300
    assert sum(1 for _ in tmp_path.glob(".xirang/*-cost-cpu-1.json")) == 1


def kept(folder):
    (file,) = folder.glob(".xirang/*-cost-cpu-1.json")
    return json.loads(file.read_bytes())["value"]


def test_what_a_server_learned_is_known_at_its_next_start(tmp_path):
    models.masked_double(tmp_path / "masked_double.onnx")
    with ServerProcess([tmp_path / "masked_double.onnx"]) as server:
        for number in range(20):
            ask(server.url, 1 + number)
    first = kept(tmp_path)
    with ServerProcess([tmp_path / "masked_double.onnx"]) as server:
        ask(server.url, 5)
        told = server.log_text()
    second = kept(tmp_path)
    if "fitted anew" in told:  # runs of microseconds on a busy machine may look like another's
        assert second["observations"] < first["observations"]
        return
    assert second["observations"] == first["observations"] + 1
    assert second["ratios"][: len(first["ratios"])] == first["ratios"]


def test_a_server_that_shall_keep_nothing_keeps_nothing(tmp_path):
    models.masked_double(tmp_path / "masked_double.onnx")
    with ServerProcess([tmp_path / "masked_double.onnx"], "--learned", "off") as server:
        ask(server.url, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["masked_double.onnx"]
