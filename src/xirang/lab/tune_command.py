"""The command `xirang tune`: from a workload to the settings that serve it best."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xirang.core.policy import Policy
from xirang.errors import InvalidSetting, XirangError
from xirang.lab.replay import requests_among
from xirang.lab.replay_command import simulate as simulate_recorded
from xirang.lab.report import shown
from xirang.lab.simulate import add_workload_options, simulate
from xirang.lab.simulate_report import COLUMNS, Outcome, make_console
from xirang.lab.simulate_scenarios import completed
from xirang.lab.simulate_settings import Point, points_of, scenario_of
from xirang.lab.simulator_result import Tally
from xirang.lab.tune import Tried, is_better, loadable, search, settings_of, toml_of
from xirang.lab.tune_page import tune_report
from xirang.lab.workload import Choice
from xirang.observe.recording import Recording

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_KEPT, EXIT_BROKEN, EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 0, 1, 2, 130
REQUESTS = 6_000
LOADS = (0.6,)
UNSEEN = 1_000_003
"""Added to the seed for arrivals that the search has not seen."""

EXAMPLES = """examples:
  xirang tune --budgets 200 --load 0.7
  xirang tune --scenario budgets --promise 0.999
  xirang tune --recording arrivals.rec --model all-MiniLM-L6-v2
