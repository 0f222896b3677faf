"""`xirang plan` says what runs take, and how large a batch a budget allows."""

import json

import pytest

from tests.support import models
from xirang import cli
from xirang.plan import traced_model
from xirang.repository.discover import discover

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


@pytest.mark.parametrize("wrong", [["--budget", "0"], ["--batch", "0"], ["--length", "-3"]])
def test_numbers_must_be_more_than_nothing(wrong, tmp_path, capsys):
    path = models.mlp(tmp_path / "m.onnx")
    assert cli.main(["plan", str(path), *wrong]) == 2
    assert "expected more than 0" in capsys.readouterr().err


def test_a_model_without_lengths_is_traced_by_rows_alone(tmp_path):
    model = traced_model(discover([str(models.mlp(tmp_path / "m.onnx"))])[0])
    assert model.tiny == ()
    assert model.calibration() == [(1, 1), (2, 1), (3, 1)]
    law = model.law()
    assert law.peak_bytes(64, 1) == 64 * law.peak_bytes(1, 1)
