"""Shows simulated points: a progress bar, a table, JSON, and an HTML page with plots."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from xirang.errors import InvalidSetting
from xirang.lab.report import Cell, Report, plotly_module, shown
from xirang.lab.simulate_settings import Point
from xirang.lab.simulator_result import Result, Tally

CURVE_POINTS = 200

PointFigure = Callable[["PointOutcome"], Cell]


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """A point with its figures and the counts behind them."""

    point: Point
    result: Result
    tally: Tally


COLUMNS: dict[str, PointFigure] = {
    "on time %": lambda o: 100 * o.result.on_time,
    "p50 ms": lambda o: o.result.latency_p50_ms,
    "p99 ms": lambda o: o.result.latency_p99_ms,
    "mean batch": lambda o: o.result.batch_mean,
    "device ms a request": lambda o: o.result.device_ms_per_request,
    "padding %": lambda o: 100 * o.result.padding_waste,
    "busy %": lambda o: 100 * o.result.busy,
    "answered /s": lambda o: answered_rate(o.result),
    "late": lambda o: o.result.late,
    "expired": lambda o: o.result.expired,
    "rejected": lambda o: o.result.rejected,
    "runs": lambda o: o.result.runs,
}


def answered_rate(result: Result) -> float:
    """Answers a second, late ones included."""
    answered = result.requests - result.expired - result.rejected
    return answered / result.seconds if result.seconds else 0.0


def make_console(*, is_quiet: bool) -> Any:
    """The terminal, as rich sees it; a quiet one prints nothing."""
    try:
        from rich.console import Console
    except ImportError:
        raise InvalidSetting(
            "progress and tables need rich, which is not installed: pip install 'xirang[report]'"
        ) from None
    return Console(highlight=False, soft_wrap=True, quiet=is_quiet)


class Progress:
    """A bar on stderr while the points are simulated; nothing where that is no terminal."""

    def __init__(self, points: Sequence[Point], requests: int) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        self._bar = Bar(console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("simulating", total=len(points) * requests)
        self._requests = requests
        self._done = self._last = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, came: int) -> None:
        """So many requests of the present point have come."""
        if came < self._last:  # the next point began
            self._done += self._requests
        self._last = came
        self._bar.update(self._task, completed=self._done + came)


def json_of(settings: Mapping[str, Any], outcomes: Sequence[PointOutcome]) -> str:
    """All figures; the same bytes for the same settings."""
    points = [
        {
            "label": o.point.label,
            "rate": None if o.point.arrivals is None else round(o.point.arrivals.rate, 4),
            "load": None if o.point.load is None else round(o.point.load, 4),
            "clients": o.point.clients or None,
            "triggers": dict(sorted(o.tally.triggers.items())),
        }
        | o.result.as_json()
        for o in outcomes
    ]
    return json.dumps({"settings": dict(settings), "points": points}, indent=2) + "\n"


def print_outcomes(console: Any, outcomes: Sequence[PointOutcome]) -> None:
    """A column a point: figures are compared side by side."""
    from rich.table import Table

    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.point.label, justify="right")
    for heading, figure in COLUMNS.items():
        table.add_row(heading, *(shown(figure(outcome)) for outcome in outcomes))
    console.print(table, soft_wrap=False)


def simulation_report(settings: Mapping[str, Any], outcomes: Sequence[PointOutcome]) -> Report:
    """The HTML page."""
    plotly_module()
    given = " · ".join(f"{name} {value}" for name, value in settings.items() if value is not None)
    report = Report("Simulation", given)
    rows = [[o.point.label, *(figure(o) for figure in COLUMNS.values())] for o in outcomes]
    report.table("Points", ["load", *COLUMNS], rows)
    report.figure(
        "Latency distribution",
        _figure(
            [
                {"mode": "lines", "name": o.point.label, "x": xs, "y": ys}
                for o in outcomes
                for xs, ys in [_curve(o.tally)]
            ],
            x="latency, ms",
            y="requests, %",
        ),
        "Share of the answered requests within a latency.",
    )
    if len(outcomes) > 1:
        report.figure("On time", _over_load(outcomes, "on time %"), "Goodput ÷ offered load.")
        report.figure("Batch size", _over_load(outcomes, "mean batch"), "Rows a run.")
    report.figure(
        "Batch sizes",
        _figure(
            [
                {"type": "bar", "name": o.point.label, "x": sizes, "y": [counts[s] for s in sizes]}
                for o in outcomes
                for counts in [o.tally.batch_sizes]
                for sizes in [sorted(counts)]
            ],
            x="rows in a run",
            y="runs",
        ),
        "How many runs had so many rows.",
    )
    return report


def _curve(tally: Tally) -> tuple[list[float], list[float]]:
    ordered = sorted(tally.latencies_ns)
    if not ordered:
        return [], []
    last = len(ordered) - 1
    ranks = sorted({i * last // CURVE_POINTS for i in range(CURVE_POINTS + 1)})
    return [ordered[i] / 1e6 for i in ranks], [100 * (i + 1) / len(ordered) for i in ranks]


def _over_load(outcomes: Sequence[PointOutcome], column: str) -> dict[str, Any]:
    figure = COLUMNS[column]
    line = {
        "mode": "lines+markers",
        "name": column,
        "x": [o.point.load for o in outcomes],
        "y": [figure(o) for o in outcomes],
    }
    return _figure([line], x="load", y=column)


def _figure(traces: list[dict[str, Any]], *, x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "rangemode": "tozero"}}
    return {"data": [{"type": "scatter"} | trace for trace in traces], "layout": axes}
