"""Shows simulated points in the terminal: a progress bar, a table, JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from xirang.errors import InvalidSetting
from xirang.lab.report import Cell, shown
from xirang.lab.simulate_settings import Point
from xirang.lab.simulator_course import Moment
from xirang.lab.simulator_result import Result, Tally


@dataclass(frozen=True, slots=True)
class Outcome:
    """A policy at a point, with its figures and the counts behind them.

    Attributes:
        policy: Its name.
        point: The load.
        result: The figures.
        tally: The counts.
        moments: The course of the controller; empty for policies that have none.
    """

    policy: str
    point: Point
    result: Result
    tally: Tally
    moments: Sequence[Moment]


COLUMNS: dict[str, Callable[[Outcome], Cell]] = {
    "on time %": lambda o: 100 * o.result.on_time,
    "p50 ms": lambda o: o.result.latency_p50_ms,
    "p99 ms": lambda o: o.result.latency_p99_ms,
    "mean batch": lambda o: o.result.batch_mean,
    "device ms": lambda o: o.result.device_ms_per_on_time,
    "padding %": lambda o: 100 * o.result.padding_waste,
    "busy %": lambda o: 100 * o.result.busy,
    "late": lambda o: o.result.late,
    "given up": lambda o: o.result.expired + o.result.rejected,
}
"""Figures of a line. Device time is that of all runs, for each request answered in its budget."""

PIPE_COLUMNS = 120


def make_console(*, is_quiet: bool) -> Any:
    """The terminal, as rich sees it; a quiet one prints nothing."""
    try:
        from rich.console import Console
    except ImportError:
        raise InvalidSetting(
            "progress and tables need rich, which is not installed: pip install 'xirang[report]'"
        ) from None
    console = Console(highlight=False, soft_wrap=True, quiet=is_quiet)
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    return console


class Progress:
    """A bar on stderr while the points are simulated; nothing where that is no terminal."""

    def __init__(self, parts: int, requests: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as Bar,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("simulating", total=parts * requests)
        self._requests = requests
        self._begun = 0

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

    def begin(self, name: str) -> Callable[[int], None]:
        """The next part begins; what comes back is told how many of its requests have come."""
        done = self._begun * self._requests
        self._begun += 1
        self._bar.update(self._task, completed=done, description=name)

        def tell(came: int) -> None:
            self._bar.update(self._task, completed=done + came)

        return tell


def json_of(settings: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """All figures; the same bytes for the same settings."""
    points = [
        {
            "policy": o.policy,
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


def print_outcomes(console: Any, outcomes: Sequence[Outcome]) -> None:
    """A line for each policy at each load; those of a load stand together."""
    from rich.table import Table

    table = Table(header_style="bold", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("load", no_wrap=True)
    table.add_column("policy", no_wrap=True)
    for heading in COLUMNS:
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    for label, group in by_point(outcomes).items():
        for i, outcome in enumerate(group):
            is_last = i == len(group) - 1
            figures = (shown(figure(outcome)) for figure in COLUMNS.values())
            first = label if i == 0 else ""
            table.add_row(first, outcome.policy, *figures, end_section=is_last)
    console.print(table, soft_wrap=False)


def by_point(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of each load, in the order of the loads."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point.label, []).append(outcome)
    return groups
