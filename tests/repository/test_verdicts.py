"""A model is probed once: the next start knows."""

import json
from dataclasses import replace

import pytest
from tests.support import models
from tests.support.made import CountingClock, Made

from xirang.backends.onnx import OnnxExecutable
from xirang.config import InputSettings, ModelSettings
from xirang.engine.probe import Kind
from xirang.errors import InvalidSetting
from xirang.repository.learned import Learned
from xirang.repository.verdicts import examine


class Counted(OnnxExecutable):
    """Counts its runs."""

    runs = 0

    def run(self, inputs, wanted):
        self.runs += 1
        return super().run(inputs, wanted)


@pytest.fixture
def file(tmp_path):
    return models.masked_double(tmp_path / "model.onnx")


def examined(file, *, settings=ModelSettings(), length_max=16):  # noqa: B008
    executable = Counted(file)
    findings = examine(
        executable,
        file,
        settings,
        learned=Learned.of(file),
        length_max=length_max,
        clock=CountingClock(),
    )
    return findings, executable.runs


def test_the_second_start_runs_nothing_and_knows_the_same(file):
    first, runs = examined(file)
    assert runs > 0
    assert first.samples
    assert first.ran
    assert examined(file) == (replace(first, ran=()), 0)


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": ModelSettings(max_batch_size=4)},
        {"settings": ModelSettings(inputs={"ids": InputSettings(pad=1)})},
        {"length_max": 8},
    ],
    ids=str,
)
def test_other_settings_ask_again(changed, file):
    examined(file)
    assert examined(file, **changed)[1] > 0


def test_another_model_in_its_place_is_probed(file):
    before, _ = examined(file)
    models.unmasked_mean(file)
    after, runs = examined(file)
    assert runs > 0
    assert before.kind is not after.kind


def test_what_cannot_be_read_again_is_found_again(file):
    first, _ = examined(file)
    (path,) = (file.parent / ".xirang").glob("*.json")
    kept = json.loads(path.read_bytes())
    kept["value"]["findings"]["signature"] = "gone"
    path.write_text(json.dumps(kept))
    assert examined(file)[0] == first


def test_operators_explain_the_verdict(tmp_path):
    findings, _ = examined(models.quantised_per_run(tmp_path / "model.onnx"))
    assert findings.suspects[0].startswith("DynamicQuantizeLinear")


def test_a_refusal_is_not_kept(tmp_path):
    def refuse(x):
        raise ValueError("no")

    learned = Learned("digest", tmp_path)
    findings = examine(
        Made(refuse, {"x": ("N", 2)}, {"y": ("N", 2)}),
        None,
        ModelSettings(),
        learned=learned,
        length_max=None,
        clock=CountingClock(),
    )
    assert (findings.kind, findings.can_batch) == (Kind.UNPROBED, True)
    assert learned.read("verdict") is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("idz", InputSettings(pad=1)),
        ("ids", InputSettings(batch_axis=2)),
        ("ids", InputSettings(lengths=(0, 5))),
        ("ids", InputSettings(sizes=(1, 2, 3))),
    ],
    ids=str,
)
def test_settings_for_what_the_model_has_not_are_refused(name, told, file):
    with pytest.raises(InvalidSetting, match="input"):
        examined(file, settings=ModelSettings(inputs={name: told}))
