"""From a source and settings to a model that is ready to serve."""

import pytest
from tests.support import models, text_folders

from xirang.config import ModelSettings
from xirang.core.policy import Batching
from xirang.engine.clock import MonotonicClock
from xirang.errors import InvalidSetting
from xirang.repository.costs import keep
from xirang.repository.discover import Kind, Source
from xirang.repository.load import check_readers, cores, load
from xirang.repository.minilm import write_tokenizer

SHOUT = Source("shout", Kind.PYTHON, target="tests.backends.callables:shout")


def loaded(source, **settings):
    return load(source, ModelSettings(**settings), clock=MonotonicClock())


def onnx(make, tmp_path, version="1"):
    return Source("m", Kind.ONNX, make(tmp_path / "model.onnx"), version=version)


def test_a_padded_model_gets_the_policy_of_its_settings_and_its_probe(tmp_path):
    found = loaded(
        onnx(models.masked_double, tmp_path, "4"),
        instances=3,
        queue=5,
        max_batch_size=16,
        window_ms=2.5,
        efficiency=0.75,
        batching="first-come",
        budget_ms=80,
        length_max=40,
    )
    model, policy = found.model, found.model.policy
    assert found.text is None
    assert (model.name, model.version, model.budget_ns) == ("m", "4", 80_000_000)
    assert (policy.instances, policy.depth_max, policy.max_batch_size) == (3, 5, 16)
    assert (policy.window_ns_max, policy.efficiency) == (2_500_000, 0.75)
    assert (policy.batching, policy.can_pad) == (Batching.FIRST_COME, True)
    assert (model.shapes.length_max, model.verdict.split(":")[0]) == (40, "exact")
    assert policy.elements_max is not None
    assert not model.cost.is_cold


def test_an_operators_bound_on_elements_wins(tmp_path):
    found = loaded(onnx(models.masked_double, tmp_path), max_batch_elements=99)
    assert found.model.policy.elements_max == 99


def test_a_model_whose_rows_change_each_other_runs_singly(tmp_path):
    model = loaded(onnx(models.softmax_over_batch, tmp_path), max_batch_size=8).model
    assert (model.policy.batching, model.policy.can_pad) == (Batching.OFF, False)
    assert (model.policy.max_batch_size, model.shapes.rows_max) == (8, 8)


def test_by_default_there_is_an_instance_a_core_but_one_where_runs_are_tiny(tmp_path, monkeypatch):
    source = onnx(models.mlp, tmp_path)
    assert loaded(source).model.policy.instances == 1
    monkeypatch.setattr("xirang.repository.load.RUN_TINY_NS", 0)
    assert loaded(source).model.policy.instances == cores() >= 1


def test_a_callable_has_one_instance_and_is_not_run_before_it_serves():
    model = loaded(SHOUT, process="no").model
    assert (model.policy.instances, model.policy.can_pad) == (1, False)
    assert model.verdict == "a list of inputs: only equal shapes share a run"
    assert model.signature.is_batched
    # A setting for all models does not make threads of what was not written for them.
    assert loaded(SHOUT, process="no", instances=2).model.policy.instances == 1


def test_a_text_model_needs_a_tokenizer_and_hidden_states(tmp_path):
    path = models.hidden_states(tmp_path / "model.onnx")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidSetting, match=r"tokenizer\.json is not a tokenizer"):
        loaded(Source("m", Kind.TEXT, path))
    write_tokenizer(tmp_path / "tokenizer.json")
    models.same_words(path)
    with pytest.raises(InvalidSetting, match="a text model needs an attention mask and an output"):
        loaded(Source("m", Kind.TEXT, path))


def test_at_a_restart_a_few_runs_tell_how_fast_the_machine_is(tmp_path):
    source, place = onnx(models.masked_double, tmp_path), str(tmp_path / "learned")
    first = loaded(source, learned=place)
    before_ns = first.model.cost.predict_ns(rows=4, length=32)
    first.model.cost.rescale(100.0)
    assert keep(first.learned, first.cost_kind, first.model.cost)
    again = loaded(source, learned=place)
    assert again.findings.ran == (), "it was not probed"
    assert again.model.cost.predict_ns(rows=4, length=32) < 25 * before_ns
    # Without warm-up nothing is run, and what was learned is believed.
    kept = loaded(source, learned=place, warmup_s=0)
    assert kept.model.cost.predict_ns(rows=4, length=32) == pytest.approx(100 * before_ns, rel=0.01)


def test_onnx_models_have_no_other_device_than_the_cpu(tmp_path):
    assert not loaded(onnx(models.mlp, tmp_path), device="cpu").cost_kind.startswith("cost-cuda")
    with pytest.raises(InvalidSetting, match="runs on the CPU, as ONNX models do"):
        loaded(onnx(models.mlp, tmp_path), device="cuda:1")


def test_a_text_models_stand_in_must_read_alike(tmp_path):
    def text(name, **files):
        path = text_folders.embedder(tmp_path / name, **files) / "model.onnx"
        settings = {"degrade_to": "small"} if name == "full" else {}
        return loaded(Source(name, Kind.TEXT, path), warmup_s=0, learned="off", **settings)

    full, small = text("full"), text("small")
    check_readers([full, small])
    prompts = {"prompts": {"query": "q: "}, "default_prompt_name": "query"}
    other = text("small", config_sentence_transformers=prompts)
    with pytest.raises(InvalidSetting, match="'small', which has another tokenizer or default"):
        check_readers([full, other])
    (tmp_path / "small" / "config_sentence_transformers.json").unlink()
    tokenizer = tmp_path / "small" / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text().replace('"lowercase":true', '"lowercase":false'))
    source = Source("small", Kind.TEXT, tmp_path / "small" / "model.onnx")
    with pytest.raises(InvalidSetting, match="expected one that reads texts alike"):
        check_readers([full, loaded(source, warmup_s=0, learned="off")])
