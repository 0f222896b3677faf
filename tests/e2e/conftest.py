"""One real server for most of these tests: tiny models, a real one, and Python callables."""

from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
from tests.support import models
from tests.support.wire import Hold

from xirang.lab.server import ServerProcess
from xirang.repository import minilm

CALLABLES = "tests.e2e.callables"


@dataclass
class House:
    """The server, and each of its ONNX models alone, to compare with."""

    server: ServerProcess
    sessions: dict

    @property
    def url(self):
        return self.server.url

    @property
    def place(self):
        """Without the scheme, as Triton's client wants it."""
        return self.url.removeprefix("http://")

    def alone(self, model, **inputs):
        """The model's outputs for these rows, each run by itself."""
        session = self.sessions[model]
        names = [node.name for node in session.get_outputs()]
        rows = len(next(iter(inputs.values())))
        results = [
            session.run(names, {name: array[i : i + 1] for name, array in inputs.items()})
            for i in range(rows)
        ]
        return {name: np.concatenate([r[i] for r in results]) for i, name in enumerate(names)}

    def embedding(self, ids):
        """What MiniLM gives for these token ids alone: the mean of its states, scaled to one."""
        row = np.array([ids], np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row)}
        inputs["token_type_ids"] = np.zeros_like(row)
        (hidden,) = self.sessions[minilm.NAME].run(["last_hidden_state"], inputs)
        mean = hidden[0].mean(axis=0)
        return mean / np.linalg.norm(mean)


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """A folder with the tiny models and MiniLM."""
    folder = tmp_path_factory.mktemp("models")
    for make in (models.mlp, models.add_sub, models.masked_double, models.same_words):
        make(folder / f"{make.__name__}.onnx")
    minilm.prepare(folder)
    return folder


@pytest.fixture(scope="session")
def house(shelf):
    files = {path.stem: path for path in shelf.glob("*.onnx")}
    files[minilm.NAME] = shelf / minilm.NAME / "model.onnx"
    sessions = {name: onnxruntime.InferenceSession(str(file)) for name, file in files.items()}
    with ServerProcess([shelf, f"{CALLABLES}:shout", f"{CALLABLES}:hold"]) as server:
        yield House(server, sessions)


@pytest.fixture
def hold():
    with Hold() as hold:
        yield hold
