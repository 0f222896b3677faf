"""The HTML page of a simulation: what each policy made of each load, and how ours was set."""

from collections.abc import Callable, Mapping, Sequence
from math import log10
from typing import Any

from xirang.lab.report import Report, plotly_module
from xirang.lab.simulate_report import COLUMNS, Outcome, by_point
from xirang.lab.simulator_course import Moment
from xirang.lab.simulator_result import Tally

CURVE_POINTS = 200
CURVES_MAX = 4
COLOURS = 10
DASHES = ("solid", "dash", "dot")
PLAIN = {"compress": 1.0, "models": 1, "devices": 1, "noise": 0.0, "outliers": "0"}
"""Settings that say nothing where they have this value."""

OVER_LOAD = {
    "On time": ("on time %", "Goodput ÷ offered load."),
    "Mean batch": ("mean batch", "Rows a run."),
    "Device time": ("device ms", "Time of all runs for each request answered in budget."),
}
COURSE: dict[str, tuple[str, Callable[[Moment], float], str]] = {
    "Demand": (
        "demand",
        lambda moment: moment.demand,
        "Arriving work ÷ what the devices can do, as our scheduler believes it.",
    ),
    "Window": (
        "window, ms",
        lambda moment: moment.window_ms,
        "How long a lone request would be kept waiting for company, if its budget allows.",
    ),
    "Threshold": (
        "threshold, ms",
        lambda moment: moment.threshold_ms,
        "Waiting work that lets a batch go at once.",
    ),
}


def simulation_report(settings: Mapping[str, Any], outcomes: Sequence[Outcome]) -> Report:
    """The page."""
    plotly_module()
    given = " · ".join(
        f"{name.replace('_', ' ')} {_plain(value)}"
        for name, value in settings.items()
        if value is not None and PLAIN.get(name) != value
    )
    report = Report("Simulation", given)
    show(report, outcomes)
    return report


def show(report: Report, outcomes: Sequence[Outcome]) -> None:
    """Add all plots and the table to a page."""
    groups = by_point(outcomes)
    rows = [
        [label, o.policy, *(figure(o) for figure in COLUMNS.values())]
        for label, group in groups.items()
        for o in group
    ]
    if len(groups) > 1:
        for heading, (column, note) in OVER_LOAD.items():
            report.figure(heading, _over_load(outcomes, column), note)
    for label in _spaced(list(groups)):
        report.figure(
            f"Latency at {_load_of(label)}",
            _figure(
                [_curve(i, o) for i, o in enumerate(groups[label])],
                x="latency, ms",
                y="requests, %",
            ),
            "Share of the requests at this load that were answered within a latency.",
        )
    for heading, (unit, figure, note) in COURSE.items():
        lines = _courses(outcomes, figure)
        if lines:
            report.figure(heading, _figure(lines, x="time, % of the simulation", y=unit), note)
    report.table("All points", ["load", "policy", *COLUMNS], rows)


def _plain(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _spaced(labels: list[str]) -> list[str]:
    """A few of them, the first and the last included."""
    if len(labels) <= CURVES_MAX:
        return labels
    steps = range(CURVES_MAX)
    return [labels[i * (len(labels) - 1) // (CURVES_MAX - 1)] for i in steps]


def _over_load(outcomes: Sequence[Outcome], column: str) -> dict[str, Any]:
    figure = COLUMNS[column]
    policies: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        policies.setdefault(outcome.policy, []).append(outcome)
    lines = [
        {
            "mode": "lines+markers",
            "name": policy,
            "x": [o.point.load for o in group],
            "y": [figure(o) if o.result.on_time else None for o in group],
        }
        | _style(i, policy)
        for i, (policy, group) in enumerate(policies.items())
    ]
    figures = _figure(lines, x="load", y=column)
    if column == "device ms":  # of an overloaded policy it is many times that of the others
        doublings = {"type": "log", "dtick": log10(2), "tickformat": ".2~g"}
        figures["layout"]["yaxis"] = {"title": {"text": column}} | doublings
    return figures


def _curve(i: int, outcome: Outcome) -> dict[str, Any]:
    xs, ys = _quantiles(outcome.tally, outcome.result.requests)
    curve = {"mode": "lines", "name": outcome.policy, "x": xs, "y": ys}
    return curve | _style(i, outcome.policy)


def _quantiles(tally: Tally, requests: int) -> tuple[list[float], list[float]]:
    ordered = sorted(tally.latencies_ns)
    if not ordered:
        return [], []
    last = len(ordered) - 1
    ranks = sorted({i * last // CURVE_POINTS for i in range(CURVE_POINTS + 1)})
    return [ordered[i] / 1e6 for i in ranks], [100 * (i + 1) / requests for i in ranks]


def _courses(
    outcomes: Sequence[Outcome], figure: Callable[[Moment], float]
) -> list[dict[str, Any]]:
    return [
        {
            "mode": "lines",
            "name": f"{o.policy} at {o.point.label}",
            "x": [100 * moment.at_s / o.moments[-1].at_s for moment in o.moments],
            "y": [figure(moment) for moment in o.moments],
        }
        for o in outcomes
        if o.moments
    ]


def _style(i: int, policy: str) -> dict[str, Any]:
    # The page has ten colours; beyond them lines are told apart by their strokes.
    is_ours = policy.startswith("ours")
    dash = DASHES[i // COLOURS % len(DASHES)]
    return {"line": {"dash": dash, "width": 3.5 if is_ours else 1.8}, "zorder": int(is_ours)}


def _load_of(label: str) -> str:
    return f"load {label}" if label.replace(".", "").isdecimal() else label


def _figure(traces: list[dict[str, Any]], *, x: str, y: str) -> dict[str, Any]:
    axes = {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}, "rangemode": "tozero"}}
    return {"data": [{"type": "scatter"} | trace for trace in traces], "layout": axes}
