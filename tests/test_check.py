"""`xirang check` says what was found and what follows."""

import json

import pytest

from tests.support import models
from xirang import cli
from xirang.check import shape_words


def checked(capsys, *arguments):
    assert cli.main(["check", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_json_has_the_axes_the_verdict_the_timing_and_what_the_engine_does(tmp_path, capsys):
    path = models.masked_double(tmp_path / "m.onnx")
    (report,) = json.loads(checked(capsys, path, "--json"))
    assert (report["model"], report["kind"], report["difference"]) == ("m", "exact", 0.0)
    mask = report["inputs"][1]
    assert (mask["name"], mask["is_mask"], mask["batch_axis"]) == ("attention_mask", True, 0)
    assert mask["lengths"] == [{"axis": 1, "length": 0, "stride": 1, "offset": 0}]
    assert report["paddable"] == [0]
    assert report["timing"]
    assert report["engine"].startswith("gathers requests of any length, padded")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (models.masked_double, ["exact: batching and padding", "[rows, length 0]", "mask, 0"]),
        (models.unmasked_mean, ["pad-unsafe: padding moves", "requests of equal shape"]),
        (models.quantised_per_run, ["batch-sensitive: rows", "it has DynamicQuantizeLinear"]),
        (
            models.batch_of_one,
            ["batch-fixed: each request is a run of its own", "runs each request alone"],
        ),
    ],
)
def test_the_table_says_it_in_words(make, said, tmp_path, capsys):
    text = checked(capsys, make(tmp_path / "m.onnx"))
    for words in said:
        assert words in text


def test_several_models_and_settings(tmp_path, capsys):
    paths = [models.mlp(tmp_path / "a.onnx"), models.masked_double(tmp_path / "b.onnx")]
    settings = tmp_path / "x.toml"
    settings.write_text("[models.a]\nmax_batch_size = 3\n[models.b.inputs.ids]\npad = 7\n")
    a, b = json.loads(checked(capsys, *paths, "--config", settings, "--json"))
    assert "up to 3 rows" in a["engine"]
    assert b["inputs"][0]["pad_value"] == 7


def test_what_a_setting_decides_against_the_verdict_is_told(tmp_path, capsys):
    path = models.quantised_per_run(tmp_path / "m.onnx")
    settings = tmp_path / "x.toml"
    settings.write_text('allow_batching = "yes"\n')
    text = checked(capsys, path, "--config", settings)
    assert "batch-sensitive: rows change each other" in text
    assert "gathers requests of equal shape" in text
    assert "by allow_batching = yes." in text


def test_a_callable_is_not_run(capsys):
    (report,) = json.loads(checked(capsys, "tests.e2e.callables:shout", "--json"))
    assert "kind" not in report
    assert report["engine"].startswith("gathers requests of equal shape")


def test_a_shape_says_what_its_axes_mean():
    tensor = {
        "shape": [2, -1, -1, -1],
        "batch_axis": 1,
        "lengths": [{"axis": 2, "length": 0, "stride": 8, "offset": 7}],
    }
    assert shape_words(tensor) == "[2, rows, (length 0 +7) ÷ 8, ?]"
    assert shape_words({"shape": [], "batch_axis": None, "lengths": []}) == "[] for all rows"
