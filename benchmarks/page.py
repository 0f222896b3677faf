"""The lines of `make bench…` as one page: what was measured beside its goal, and by how much.

    make bench | tee bench.txt; python -m benchmarks.page bench.txt --html bench.html

Other lines go by: they are about the runs, not figures.
"""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import Figure
from xirang.lab.report import Report

LINE = re.compile(
    r"(?:ok   |short)  (?P<name>.+?) +(?P<value>-?[\d.]+(?:e[+-]?\d+)?)(?: (?P<unit>\S+))?"
    r"  (?P<sign>[≥≤]) (?P<goal>\S+)(?: \S+)?"
)


def figures_in(lines: Iterable[str]) -> list[Figure]:
    """The figures among the lines that benchmarks print."""
    found = map(LINE.fullmatch, (line.rstrip() for line in lines))
    return [
        Figure(m["name"], float(m["value"]), float(m["goal"]), m["sign"] == "≥", m["unit"] or "")
        for m in found
        if m is not None
    ]


def room(figure: Figure) -> float:
    """How far on the right side of its goal it is: 1 at the goal, 2 twice as good."""
    better, worse = (figure.value, figure.goal) if figure.is_floor else (figure.goal, figure.value)
    return max(0.0, better / worse) if worse > 0 else 1.0


def page_of(figures: list[Figure], *, title: str, subtitle: str) -> Report:
    page = Report(title, subtitle)
    met = [figure for figure in figures if figure.is_met]
    short = [figure for figure in figures if not figure.is_met]
    page.tiles([("figures", len(figures)), ("met", len(met)), ("short", len(short))])
    names = [figure.name for figure in figures]
    bars = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": [figure.name for figure in group],
            "x": [min(room(figure), 4.0) for figure in group],
            "text": [f"{figure.value:.3g} {figure.unit}".strip() for figure in group],
        }
        for name, group in (("met", met), ("short", short))
        if group
    ]
    page.figure(
        "Against the goals",
        {
            "data": bars,
            "layout": {
                "height": 120 + 26 * len(names),
                "barmode": "overlay",
                "yaxis": {"categoryorder": "array", "categoryarray": names[::-1]},
                "xaxis": {"title": {"text": "1 is the goal, more is better"}, "range": [0, 4.1]},
                "shapes": [{"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}],
            },
        },
        "How many times better than its goal each figure is; what is more than four times as good "
        "is drawn as four.",
    )
    rows = [
        [
            "ok" if figure.is_met else "short",
            figure.name,
            figure.value,
            figure.unit,
            f"{'≥' if figure.is_floor else '≤'} {figure.goal:g}",
        ]
        for figure in figures
    ]
    page.table("All figures", ["", "figure", "value", "unit", "goal"], rows)
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="what benchmarks printed (stdin)")
    parser.add_argument("--html", type=Path, default=Path("bench.html"), metavar="FILE")
    parser.add_argument("--title", default="Benchmarks")
    arguments = parser.parse_args()
    lines = sys.stdin if arguments.file is None else arguments.file.read_text().splitlines()
    figures = figures_in(lines)
    if not figures:
        parser.error("there are no figures in it; expected lines that begin with ok or short")
    where = "" if arguments.file is None else str(arguments.file)
    page_of(figures, title=arguments.title, subtitle=where).write(arguments.html)
    print(arguments.html)


if __name__ == "__main__":
    main()
