"""`xirang simulate`: policies side by side on a virtual clock, over one seeded workload."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from xirang.core.policy import Batching
from xirang.core.request import Request
from xirang.core.run import Verdict
from xirang.core.scheduler import Scheduler
from xirang.errors import XirangError
from xirang.lab.policies.known import ALL, FORMS, Contender, contenders
from xirang.lab.simulate_page import simulation_report
from xirang.lab.simulate_report import (
    Outcome,
    Progress,
    json_of,
    make_console,
    print_outcomes,
)
from xirang.lab.simulate_scenarios import LAW_MINILM, SCENARIOS, completed
from xirang.lab.simulate_settings import (
    FAMILIAR_LENGTHS,
    LOADS_DEFAULT,
    Point,
    Scenario,
    points_of,
    scenario_of,
)
from xirang.lab.simulator import Silent, Simulator
from xirang.lab.simulator_course import Course
from xirang.lab.simulator_result import Tally
from xirang.lab.traces import bundled
from xirang.lab.workload import ClosedLoop, Spread, Workload

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_GOOD, EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 0, 2, 130
PROGRESS_STEP = 2_000
OURS = Contender("ours")

EXAMPLES = """examples:
  xirang simulate --load 0.3 0.6 0.9 1.1
  xirang simulate --scenario images --policies all --html page.html
  xirang simulate --policies ours:0,ours:1,eager,window:10 --budgets 200,500,1000
  xirang simulate --scenario code --policies ours,eager,buckets --load 0.4 0.6 0.8
  xirang simulate --scenario blip --policies ours,head-fit --requests 50000
"""


def add_simulate(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `simulate` with its options."""
    parser = subparsers.add_parser(
        "simulate",
        help="compare batching policies on a virtual clock over a seeded workload",
        description="Run the server's own scheduler, and others to compare, on a virtual clock "
        "over a seeded workload. The same seed gives the same bytes of JSON.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # What is not given comes from the scenario, which has to know that it was not.
        argument_default=argparse.SUPPRESS,
    )
    add_workload_options(parser)
    outputs = parser.add_argument_group("results")
    outputs.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="JSON, on stdout without FILE"
    )
    outputs.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    parser.set_defaults(run=simulate_command)


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    """What is simulated: the options that `xirang tune` has too."""
    _add_workload(parser.add_argument_group("workload"))
    _add_devices(parser.add_argument_group("models and devices"))
    _add_policies(parser.add_argument_group("policies"))


def _add_workload(group: "argparse._ArgumentGroup") -> None:
    loads = " ".join(map(str, LOADS_DEFAULT))
    add = group.add_argument
    known = "; ".join(f"{name}: {what}" for name, (what, _) in SCENARIOS.items())
    add("--scenario", metavar="NAME", help=f"what is not given otherwise: {known}")
    add("--requests", type=int, metavar="N", help="requests a point (20000)")
    add("--rate", type=float, nargs="+", metavar="R", help="requests a second; several make points")
    add("--load", type=float, nargs="+", metavar="RHO", help=f"shares of the capacity ({loads})")
    add(
        "--arrivals",
        metavar="KIND",
        help="poisson, gamma:CV, mmpp[:SWING], square[:SWING] or closed:CLIENTS",
    )
    traces = ", ".join(bundled("traces"))
    add("--trace", metavar="NAME", help=f"recorded arrivals: {traces}, or a CSV file with t_ms")
    add("--compress", type=float, metavar="X", help="play the trace X times as fast (1)")
    add(
        "--lengths",
        metavar="DIST",
        help="fixed:N, lognormal:MEDIAN:SIGMA:MIN:MAX, trace[:DIVISOR], "
        f"{', '.join(bundled('lengths'))} or a CSV file with length,count",
    )
    add("--budgets", metavar="MS[:W],…", help="latency budgets, weighted (1000)")
    add("--priorities", metavar="P[:W],…", help="1 is the highest, weighted (2)")
    add("--seed", type=int, help="root of all that is random (0)")