"""


def add_tune(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `tune` with its options."""
    parser = subparsers.add_parser(
        "tune",
        help="find the settings that serve a workload at the least device time",
        description="Search the settings in the simulator, for a workload that is described or "
        "recorded, and print the configuration that keeps the latency budgets at the least "
        "device time, beside what it was compared with.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    add_workload_options(parser)
    recorded = parser.add_argument_group("a recording instead of a workload").add_argument
    recorded("--recording", type=Path, metavar="FILE", help="what xirang serve --record wrote")
    recorded("--model", metavar="NAME", help="which of its models (the only one)")
    goal = parser.add_argument_group("goal and results").add_argument
    goal("--promise", type=float, metavar="SHARE", help="to be answered on time (0.99)")
    goal("--json", nargs="?", const="-", metavar="FILE", help="JSON, on stdout without FILE")
    goal("--html", type=Path, metavar="FILE", help="write a report with plots")
    parser.set_defaults(run=tune_command)


@dataclass(frozen=True, slots=True)
class Bench:
    """What candidates are tried on.

    Attributes:
        start: The settings to begin with.
        budget_ns: The shortest latency budget.
        model: Name of the model, if it has one.
        simulate: A policy and a seed to what it comes to, under a name.
    """

    start: Policy
    budget_ns: int
    model: str
    simulate: Callable[[str, Policy, int], Outcome]


def tune_command(given: argparse.Namespace) -> int:
    """Search, and show what was found; 1 if no setting keeps the promise."""
    words = vars(given)
    promise, page, output = words.get("promise", 0.99), words.get("html"), words.get("json")
    try:
        console = make_console(is_quiet=output == "-")
        if not 0 < promise <= 1:
            raise InvalidSetting(f"--promise {promise:g}: expected more than 0, at most 1")
        bench = _recorded(given) if "recording" in words else _described(given)
        tried: list[Tried] = []
        best = _search(console, bench, promise, tried)
        outcomes = [
            bench.simulate("start", bench.start, UNSEEN),
            bench.simulate("tuned", best, UNSEEN),
        ]
        found = Tried(best, outcomes[1].result)
        begun = Tried(bench.start, outcomes[0].result)
        if best != bench.start and not is_better(found, begun, promise=promise):
            console.print(
                "held against what it had not seen, what was found was no better than the start"
            )
            found = begun
        _show(console, bench, outcomes, found, promise)
        if output is not None:
            _write_json(output, bench, outcomes, found, promise)
        if page is not None:
            tune_report(outcomes, tried, found, promise=promise, model=bench.model).write(page)
            console.print(f"report: {page}")
    except (XirangError, OSError) as error:
        sys.stderr.write(f"xirang tune: {error}\n")
        return EXIT_IMPOSSIBLE
    except KeyboardInterrupt:
        sys.stderr.write("xirang tune: interrupted\n")
        return EXIT_INTERRUPTED
    return EXIT_KEPT if found.keeps(promise) else EXIT_BROKEN


def _described(given: argparse.Namespace) -> Bench:
    words = vars(given)
    if "policies" in words:
        raise InvalidSetting("--policies: it is xirang's own scheduler that is tuned")
    args = completed(given)
    args.requests = words.get("requests", REQUESTS)
    if not args.rate and not args.load:
        args.load = list(LOADS)
    scenario = scenario_of(args)
    points = points_of(args, scenario)
    if len(points) != 1:
        raise InvalidSetting(f"give one --load or --rate, not {len(points)}")

    def run(name: str, policy: Policy, extra: int) -> Outcome:
        changed = replace(scenario, policy=policy, seed=scenario.seed + extra)
        return replace(simulate(changed, points[0]), policy=name)

    budgets = scenario.demands.budgets_ns
    assert isinstance(budgets, Choice)
    budget_ns = min(budgets.values)
    return Bench(loadable(scenario.policy, budget_ns=budget_ns), budget_ns, "", run)


def _recorded(given: argparse.Namespace) -> Bench:
    recording = Recording(given.recording)
    entries = {entry.name: entry for entry in recording.models}
    name = vars(given).get("model") or (next(iter(entries)) if len(entries) == 1 else None)
    if name not in entries:
        raise InvalidSetting(f"--model {name!r}: the recording holds {', '.join(entries)}")
    start = entries[name].policy
    point = Point("recorded", None, 0, None)

    def run(label: str, policy: Policy, extra: int) -> Outcome:
        changes = {
            field: getattr(policy, field)
            for field in ("efficiency", "window_ns_max", "max_batch_size", "elements_max")
        }
        tally: Tally = simulate_recorded(recording, changes=changes, model=name, seed=extra)[name]
        return Outcome(label, point, tally.result(), tally, [])

    budgets_ns = (
        request.deadline_ns - request.arrival_ns
        for turn in recording.turns()
        for _, request in requests_among(recording, turn)
        if request is not None and request.model == name
    )
    return Bench(start, min(budgets_ns, default=1), name, run)


def _search(console: Any, bench: Bench, promise: float, tried: list[Tried]) -> Policy:
    best = bench.start

    def evaluate(policy: Policy) -> Any:
        result = bench.simulate("", policy, 0).result
        tried.append(Tried(policy, result))
        status.update(f"{len(tried)} settings tried")
        return result

    with console.status("searching") as status:
        for better in search(bench.start, evaluate, promise=promise, budget_ns=bench.budget_ns):
            best = better.policy
    console.print(f"{len(tried)} settings tried")
    return best


def _show(
    console: Any, bench: Bench, outcomes: list[Outcome], found: Tried, promise: float
) -> None:
    from rich.table import Table

    table = Table("settings", *COLUMNS, box=None, header_style="bold", padding=(0, 1, 0, 0))
    for outcome in outcomes:
        figures = (shown(figure(outcome)) for figure in COLUMNS.values())
        table.add_row(outcome.policy, *figures)
    console.print(table)
    if not found.keeps(promise):
        console.print(
            f"no setting keeps {promise:.4g} of the requests on time; the nearest came to "
            f"{found.result.on_time:.4f}: less load, longer budgets or more devices are needed"
        )
    console.print(toml_of(found.policy, model=bench.model), markup=False, end="")


def _write_json(
    output: str, bench: Bench, outcomes: list[Outcome], found: Tried, promise: float
) -> None:
    document = {
        "promise": promise,
        "is_kept": found.keeps(promise),
        "start": settings_of(bench.start) | outcomes[0].result.as_json(),
        "tuned": settings_of(found.policy) | found.result.as_json(),
    }
    text = json.dumps(document, indent=2) + "\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        Path(output).write_text(text)
