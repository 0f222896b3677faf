"""The HTML page of `xirang plan`: the plan as a picture, and its figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from xirang.lab.report import Report, plotly_module

COLUMNS = {
    "each tensor apart, MB": "sum_bytes",
    "runtime's reuse, MB": "runtime_bytes",
    "runtime's arena, MB": "runtime_held_bytes",
    "plan, MB": "plan_bytes",
    "lower bound, MB": "bound_bytes",
    "law, MB": "predicted_bytes",
    "real peak, MB": "real_bytes",
}


def plan_report(report: Mapping[str, Any]) -> Report:
    """The page.

    Args:
        report: As `xirang plan --json` prints it.
    """
    plotly_module()
    last = report["runs"][-1]
    page = Report(
        f"Memory of {report['model']}",
        f"{report['blocks']} blocks, {len(report['calibrated_at'])} tiny runs, "
        f"{report['regimes']} regime{'s' if report['regimes'] > 1 else ''}",
    )
    shape = f"{last['rows']} × {_length(last['length'])}"
    page.tiles(
        [
            (f"MB planned for {shape}", last["plan_bytes"] / 1e6),
            ("of the lower bound", last["plan_bytes"] / max(1, last["bound_bytes"])),
            ("times less than each tensor apart", last["sum_bytes"] / max(1, last["plan_bytes"])),
            ("of the runtime's own peak", _ratio(last["plan_bytes"], last["runtime_bytes"])),
        ]
    )
    page.figure(
        f"The plan of a run of {shape}",
        _plan_figure(report["picture"]),
        "Each box is a block: it lives from left to right, in nodes of the graph, and lies at the "
        "addresses from its lower to its upper edge. Boxes never overlap.",
    )
    budget = report["budget_bytes"] / 1e6
    lengths = list(report["rows_max"])
    page.figure(
        f"The largest batch in {budget:,.0f} MB",
        {
            "data": [{"type": "bar", "x": lengths, "y": list(report["rows_max"].values())}],
            "layout": {
                "xaxis": {"title": {"text": "length"}, "type": "category"},
                "yaxis": {"title": {"text": "rows"}},
            },
        },
        "By the law of the peak; one row more does not fit.",
    )
    rows = [
        [run["rows"], _length(run["length"]), *(_megabytes(run[key]) for key in COLUMNS.values())]
        for run in report["runs"]
    ]
    page.table("All shapes", ["rows", "length", *COLUMNS], rows)
    return page


def _length(length: int | Sequence[int]) -> int | str:
    """As a model's lengths are asked for: 128, or 32x128."""
    return length if isinstance(length, int) else "x".join(map(str, length))


def _ratio(value: int, of: int | None) -> float | None:
    return value / of if of else None


def _megabytes(value: int | None) -> float | None:
    return None if value is None else value / 1e6


def _plan_figure(boxes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    steps = range(max((box["end"] for box in boxes), default=0))
    living = [
        sum(box["size_bytes"] for box in boxes if box["start"] <= step < box["end"]) / 1e6
        for step in steps
    ]
    alive = {
        "type": "scatter",
        "mode": "lines",
        "line": {"shape": "hv", "width": 2},
        "name": "alive",
        "x": list(steps),
        "y": living,
    }
    # What one node needs while it runs has a name of two words: its kind and its own.
    groups = {
        "tensors": [box for box in boxes if " " not in box["name"]],
        "within nodes": [box for box in boxes if " " in box["name"]],
    }
    bars = [_boxes(name, group) for name, group in groups.items() if group]
    return {
        "data": [*bars, alive],
        "layout": {
            "barmode": "overlay",
            "xaxis": {"title": {"text": "node"}},
            "yaxis": {"title": {"text": "address, MB"}, "rangemode": "tozero"},
        },
    }


def _boxes(name: str, boxes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": [(box["start"] + box["end"]) / 2 for box in boxes],
        "width": [box["end"] - box["start"] for box in boxes],
        "base": [box["offset_bytes"] / 1e6 for box in boxes],
        "y": [box["size_bytes"] / 1e6 for box in boxes],
        "text": [f"{box['name']}: {box['size_bytes']:,} bytes" for box in boxes],
        "hoverinfo": "text",
        "textposition": "none",
        "opacity": 0.75,
        "marker": {"line": {"width": 1}},
    }
