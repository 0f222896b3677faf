"""The plots of a report as PNG files, taken by a real browser where there is one."""

import os
import shutil
import struct

import pytest

from xirang.cli import main
from xirang.errors import InvalidSetting
from xirang.lab.picture import BROWSERS, slug, take_pictures
from xirang.lab.report import Report

HAS_BROWSER = any(map(shutil.which, BROWSERS))


@pytest.fixture
def report(tmp_path):
    page = Report("A page")
    bars = {"data": [{"type": "bar", "x": [1, 2], "y": [3, 4]}], "layout": {}}
    page.figure("On time & late", bars, "a caption")
    page.figure("Mean batch", bars | {"layout": {"height": 900}})
    page.write(tmp_path / "page.html")
    return tmp_path / "page.html"


@pytest.mark.slow
@pytest.mark.skipif(
    not HAS_BROWSER and not os.environ.get("CI"), reason="no chromium (CI must have it)"
)
def test_each_plot_becomes_a_file_of_that_size(report, tmp_path, capsys):
    assert main(["picture", str(report), "--to", str(tmp_path / "to"), "--theme", "dark"]) == 0
    paths = sorted((tmp_path / "to").iterdir())
    assert [path.name for path in paths] == ["mean-batch.png", "on-time-late.png"]
    for path in paths:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">II", data[16:24]) == (1920, 960)
        assert len(data) > 5_000, "it is not empty"
    assert "mean-batch.png" in capsys.readouterr().out


def test_without_a_browser_it_says_what_it_needs(report, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InvalidSetting, match="a picture needs a Chromium"):
        take_pictures(report, tmp_path)


@pytest.mark.skipif(
    not HAS_BROWSER and not os.environ.get("CI"), reason="no chromium (CI must have it)"
)
def test_what_is_no_report_is_refused(tmp_path, capsys):
    assert main(["picture", str(tmp_path / "nothing.html")]) == 2
    assert "cannot read" in capsys.readouterr().err
    (tmp_path / "other.html").write_text("<p>something else</p>")
    assert main(["picture", str(tmp_path / "other.html")]) == 2
    assert "is no report with plots" in capsys.readouterr().err


def test_a_heading_becomes_a_name():
    assert slug("Latency at load 0.7") == "latency-at-load-0-7"
    assert slug("…") == "figure"
