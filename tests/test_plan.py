"""`xirang plan` says what runs take, and how large a batch a budget allows."""

import json

import pytest

from tests.support import memory_models, models
from xirang import cli
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.errors import InvalidSetting
from xirang.plan import TracedModel, traced_model
from xirang.repository.discover import discover

pytestmark = pytest.mark.slow

SMALL = ("--batch", "1", "4", "--length", "32", "64", "--budget", "0.01")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    path = models.masked_double(folder / "m.onnx")
    output, page = folder / "m.json", folder / "m.html"
    assert cli.main(["plan", str(path), *SMALL, "--json", str(output), "--html", str(page)]) == 0
    return json.loads(output.read_text()), page.read_text()


def test_the_law_is_the_real_peak_of_shapes_that_it_has_not_seen(report):
    seen = [run for run in report[0]["runs"] if run["real_bytes"] is not None]
    assert seen
    for run in seen:
        # The runtime's arena rounds each block up to 256 bytes.
        blocks = report[0]["blocks"]
        assert run["predicted_bytes"] <= run["real_bytes"] <= run["predicted_bytes"] + 256 * blocks
        assert run["unexplained_bytes"] == 0


def test_plans_lie_between_the_bound_and_each_tensor_apart(report):
    assert [(run["rows"], run["length"]) for run in report[0]["runs"]] == [
        (1, 32),
        (1, 64),
        (4, 32),
        (4, 64),
    ]
    for run in report[0]["runs"]:
        assert run["bound_bytes"] == run["plan_bytes"] <= run["sum_bytes"]


def test_the_largest_batch_is_half_as_large_for_rows_twice_as_long(report):
    rows = report[0]["rows_max"]
    assert rows["32"] // 2 - 1 <= rows["64"] <= rows["32"] // 2 + 1


def test_the_page_has_a_box_for_each_block(report):
    found, page = report
    assert found["picture"]
    assert "The plan of a run of 4 × 64" in page
    assert found["picture"][0]["name"] in page


@pytest.mark.parametrize(
    "wrong", [["--budget", "0"], ["--batch", "0"], ["--length", "-3"], ["--length", "0x5"]]
)
def test_numbers_must_be_more_than_nothing(wrong, tmp_path, capsys):
    path = models.mlp(tmp_path / "m.onnx")
    assert cli.main(["plan", str(path), *wrong]) == 2
    assert "expected more than 0" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["4x", "wide", "4,5", ""])
def test_what_is_no_length_is_told(wrong, tmp_path, capsys):
    path = models.mlp(tmp_path / "m.onnx")
    with pytest.raises(SystemExit) as ended:
        cli.main(["plan", str(path), "--length", wrong])
    assert ended.value.code == 2
    says = f"'{wrong}' is no length; expected a number, or 32x128 for a model of two lengths"
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("wrong", "shown"), [((4, 4, 4), "4x4x4"), (64, "64")])
def test_lengths_that_a_model_has_not_are_told(wrong, shown, tmp_path):
    layout = Layout(0, (Tie(1, length=0), Tie(2, length=1)))
    spec = TensorSpec("x", "FP32", ("n", "h", "w"))
    signature = Signature((spec,), (), is_batched=True, input_layouts={"x": layout})
    model = TracedModel("m", tmp_path, signature, ((32, 320), (32, 640)))
    assert model.checked([(4, 4)]) == [(4, 4)]
    says = f"--length {shown}: model 'm' has 2 lengths; expected something like 320x640"
    with pytest.raises(InvalidSetting, match=says):
        model.checked([(4, 4), wrong])


def test_a_model_of_two_lengths_is_planned_by_each_of_them(tmp_path, capsys):
    path = memory_models.pictures(tmp_path / "m.onnx")
    output, page = tmp_path / "m.json", tmp_path / "m.html"
    asked = ("--batch", "2", "--length", "40x80", "33x17", "100x50", "--budget", "1")
    assert cli.main(["plan", str(path), *asked, "--json", str(output), "--html", str(page)]) == 0
    found = json.loads(output.read_text())
    assert [run["length"] for run in found["runs"]] == [[33, 17], [40, 80], [100, 50]]
    assert not found["inexact"]
    for run in found["runs"]:
        if run["real_bytes"] is not None:
            rounding = 256 * found["blocks"]
            assert 0 <= run["real_bytes"] - run["predicted_bytes"] <= rounding
        assert run["plan_bytes"] == run["bound_bytes"]
    assert list(found["rows_max"]) == ["33x17", "40x80", "100x50"]
    assert "2 × 100x50" in page.read_text()
    assert "of length 40x80" in capsys.readouterr().out


def test_a_model_without_lengths_is_traced_by_rows_alone(tmp_path):
    model = traced_model(discover([str(models.mlp(tmp_path / "m.onnx"))])[0])
    assert model.known == ()
    assert model.calibration() == [(1, 1), (2, 1), (3, 1)]
    law = model.law()
    assert law.peak_bytes(64, 1) == 64 * law.peak_bytes(1, 1)
