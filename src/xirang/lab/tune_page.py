"""The HTML page of `xirang tune`: what was found, what it is worth, and what was tried for it."""

from collections.abc import Sequence
from html import escape
from typing import Any

from xirang.lab.report import Report, plotly_module
from xirang.lab.simulate_page import show
from xirang.lab.simulate_report import Outcome
from xirang.lab.tune import Tried, settings_of, toml_of


def tune_report(
    outcomes: Sequence[Outcome],
    tried: Sequence[Tried],
    found: Tried,
    *,
    promise: float,
    model: str,
) -> Report:
    """The page.

    Args:
        outcomes: The start and what was found, held against arrivals that the search has not seen.
        tried: Everything that the search looked at, in its order.
        found: What the search came to.
        promise: Share to be answered on time.
        model: Name of the model; empty if it has none.
    """
    plotly_module()
    title = f"Settings for {model}" if model else "Settings"
    page = Report(title, f"the best of {len(tried)}, to keep {promise:.4g} of the requests on time")
    before, after = outcomes[0].result, outcomes[-1].result
    page.tiles(
        [
            ("on time, %", 100 * found.result.on_time),
            ("promised, %", 100 * promise),
            ("device ms a request, at the start", before.device_ms_per_on_time),
            ("device ms a request, tuned", after.device_ms_per_on_time),
        ]
    )
    page.text(
        "<h2>For the configuration file</h2>"
        f"<pre><code>{escape(toml_of(found.policy, model=model))}</code></pre>"
    )
    page.figure(
        "Everything that was tried",
        _cloud(tried, found, promise),
        "Each point is a setting: upwards what a request on time costs, to the right how many were "
        "on time. Of those right of the line the lowest is taken.",
    )
    show(page, outcomes)
    return page


def _cloud(tried: Sequence[Tried], found: Tried, promise: float) -> dict[str, Any]:
    useful = [each for each in tried if each.result.on_time > 0]
    kept = [each for each in useful if each.keeps(promise)]
    broken = [each for each in useful if not each.keeps(promise)]
    line = {"x0": 100 * promise, "x1": 100 * promise, "y0": 0, "y1": 1, "yref": "paper"}
    return {
        "data": [
            _points("keeps the promise", kept, {"size": 8}),
            _points("does not", broken, {"size": 8, "symbol": "x-thin-open"}),
            _points("found", [found], {"size": 15, "symbol": "star"}),
        ],
        "layout": {
            "xaxis": {"title": {"text": "on time, %"}},
            "yaxis": {"title": {"text": "device ms a request on time"}, "rangemode": "tozero"},
            "shapes": [{"type": "line", "line": {"dash": "dot", "width": 1}} | line],
        },
    }


def _points(name: str, tried: Sequence[Tried], marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [100 * each.result.on_time for each in tried],
        "y": [each.result.device_ms_per_on_time for each in tried],
        "text": [_words(each) for each in tried],
        "hovertemplate": "%{text}<br>%{x:.4g} % on time, %{y:.4g} ms",
        "marker": marker,
    }


def _words(tried: Tried) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in settings_of(tried.policy).items())
