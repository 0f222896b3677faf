"""Shows a load run in the terminal: a live progress line, then a table; plain text in a pipe."""

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from xirang.errors import InvalidSetting
from xirang.lab.load.page import notes_of, table_of
from xirang.lab.load.point import Progress
from xirang.lab.load.result import PointResult
from xirang.lab.report import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLAIN_STEP = 0.25
"""Without a terminal a point is told of so often, in shares of its length."""

COLUMN_GAP = 2


def make_console() -> "Console":
    """The terminal, as rich sees it."""
    try:
        from rich.console import Console
    except ImportError:
        raise InvalidSetting(
            "progress and tables need rich, which is not installed: pip install 'xirang[report]'"
        ) from None
    return Console(highlight=False, soft_wrap=True)


class ProgressLine:
    """A context in which progress of points is shown; call it with each `Progress`."""

    def __init__(self, console: "Console") -> None:
        self._console = console
        self._live: Any = None
        self._task: Any = None
        self._label = ""
        self._told = self._share = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

            self._live = Bar(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[figures]}"),
                TimeRemainingColumn(compact=True),
                console=self._console,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far the point is."""
        if progress.label != self._label or progress.share < self._share:
            self._label, self._told = progress.label, 0.0
            self._begin(progress)
        self._share = progress.share
        if self._live is not None:
            figures = _figures(progress)
            self._live.update(self._task, completed=progress.share, figures=figures)
        elif progress.share >= self._told + PLAIN_STEP or progress.share == 1 > self._told:
            self._told = progress.share
            self._console.print(
                f"{progress.label}: {progress.share:4.0%}  {_figures(progress)}", markup=False
            )

    def _begin(self, progress: Progress) -> None:
        if self._live is None:
            return
        if self._task is not None:
            self._live.remove_task(self._task)
        self._task = self._live.add_task(progress.label, total=1.0, figures="")


def _figures(progress: Progress) -> str:
    p50 = "" if progress.p50_ms is None else f"  p50 {shown(progress.p50_ms)} ms"
    errors = f"  {progress.errors:,} errors" if progress.errors else ""
    return f"{progress.finished:,} requests  {progress.rate:,.0f}/s{p50}{errors}"


def print_results(console: "Console", results: Sequence[PointResult]) -> None:
    """The table of all points and what must be known to read it."""
    headings, rows = table_of(results)
    lines = [headings, *([shown(cell) for cell in row] for row in rows)]
    for block in fitting_blocks(lines, console.width):
        console.print(_table(block), soft_wrap=False)
    for note in notes_of(results):
        console.print(f"note: {note}", markup=False)


def fitting_blocks(lines: Sequence[Sequence[str]], width: int) -> list[list[list[str]]]:
    """The table as it is where it fits; else points side by side, as many as fit in a block."""
    columns = [list(column) for column in zip(*lines, strict=True)]
    if sum(map(_width, columns)) <= width + COLUMN_GAP:
        return [[list(line) for line in lines]]
    names, *points = [list(line) for line in lines]
    blocks: list[list[list[str]]] = []
    room = 0
    for point in points:
        if room < _width(point):
            blocks.append([names])
            room = width + COLUMN_GAP - _width(names)
        blocks[-1].append(point)
        room -= _width(point)
    return [[list(line) for line in zip(*block, strict=True)] for block in blocks]


def _width(cells: Sequence[str]) -> int:
    return max(map(len, cells)) + COLUMN_GAP


def _table(lines: Sequence[Sequence[str]]) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(header_style="bold", box=None, padding=(0, COLUMN_GAP, 0, 0), pad_edge=False)
    for column, heading in enumerate(lines[0]):
        table.add_column(escape(heading), justify="right" if column else "left", no_wrap=True)
    for line in lines[1:]:
        table.add_row(*map(escape, line))
    return table
