"""A report page carries everything it needs and shows outside strings only escaped."""

import html.parser
import json
import re
import sys

import pytest

from xirang.errors import InvalidSetting
from xirang.lab.report import Report, shown

EVIL = '<img src=x onerror="alert(1)">&</script>'
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Notes tags, attributes and script bodies; tags must nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.scripts, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        else:
            self.text += data


@pytest.fixture(scope="module")
def page():
    report = Report(EVIL, EVIL)
    report.tiles([(EVIL, 1234.5), ("absent", None)])
    report.table(EVIL, ["name", EVIL], [[EVIL, 3], ["b", None], ["c", 0.12345]], note=EVIL)
    figure = {"data": [{"type": "bar", "name": EVIL, "x": ["a"], "y": [1.0]}], "layout": {}}
    report.figure(EVIL, figure, EVIL)
    report.text("<p>plain <b>markup</b></p>")
    return report.render()


def without_library(text):
    from plotly.offline import get_plotlyjs

    assert text.count(get_plotlyjs()) == 1
    return text.replace(get_plotlyjs(), "")


def test_the_page_nests_and_strings_from_outside_are_only_text(page):
    parsed = Page(without_library(page))
    tags = [tag for tag, _ in parsed.tags]
    assert "img" not in tags
    assert not any(name.startswith("on") for _, attrs in parsed.tags for name in attrs)
    assert parsed.text.count(EVIL) == 10


def test_plot_data_survives_its_escape(page):
    parsed = Page(without_library(page))
    data = json.loads(next(script for script in parsed.scripts if script.startswith("{")))
    assert data["data"][0]["name"] == EVIL


def test_the_page_loads_nothing_from_anywhere(page):
    own = without_library(page)
    assert not re.search(r"https?://|@import|url\(|<link|<iframe", own)
    assert not any({"src", "href"} & attrs.keys() for _, attrs in Page(own).tags)


def test_both_themes_and_narrow_screens_are_styled(page):
    assert "prefers-color-scheme: dark" in page
    assert 'data-theme="dark"' in page
    assert 'name="viewport"' in page


def test_a_page_without_plots_does_not_carry_the_plot_library(tmp_path):
    report = Report("Small")
    report.table("T", ["a"], [[1]])
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 20_000


def test_a_plotly_figure_loses_its_template(page):
    import plotly.graph_objects as graph

    report = Report("Plot")
    report.figure("F", graph.Figure(graph.Bar(x=["a"], y=[2])))
    scripts = Page(without_library(report.render())).scripts
    content = json.loads(next(script for script in scripts if script.startswith("{")))
    assert content["data"][0]["type"] == "bar"
    assert "template" not in content["layout"]


def test_without_plotly_the_advice_is_clear(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.io", None)
    with pytest.raises(InvalidSetting, match=r"pip install 'xirang\[report\]'"):
        Report("x").figure("F", {"data": [], "layout": {}})


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (12345, "12,345"), (1234.56, "1,235"), (12.345, "12.3"), (0.0123, "0.0123")],
)
def test_figures_are_rounded_for_reading(value, text):
    assert shown(value) == text
