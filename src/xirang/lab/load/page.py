"""Shows the points of a load run: one set of columns for the terminal table and the HTML page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xirang.lab.load.result import PointResult
from xirang.lab.load.scrape import ServerFigures
from xirang.lab.report import Cell, Report

CLIENT_CPU_HIGH = 0.8


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a point, with its heading."""

    heading: str
    figure: Callable[[PointResult], Cell]


def _server(result: PointResult) -> ServerFigures:
    return result.server or ServerFigures()


COLUMNS = (
    Column("asked /s", lambda result: result.rate_asked),
    Column("answered /s", lambda result: result.throughput),
    Column("in budget /s", lambda result: result.goodput),
    Column("requests", lambda result: result.sent),
    Column("errors", lambda result: result.errors),
    Column("p50 ms", lambda result: result.p50_ms),
    Column("p90 ms", lambda result: result.p90_ms),
    Column("p99 ms", lambda result: result.p99_ms),
    Column("max ms", lambda result: result.latency_max_ms),
    # A closed loop has no intended send times that it could miss.
    Column("late p99 ms", lambda r: r.lateness_p99_ms if r.rate_asked is not None else None),
    Column("mean batch", lambda result: _server(result).mean_batch),
    Column("padding %", lambda result: _percent(_server(result).padding_waste)),
    Column("device ms a request", lambda result: _server(result).device_ms),
    Column("client CPU %", lambda result: _percent(result.client_cpu)),
)


def _percent(share: float | None) -> float | None:
    return None if share is None else share * 100


def table_of(results: Sequence[PointResult]) -> tuple[list[str], list[list[Cell]]]:
    """Headings and rows; a column that no point has a figure for is left out."""
    shown = [c for c in COLUMNS if any(c.figure(result) is not None for result in results)]
    headings = ["load", *(column.heading for column in shown)]
    rows: list[list[Cell]] = [
        [result.label, *(column.figure(result) for column in shown)] for result in results
    ]
    return headings, rows


def notes_of(results: Sequence[PointResult]) -> list[str]:
    """What a reader of the table must know: early ends, errors by kind, a busy client."""
    notes = [f"{result.label}: {result.note}" for result in results if result.note]
    for result in results:
        kinds = {f"status {s}": n for s, n in result.statuses.items() if not 200 <= s < 300}
        kinds |= result.faults
        if result.unfinished:
            kinds["unfinished"] = result.unfinished
        if kinds:
            counts = ", ".join(f"{name} × {count}" for name, count in kinds.items())
            notes.append(f"{result.label}: {counts}")
        if result.client_cpu > CLIENT_CPU_HIGH:
            notes.append(
                f"{result.label}: this client used {result.client_cpu:.0%} of a core, "
                "so the figures may be its own limit"
            )
    return notes


def load_report(title: str, subtitle: str, results: Sequence[PointResult]) -> Report:
    """The HTML page of a load run."""
    report = Report(title, subtitle)
    best = max(results, key=lambda result: result.throughput)
    report.tiles(
        [
            ("answered /s, best point", best.throughput),
            ("p50 ms there", best.p50_ms),
            ("p99 ms there", best.p99_ms),
            ("mean batch there", _server(best).mean_batch),
            ("errors in all", sum(result.errors for result in results)),
        ]
    )
    add_points(report, results)
    if len(results) > 1:
        report.figure(
            "Throughput against p99",
            _throughput_against_p99(results),
            "Right is more work, up is more waiting; the bend is the capacity.",
        )
    return report


def add_points(report: Report, results: Sequence[PointResult]) -> None:
    """The table and the plots that compare points of any kind."""
    headings, rows = table_of(results)
    report.table("Points", headings, rows, note=" · ".join(notes_of(results)))
    report.figure(
        "Latency over time",
        _latency_over_time(results),
        "Each dot is a request, placed at the instant when it was meant to leave.",
    )
    report.figure(
        "Latency distribution",
        _latency_curves(results),
        "Share of the requests that were answered within a latency.",
    )
    if any(_server(result).batch_sizes for result in results):
        report.figure(
            "Batch sizes", _batch_sizes(results), "Runs by rows in them, from the server's metrics."
        )


def _latency_over_time(results: Sequence[PointResult]) -> dict[str, Any]:
    traces = [
        {
            "type": "scattergl",
            "mode": "markers",
            "marker": {"size": 4, "opacity": 0.55},
            "name": result.label,
            "x": [instant_s for instant_s, _ in result.latency_over_time],
            "y": [latency_ms for _, latency_ms in result.latency_over_time],
        }
        for result in results
    ]
    figure = _figure(traces, x="seconds into the window", y="latency, ms")
    figure["layout"]["yaxis"]["type"] = "log"
    figure["layout"]["legend"] = {"itemsizing": "constant"}
    return figure


def _latency_curves(results: Sequence[PointResult]) -> dict[str, Any]:
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": result.label,
            "x": result.latency_curve,
            "y": np.linspace(0, 100, len(result.latency_curve)).round(2).tolist(),
        }
        for result in results
    ]
    figure = _figure(traces, x="latency, ms", y="requests, %")
    figure["layout"]["xaxis"]["type"] = "log"
    return figure


def _throughput_against_p99(results: Sequence[PointResult]) -> dict[str, Any]:
    # A closed loop slows down with the server, an open loop does not: two different curves.
    kinds = {
        "closed loop": [result for result in results if result.rate_asked is None],
        "open loop": [result for result in results if result.rate_asked is not None],
    }
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers+text",
            "name": kind,
            "x": [result.throughput for result in points],
            "y": [result.p99_ms for result in points],
            "text": [result.label for result in points],
            "textposition": ["top center"] * (len(points) - 1) + ["top left"],
            "marker": {"size": 9},
            "cliponaxis": False,
        }
        for kind, points in kinds.items()
        if points
    ]
    return _figure(traces, x="answered requests a second", y="p99, ms")


def _batch_sizes(results: Sequence[PointResult]) -> dict[str, Any]:
    classes = [dict(_server(result).batch_sizes) for result in results]
    # Every bound of one server comes in order, but a point may lack some: the union keeps it.
    bounds = sorted({size for each in classes for size in each}, key=_class_order)
    traces = [
        {"type": "bar", "name": result.label, "x": bounds, "y": [each.get(b, 0) for b in bounds]}
        for result, each in zip(results, classes, strict=True)
    ]
    return _figure(traces, x="rows in a run", y="runs")


def _class_order(label: str) -> float:
    return float(label.removeprefix("≤ ")) if label.startswith("≤") else float("inf")


def _figure(traces: list[dict[str, Any]], *, x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "rangemode": "tozero"}}
    return {"data": traces, "layout": axes}
