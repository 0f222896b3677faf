"""The command `xirang replay`: verify a recording, show what happened, simulate what would have."""

import argparse
import sys
from dataclasses import replace
from math import exp, log
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

from xirang.core.cost import CostModel
from xirang.core.policy import Batching, Policy
from xirang.core.run import Trigger
from xirang.errors import InvalidSetting, XirangError
from xirang.lab.replay import requests_among, tallies, verify
from xirang.lab.simulate_report import make_console
from xirang.lab.simulator import Law, Service, Silent, Simulator
from xirang.lab.simulator_result import Tally
from xirang.observe.recording import Kind, ModelEntry, Recording

if TYPE_CHECKING:
    from argparse import _SubParsersAction

EXIT_SAME, EXIT_DIFFERENT, EXIT_IMPOSSIBLE = 0, 1, 2
SLOW = 3.0
"""A run that takes so many times as long as predicted is simulated as an outlier, not as noise."""

COLUMNS = {
    "requests": "requests",
    "on time": "on_time",
    "late": "late",
    "expired": "expired",
    "rejected": "rejected",
    "p50 ms": "latency_p50_ms",
    "p99 ms": "latency_p99_ms",
    "runs": "runs",
    "mean batch": "batch_mean",
    "device ms/request": "device_ms_per_request",
}


