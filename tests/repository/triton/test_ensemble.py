"""Ensembles are held against themselves and against their models, in Triton's words."""

import numpy as np
import pytest

from xirang.config import ModelSettings
from xirang.core.policy import Policy
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.lifecycle import Roster, State
from xirang.engine.model import Model
from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.ensemble import ensemble
from xirang.repository.triton.reading import read_text
from xirang.repository.triton.wiring import is_ensemble


class Puppet:
    platform, is_reentrant, keeps_inputs = "puppet", True, False
    is_decoupled = False

    def __init__(self, *, is_decoupled=False):
        self.is_decoupled = is_decoupled

    def run(self, inputs, wanted):
        return {name: np.zeros((1, 1)) for name in wanted}


def model(name, kind="FP32", dims=(None, None), *, rows=8, is_batched=True, version="1", **more):
    puppet = Puppet(**more)
    puppet.inputs = (TensorSpec("X", kind, dims),)
    puppet.outputs = (TensorSpec("Y", kind, dims),)
    return Model(
        name=name,
        executable=puppet,
        signature=Signature(puppet.inputs, puppet.outputs, is_batched),
        policy=Policy(),
        budget_ns=1,
        version=version,
        declared={"max_batch_size": rows},
    )


@pytest.fixture
def roster():
    roster = Roster()
    for each in (
        model("a"),
        model("b"),
        model("whole", "INT64", (None, 3), is_batched=False, rows=0),
        model("parts", is_decoupled=True),
        model("fixed", dims=(None, 4)),
    ):
        roster.put(each)
    roster.note("broken", "1", State.UNAVAILABLE, "it does not like Mondays")
    return roster


def step(name, taken=("X", "IN"), given=("Y", "OUT"), version=-1):
    maps = f'input_map {{ key: "{taken[0]}" value: "{taken[1]}" }}' if taken else ""
    maps += f'output_map {{ key: "{given[0]}" value: "{given[1]}" }}' if given else ""
    return f'step {{ model_name: "{name}" model_version: {version} {maps} }}'


def text(*steps, rows=8, kind="FP32", dims="-1", out="FP32", more=""):
    return (
        f'platform: "ensemble" max_batch_size: {rows} '
        f'input {{ name: "IN" data_type: TYPE_{kind} dims: [ {dims} ] }} '
        f'output {{ name: "OUT" data_type: TYPE_{out} dims: [ {dims} ] }} '
        f"ensemble_scheduling {{ {' '.join(steps)} }} {more}"
    )


def made(text, roster):
    config = checked(read_text(text), "e")
    assert is_ensemble(config)
    return ensemble(config, 3, roster, ModelSettings()).model


CHAIN = (step("a", given=("Y", "mid")), step("b", taken=("X", "mid")))


def test_an_ensemble_is_a_model_with_a_pipeline(roster):
    found = made(text(*CHAIN), roster)
    assert (found.name, found.version, found.executable.platform) == ("e", "3", "ensemble")
    assert found.signature.inputs == (TensorSpec("IN", "FP32", (None, None)),)
    assert [each.model for each in found.pipeline.steps] == ["a", "b"]
    assert found.pipeline.needed(["OUT"]) == (0, 1)
    assert found.pipeline.needed(["mid"]) == (0,)
    assert found.pipeline.models() == {"a", "b"}
    assert found.declared["platform"] == "ensemble"
    assert "optimization" not in found.declared


def test_a_model_with_rows_in_an_ensemble_without_gets_one(roster):
    (only,) = made(text(step("a"), rows=0), roster).pipeline.steps
    assert only.gets_rows
    config = text(step("whole"), rows=0, kind="INT64", out="INT64", dims="-1, 3")
    (only,) = made(config, roster).pipeline.steps
    assert not only.gets_rows


def test_sizes_that_vary_agree_with_any(roster):
    assert made(text(step("fixed"), dims="-1"), roster)
    assert made(text(step("fixed"), dims="4"), roster)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (text(), "must specify 'step' for ensemble 'e'"),
        (text(step("")), "must specify 'model_name' in step 0 of ensemble 'e'"),
        (text(step("a", taken=None)), "must specify 'input_map' in step 0 of ensemble 'e'"),
        (text(step("a", given=None)), "must specify 'output_map' in step 0 of ensemble 'e'"),
        (
            text(step("a"), step("b")),
            "ensemble tensor 'OUT' can appear in an output map only once for ensemble 'e' step 1",
        ),
        (
            text(step("a", given=("Y", "IN")), step("b")),
            "ensemble tensor 'IN' can appear in an output map only once for ensemble 'e' step 0",
        ),
        (
            text(step("a", given=("Y", "mid"))),
            "ensemble output 'OUT' for ensemble 'e' is not used",
        ),
        (
            text(
                step("a"),
                more='input { name: "IN2" data_type: TYPE_FP32 dims: [ 1 ] }',
            ),
            "ensemble input 'IN2' for ensemble 'e' is not used",
        ),
        (
            text(step("a"), step("b", taken=("X", "lost"), given=("Y", "z"))),
            "ensemble tensor 'lost' of ensemble 'e' is given by no step and no input",
        ),
        (
            text(
                step("a"),
                step("a", taken=("X", "q"), given=("Y", "p")),
                step("b", taken=("X", "p"), given=("Y", "q")),
            ),
            "circular dependency between the steps of ensemble 'e': p, q would never come to be",
        ),
        (
            text(step("a"), more="instance_group { count: 1 }"),
            "instance group should not be specified for ensemble 'e'",
        ),
        (
            text(step("broken")),
            "ensemble 'e' depends on 'broken' which has no loaded version. Model 'broken' loading "
            "failed with error: it does not like Mondays;",
        ),
        (
            text(step("a", version=7)),
            "ensemble 'e' depends on 'a' whose required version 7 is not loaded.",
        ),
        (
            text(step("a", taken=("Q", "IN"))),
            "in ensemble e, ensemble tensor IN is mapping to non-existing input Q in model a",
        ),
        (
            text(step("a", given=("Q", "OUT"))),
            "in ensemble e, ensemble tensor OUT is mapped from non-existing output Q in model a",
        ),
        (
            text(step("a"), rows=16),
            "ensemble e allows maximum batch size 16, but it contains model a which only allows "
            "maximum batch size to be 8",
        ),
        (
            text(step("a"), kind="INT32"),
            "in ensemble e, ensemble tensor IN: inconsistent data type: TYPE_INT32 is inferred "
            "from model e while TYPE_FP32 is inferred from model a",
        ),
        (
            text(step("a"), dims="-1, 3"),
            "in ensemble e, ensemble tensor IN: inconsistent shape: [-1,-1,3] is inferred from "
            "model e while [-1,-1] is inferred from model a",
        ),
        (
            text(step("parts")),
            "ensemble e contains model parts, which is decoupled: not served here",
        ),
        (text(step("a"), dims=""), "model input 'IN' must specify 'dims' for e"),
    ],
)
def test_what_cannot_be_is_refused(roster, config, message):
    with pytest.raises(InvalidSetting) as raised:
        made(config, roster)
    assert str(raised.value) == message


def test_an_input_that_nobody_maps_is_named(roster):
    two = model("two")
    two.signature = Signature(
        (*two.signature.inputs, TensorSpec("Z", "FP32", (None, 1))), two.signature.outputs, True
    )
    roster.put(two)
    with pytest.raises(InvalidSetting, match="in ensemble e, input Z in model two is not mapped"):
        made(text(step("two")), roster)
