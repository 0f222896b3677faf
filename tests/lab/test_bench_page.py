"""The page of benchmarks reads what they print."""

import pytest
from benchmarks.figures import Figure
from benchmarks.page import figures_in, page_of, room

FIGURES = [
    Figure("server CPU a request, binary, 64 clients", 25.5, 28.0, False, "µs"),
    Figure("throughput of a tiny model, all on ÷ all off", 0.891, 0.97),
    Figure("a very small one", 1.5e-06, 0.01, False),
    Figure("x" * 70, 1234.0, 1000.0, True, "/s"),
]


def test_what_is_printed_is_read_again():
    lines = ["2 cores, Python 3.11", "", *[f"{figure.line()}\n" for figure in FIGURES], "ok then"]
    found = figures_in(lines)
    assert [(f.name, f.unit, f.is_floor, f.goal) for f in found] == [
        (f.name, f.unit, f.is_floor, f.goal) for f in FIGURES
    ]
    assert [f.value for f in found] == pytest.approx([f.value for f in FIGURES], rel=1e-2)
    assert [f.is_met for f in found] == [True, False, True, True]


def test_how_far_a_figure_is_from_its_goal():
    assert room(Figure("a ceiling", 14.0, 28.0, False)) == 2
    assert room(Figure("a floor", 0.5, 1.0)) == 0.5
    assert room(Figure("nothing at all", 0.0, 0.3, False)) == 1


def test_the_page_tells_all_of_them():
    page = page_of(FIGURES, title="Benchmarks", subtitle="").render()
    for figure in FIGURES:
        assert figure.name in page
    assert "<b>1</b>short" in page
