"""`xirang simulate`: the server's own scheduler on a virtual clock, over a seeded workload."""

import argparse
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from xirang.core.policy import Batching
from xirang.core.request import Request
from xirang.core.run import Verdict
from xirang.errors import XirangError
from xirang.lab.simulate_report import (
    PointOutcome,
    Progress,
    json_of,
    make_console,
    print_outcomes,
    simulation_report,
)
from xirang.lab.simulate_settings import (
    FAMILIAR_LENGTHS,
    LOADS_DEFAULT,
    Point,
    Scenario,
    points_of,
    scenario_of,
)
from xirang.lab.simulator import Service, Silent, Simulator
from xirang.lab.simulator_result import Tally
from xirang.lab.traces import bundled
from xirang.lab.workload import ClosedLoop, Workload

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_GOOD, EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 0, 2, 130
LAW_DEFAULT = "2.07,0,0.132,0.00012"
"""MiniLM, quantised, on one core of a server CPU."""
PROGRESS_STEP = 2_000

EXAMPLES = """examples:
  xirang simulate --load 0.3 0.6 0.9 1.1
  xirang simulate --batching first-come --rate 100 150
  xirang simulate --trace azure_llm_2023_code --load 0.6 --lengths trace:8 --html code.html
  xirang simulate --law 5,0.25 --lengths fixed:1 --max-batch-size 64 --efficiency 1 --window-ms 1e3
"""


def add_simulate(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `simulate` with its options."""
    parser = subparsers.add_parser(
        "simulate",
        help="run the scheduler on a virtual clock over a seeded workload",
        description="Run the server's own scheduler on a virtual clock over a seeded workload. "
        "The same seed gives the same bytes of JSON.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_workload(parser.add_argument_group("workload"))
    _add_server(parser.add_argument_group("server"))
    outputs = parser.add_argument_group("results")
    outputs.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="JSON, on stdout without FILE"
    )
    outputs.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    parser.set_defaults(run=simulate_command)


def _add_workload(group: "argparse._ArgumentGroup") -> None:
    loads = " ".join(map(str, LOADS_DEFAULT))
    add = group.add_argument
    add("--requests", type=int, default=20_000, metavar="N", help="requests a point (20000)")
    add("--rate", type=float, nargs="+", metavar="R", help="requests a second; several make points")
    add("--load", type=float, nargs="+", metavar="RHO", help=f"shares of the capacity ({loads})")
    add(
        "--arrivals",
        default="poisson",
        metavar="KIND",
        help="poisson, gamma:CV, mmpp[:SWING], square[:SWING] or closed:CLIENTS",
    )
    traces = ", ".join(bundled("traces"))
    add("--trace", metavar="NAME", help=f"recorded arrivals: {traces}, or a CSV file with t_ms")
    add("--compress", type=float, default=1.0, metavar="X", help="play the trace X times as fast")
    add(
        "--lengths",
        default="lognormal:30:0.92:3:512",
        metavar="DIST",
        help="fixed:N, lognormal:MEDIAN:SIGMA:MIN:MAX, trace[:DIVISOR], "
        f"{', '.join(bundled('lengths'))} or a CSV file with length,count",
    )
    add("--budget-ms", default="1000", metavar="MS[:W],…", help="latency budgets, weighted")
    add("--priorities", default="2", metavar="P[:W],…", help="1 is the highest, weighted")
    add("--seed", type=int, default=0, help="root of all that is random (0)")


def _add_server(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--instances", type=int, default=1, metavar="N", help="runs at once (1)")
    add("--batching", choices=[kind.value for kind in Batching], default="optimal")
    add("--max-batch-size", type=int, default=128, metavar="ROWS", help="most rows a run (128)")
    add("--elements-max", type=int, metavar="N", help="most padded elements a run (no bound)")
    add("--efficiency", type=float, default=0.5, help="0 never waits, 1 as long as it may (0.5)")
    add("--window-ms", type=float, default=5.0, help="longest wait for company (5)")
    add("--depth-max", type=int, default=4096, metavar="N", help="most that wait (4096)")
    add("--law", default=LAW_DEFAULT, metavar="CALL,ROW,ELEMENT,SQUARE", help="run time in ms")
    add("--noise", type=float, default=0.0, metavar="SIGMA", help="lognormal noise of a run (0)")
    add("--outliers", type=float, default=0.0, metavar="SHARE", help="runs 10 times as slow (0)")


def simulate_command(args: argparse.Namespace) -> int:
    """Simulate all points and show them; the exit status says whether that was possible."""
    try:
        console = make_console(is_quiet=args.json == "-")
        scenario = scenario_of(args)
        points = points_of(args, scenario)
        with Progress(points, scenario.requests) as progress:
            outcomes = [simulate(scenario, point, tell=progress.tell) for point in points]
        _show(args, console, scenario, outcomes)
    except XirangError as error:
        sys.stderr.write(f"xirang simulate: {error}\n")
        return EXIT_IMPOSSIBLE
    except OSError as error:
        sys.stderr.write(f"xirang simulate: cannot write {error.filename}: {error.strerror}\n")
        return EXIT_IMPOSSIBLE
    except KeyboardInterrupt:
        sys.stderr.write("xirang simulate: interrupted\n")
        return EXIT_INTERRUPTED
    return EXIT_GOOD


def _show(
    args: argparse.Namespace, console: Any, scenario: Scenario, outcomes: list[PointOutcome]
) -> None:
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in sorted(vars(args).items())
        if name not in ("run", "json", "html")
    }
    if args.json is not None:
        text = json_of(settings, outcomes)
        if args.json == "-":
            sys.stdout.write(text)
        else:
            Path(args.json).write_text(text)
    print_outcomes(console, outcomes)
    if args.html is not None:
        simulation_report(settings, outcomes).write(args.html)
        console.print(f"report: {args.html}")


def simulate(
    scenario: Scenario, point: Point, *, tell: Callable[[int], None] | None = None
) -> PointOutcome:
    """One point from its first request to its last answer.

    Args:
        scenario: All but the rate.
        point: The rate, or the clients.
        tell: Called now and then with the number of requests that have come.
    """
    policy, law = scenario.policy, scenario.law
    cost = law.learned(rows_max=policy.rows_max, lengths=FAMILIAR_LENGTHS)
    service = Service(
        law,
        noise=scenario.noise,
        outliers=scenario.outliers,
        random=Random(f"{scenario.seed}/service"),
    )
    tally = Tally(parallelism=policy.instances)
    watchers: list[Silent] = [tally] if tell is None else [tally, _Teller(tell)]
    simulator = Simulator(
        {scenario.demands.model: (policy, cost, service)},
        devices={policy.device: policy.instances},
        watchers=watchers,
    )
    if point.arrivals is None:
        loop = ClosedLoop(
            scenario.demands,
            clients=point.clients,
            requests=scenario.requests,
            seed=scenario.seed,
        )
        simulator.run(loop.first(), following=loop.following)
    else:
        workload = Workload(point.arrivals, scenario.demands)
        simulator.run(islice(workload.requests(seed=scenario.seed), scenario.requests))
    return PointOutcome(point, tally.result(), tally)


class _Teller(Silent):
    """Tells a progress bar how many requests have come, not at each of them."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._came = 0

    def on_arrival(self, request: Request, verdict: Verdict) -> None:
        """Count it."""
        self._came += 1
        if self._came % PROGRESS_STEP == 0:
            self._tell(self._came)