def _add_devices(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    add("--models", type=int, metavar="M", help="models that share the devices, all alike (1)")
    add("--devices", type=int, metavar="N", help="runs at once (1)")
    add("--law", metavar="CALL,ROW,ELEMENT,SQUARE", help=f"run time in ms ({LAW_MINILM})")
    add("--noise", type=float, metavar="SIGMA", help="lognormal noise of a run (0)")
    add("--outliers", metavar="SHARE[:X]", help="runs that take X times as long (0, X 10)")
    add("--blip", metavar="RUN:X,…", help="the RUN-th run takes X times as long (none)")


def _add_policies(group: "argparse._ArgumentGroup") -> None:
    add = group.add_argument
    known = ", ".join(FORMS.get(name, name) for name in ALL)
    add("--policies", metavar="NAME,…", help=f"{known}, or all (ours)")
    add("--max-batch-size", type=int, metavar="ROWS", help="most rows a run (128)")
    add("--elements-max", type=int, metavar="N", help="most padded elements a run (no bound)")
    add("--depth-max", type=int, metavar="N", help="most that wait (4096)")
    kinds = ", ".join(kind.value for kind in Batching)
    add("--batching", metavar="KIND", help=f"ours: {kinds} (optimal)")
    add("--efficiency", type=float, help="ours: 0 never waits, 1 as long as it may (0.5)")
    add("--window-ms", type=float, metavar="MS", help="ours: longest wait for company (5)")


def simulate_command(given: argparse.Namespace) -> int:
    """Simulate all points and show them; the exit status says whether that was possible."""
    try:
        args = completed(given)
        console = make_console(is_quiet=args.json == "-")
        scenario = scenario_of(args)
        rivals = contenders(args.policies)
        points = points_of(args, scenario)
        with Progress(len(points) * len(rivals), scenario.requests) as progress:
            outcomes = [
                simulate(scenario, point, rival, tell=progress.begin(f"{rival.name} {point.label}"))
                for rival in rivals
                for point in points
            ]
        _show(args, console, outcomes)
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


def _show(args: argparse.Namespace, console: Any, outcomes: list[Outcome]) -> None:
    settings = {
        name: value
        for name, value in sorted(vars(args).items())
        if name not in ("run", "command", "json", "html")
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
    scenario: Scenario,
    point: Point,
    contender: Contender = OURS,
    *,
    tell: Callable[[int], None] | None = None,
) -> Outcome:
    """One policy at one point, from the first request to the last answer.

    Args:
        scenario: All but the rate.
        point: The rate, or the clients.
        contender: The policy.
        tell: Called now and then with the number of requests that have come.
    """
    policy, law = contender.policy(scenario.policy), scenario.law
    # One service: the models run on the same machine, and a blip is one for all of them.
    service = scenario.disturbance.service(law, Random(f"{scenario.seed}/service"))
    devices = {policy.device: policy.instances}
    scheduler = contender.schedules(devices=devices)
    tally = Tally(parallelism=policy.instances)
    watchers: list[Silent] = [tally]
    course = None
    if isinstance(scheduler, Scheduler):
        course = Course(scheduler.snapshot, requests=scenario.requests)
        watchers.append(course)
    if tell is not None:
        watchers.append(_Teller(tell))
    learned = partial(law.learned, rows_max=policy.rows_max, lengths=FAMILIAR_LENGTHS)
    simulator = Simulator(
        {name: (policy, learned(), service) for name in scenario.model_names},
        devices=devices,
        watchers=watchers,
        scheduler=scheduler,
    )
    _play(simulator, scenario, point)
    return Outcome(contender.name, point, tally.result(), tally, course.moments if course else [])


def _play(simulator: Simulator, scenario: Scenario, point: Point) -> None:
    seed, demands = scenario.seed, scenario.demands
    spread = Spread(scenario.model_names, seed=seed)
    if point.arrivals is not None:
        stream = Workload(point.arrivals, demands).requests(seed=seed)
        simulator.run(map(spread, islice(stream, scenario.requests)))
        return
    loop = ClosedLoop(demands, clients=point.clients, requests=scenario.requests, seed=seed)

    def following(request: Request, now_ns: int) -> Request | None:
        follower = loop.following(request, now_ns)
        return None if follower is None else spread(follower)

    simulator.run(map(spread, loop.first()), following=following)


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