def add_replay(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `replay` with its options."""
    parser = subparsers.add_parser(
        "replay",
        help="verify a recording of a server, or simulate its arrivals with other settings",
        description="Feed what `xirang serve --record FILE` wrote to a fresh scheduler, which must "
        "decide the same, and show what happened. With --simulate its arrivals are run again on a "
        "virtual clock, with other settings and the recorded law of the models' times.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--simulate", action="store_true", help="run the arrivals again")
    add = parser.add_argument_group("other settings of every model, with --simulate").add_argument
    add("--batching", choices=[kind.value for kind in Batching])
    add("--efficiency", type=float, metavar="SHARE", help="0 never waits, 1 as long as it may")
    add("--window-ms", type=float, metavar="MS", help="longest wait for company")
    add("--max-batch-size", type=int, metavar="ROWS", help="most rows a run")
    add("--queue", type=int, metavar="N", help="most that wait")
    add("--seed", type=int, default=0, help="root of the noise (0)")
    parser.set_defaults(run=replay_command)


def replay_command(args: argparse.Namespace) -> int:
    """Verify or simulate; 1 if a decision differs, 2 if the file cannot be read."""
    try:
        recording = Recording(args.file)
        happened = tallies(recording)
        console = make_console(is_quiet=False)
        if args.simulate:
            simulated = simulate(recording, changes=_changes(args), seed=args.seed)
            _show(console, {"recorded": happened, "simulated": simulated})
            return EXIT_SAME
        _show(console, {"recorded": happened})
        return _verify(console, recording)
    except XirangError as error:
        sys.stderr.write(f"xirang replay: {error}\n")
        return EXIT_IMPOSSIBLE


def simulate(
    recording: Recording, *, changes: dict[str, Any], model: str | None = None, seed: int = 0
) -> dict[str, Tally]:
    """The recorded arrivals, scheduled anew on a virtual clock.

    Args:
        recording: Whose arrivals; that clients went away is left out.
        changes: Fields of `Policy` that are not as they were.
        model: Whose; None for all models.
        seed: Root of the noise.

    Returns:
        Each model's figures.
    """
    requests = [
        request
        for turn in recording.turns()
        for _, request in requests_among(recording, turn)
        if request is not None
    ]
    models = {
        entry.name: (
            replace(entry.policy, **changes) if model in (None, entry.name) else entry.policy,
            CostModel.of(entry.cost),
            service_of(recording, number, seed=seed),
        )
        for number, entry in enumerate(recording.models)
    }
    found = {name: Tally(parallelism=policy.instances) for name, (policy, _, _) in models.items()}
    simulator = Simulator(models, devices=recording.devices, watchers=[_ByModel(found)])
    simulator.run(sorted(requests, key=lambda request: request.arrival_ns))
    return found


def service_of(recording: Recording, number: int, *, seed: int) -> Service:
    """What is true of a model: the law that its recorded runs teach, and how they scatter."""
    entry: ModelEntry = recording.models[number]
    cost, ratios = CostModel.of(entry.cost), []
    for turn in recording.turns():
        for record in turn.facts:
            if record.kind == Kind.COMPLETE and record.model == number and record.small == 1:
                predicted_ns = cost.predict_ns(rows=record.rows, length=record.length)
                ratios.append(max(1, record.first) / max(1, predicted_ns))
                cost.observe(rows=record.rows, length=record.length, ran_ns=record.first)
    slow = [ratio for ratio in ratios if ratio >= SLOW]
    scatter = [abs(log(ratio)) for ratio in ratios if ratio < SLOW]
    return Service(
        Law(*cost.weights),
        noise=1.4826 * median(scatter) if scatter else 0.0,  # of a normal law, by its median
        outliers=len(slow) / max(1, len(ratios)),
        outlier_factor=exp(median(map(log, slow))) if slow else 1.0,
        random=Random(f"{seed}/{entry.name}"),
    )


class _ByModel(Silent):
    """Tells each model's tally about that model."""

    def __init__(self, found: dict[str, Tally]) -> None:
        self._found = found

    def on_arrival(self, request: Any, verdict: Any) -> None:
        """To the model's own."""
        self._found[request.model].on_arrival(request, verdict)

    def on_end(self, run: Any, now_ns: int) -> None:
        """To the model's own."""
        self._found[run.model].on_end(run, now_ns)

    def on_expire(self, request: Any, now_ns: int) -> None:
        """To the model's own."""
        self._found[request.model].on_expire(request, now_ns)


def _changes(args: argparse.Namespace) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if args.batching is not None:
        changes["batching"] = Batching(args.batching)
    if args.window_ms is not None:
        changes["window_ns_max"] = int(args.window_ms * 1e6)
    for name, field in (("max_batch_size", "max_batch_size"), ("queue", "depth_max")):
        if getattr(args, name) is not None:
            changes[field] = getattr(args, name)
    if args.efficiency is not None:
        changes["efficiency"] = args.efficiency
    try:
        replace(Policy(), **changes)
    except AssertionError as error:
        raise InvalidSetting(
            "expected an efficiency of 0…1, a window of 0 or more, a batch and a queue of 1 or more"
        ) from error
    return changes


def _show(console: Any, columns: dict[str, dict[str, Tally]]) -> None:
    from rich.table import Table

    # A line for each figure: models and what they are compared with stand side by side.
    shown = [(n, label, tally) for label, found in columns.items() for n, tally in found.items()]
    asked = {name for name, _, tally in shown if tally.result().requests}
    shown = sorted((each for each in shown if each[0] in asked), key=lambda each: each[0])
    table = Table("", *(f"{name}\n{label}" for name, label, _ in shown))
    results = [tally.result().as_json() for _, _, tally in shown]
    for title, field in COLUMNS.items():
        table.add_row(title, *(_cell(title, result[field]) for result in results))
    for trigger in Trigger:
        counts = [tally.triggers[trigger.value] for _, _, tally in shown]
        if any(counts):
            table.add_row(f"by {trigger.value}", *map(str, counts))
    console.print(table)


def _cell(title: str, value: float) -> str:
    return f"{value:.2%}" if title == "on time" else f"{value:,.5g}"


def _verify(console: Any, recording: Recording) -> int:
    if not recording.is_whole:
        console.print("not verified: the beginning was overwritten (--record-mib makes it longer)")
        return EXIT_SAME
    difference = verify(recording)
    if difference is None:
        console.print("verified: the scheduler decides the same again")
        return EXIT_SAME
    console.print(
        f"different at {difference.at_ns / 1e9:.6f} s, in the turn from record "
        f"{difference.record} on\n  live:     {difference.live}\n  replayed: {difference.replayed}"
    )
    return EXIT_DIFFERENT
