"""Writes one self-contained HTML page: tiles, tables and plots that follow light and dark.

The page carries the plot library, its style and its data; opening it loads nothing
from anywhere. Plots get their colours in the browser, so a theme change reaches them.
"""

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from xirang.errors import InvalidSetting

Cell = str | int | float | None

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
<div><h1>{title}</h1><p class="subtitle">{subtitle}</p></div>
<button id="theme" type="button" aria-label="Switch between light and dark">◐</button>
</header>
<main>
{sections}
</main>
<script>
{library}
</script>
<script>
{script}
</script>
</body>
</html>
"""


@dataclass(slots=True, eq=False)
class Report:
    """A page under construction; sections appear in the order of the calls.

    Attributes:
        title: Heading of the page.
        subtitle: A line below it.
    """

    title: str
    subtitle: str = ""
    _sections: list[str] = field(default_factory=list)
    _figures: int = 0

    def tiles(self, figures: Sequence[tuple[str, Cell]]) -> None:
        """A row of large figures, each a (label, value); those without a value are left out."""
        tiles = "".join(
            f'<div class="tile"><b>{html.escape(shown(value))}</b>{html.escape(label)}</div>'
            for label, value in figures
            if value is not None
        )
        self._sections.append(f'<section class="tiles">{tiles}</section>')

    def table(
        self, heading: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], note: str = ""
    ) -> None:
        """A table; numbers are rounded for reading and stand to the right."""
        head = "".join(
            f"<th{_words(row[i] for row in rows)}>{html.escape(column)}</th>"
            for i, column in enumerate(columns)
        )
        lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
        self._section(heading, f'<div class="wide">{table}</div>', note)

    def figure(self, heading: str, figure: Any, caption: str = "") -> None:
        """A plot: a plotly figure, or a dictionary with its `data` and `layout`."""
        content = json.loads(plotly_module().io.to_json(figure, validate=False))
        # A template would bring colours of its own, which the page's themes must choose.
        content.get("layout", {}).pop("template", None)
        # Inside a script element only "</" could end the data early.
        text = json.dumps(content, separators=(",", ":")).replace("</", "<\\/")
        self._figures += 1
        name = f"figure-{self._figures}"
        plot = (
            f'<div class="plot" id="{name}"></div>'
            f'<script type="application/json" data-plot="{name}">{text}</script>'
        )
        self._section(heading, plot, caption)

    def text(self, markup: str) -> None:
        """A section of HTML as it is: whoever calls this has escaped what came from outside."""
        self._sections.append(f"<section>{markup}</section>")

    def write(self, path: Path) -> None:
        """Write the page."""
        path.write_text(self.render(), encoding="utf-8")

    def render(self) -> str:
        """The whole page."""
        library = plotly_module().offline.get_plotlyjs() if self._figures else ""
        return _PAGE.format(
            title=html.escape(self.title),
            subtitle=html.escape(self.subtitle),
            style=_part("report.css"),
            sections="\n".join(self._sections),
            library=library,
            script=_part("report.js"),
        )

    def _section(self, heading: str, content: str, note: str) -> None:
        below = f'<p class="note">{html.escape(note)}</p>' if note else ""
        self._sections.append(f"<section><h2>{html.escape(heading)}</h2>{content}{below}</section>")


def shown(value: Cell) -> str:
    """A figure as people read it: about three digits, a dash for none."""
    match value:
        case None:
            return "–"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case text:
            return text


def _words(cells: Iterable[Cell]) -> str:
    """What a column's heading stands over: words to the left, numbers to the right."""
    return ' class="words"' if all(isinstance(cell, str) for cell in cells) else ""


def _cell(value: Cell) -> str:
    kind = "" if isinstance(value, str) else ' class="number"'
    return f"<td{kind}>{html.escape(shown(value))}</td>"


def _part(name: str) -> str:
    return files("xirang.lab").joinpath(name).read_text(encoding="utf-8").strip()


def plotly_module() -> Any:
    """The plot library, or the advice to install it."""
    try:
        import plotly.io
        import plotly.offline
    except ImportError:
        raise InvalidSetting(
            "an HTML report needs plotly, which is not installed: pip install 'xirang[report]'"
        ) from None
    return plotly
