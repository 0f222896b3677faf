"""The command `xirang plan`: how much memory a model's runs take, and how little they could."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from xirang.backends.onnx_slices import sliced
from xirang.backends.onnx_trace import Trace, trace
from xirang.config import load_config
from xirang.core.memory.law import Law, Traced, law_of
from xirang.core.memory.lifetime import Lifetimes
from xirang.core.memory.planner import STEPS, Plan, Planner
from xirang.core.memory.polynomial import Size, area, each_of, size_of
from xirang.core.memory.validate import fault_of
from xirang.core.signature import Signature
from xirang.engine.clock import MonotonicClock
from xirang.errors import InvalidSetting
from xirang.lab.plan_page import plan_report
from xirang.lab.report import shown
from xirang.lab.simulate_report import make_console
from xirang.memory.native.search import search_at_hand
from xirang.repository.calibrate import feed
from xirang.repository.discover import Kind, Source, discover
from xirang.repository.load import load
from xirang.repository.tiny_runs import tiny_sizes

ALIGNMENT = 64
"""Blocks begin at cache lines, as the runtime's own do."""

BATCHES, LENGTHS = (1, 8, 32), (16, 128, 256)
BUDGET_MB = 128
ROWS = (1, 2, 3)
TINY = (16, 19, 32, 48, 64, 128, 256)
"""Lengths of the runs that the law is found from; rows × length stays within `ELEMENTS_MAX`."""

ELEMENTS_MAX = 256
MEASURED_MAX_BYTES = 1 << 28
"""A run that is predicted to need more is not run to see whether it does."""

Step = Callable[[str], None]
Shape = tuple[int, Size]
"""Rows, and the length of each, or each of several lengths."""


def add_plan(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "plan",
        help="say how much memory a model's runs take, and how large a batch a budget allows",
        description="Run an ONNX model at tiny shapes, read from the runtime's own allocator which "
        "tensor lives when, and find the law of its peak in rows and length. Then show what runs "
        "of any shape take: each tensor apart, as the runtime reuses memory, and planned.",
    )
    parser.add_argument("path", metavar="MODEL", help="an ONNX file, or a folder with one")
    numbers = {"type": int, "nargs": "+", "metavar": "N"}
    parser.add_argument("--batch", default=BATCHES, help="rows of a run (1 8 32)", **numbers)
    parser.add_argument(
        "--length",
        type=_size,
        nargs="+",
        metavar="N",
        help="lengths (16 128 256, where it takes them); 32x128 for a model of two lengths",
    )
    parser.add_argument("--budget", type=float, default=BUDGET_MB, metavar="MB", help="(128)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="JSON, on stdout without FILE"
    )
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures")
    parser.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> int:
    console = make_console(is_quiet=arguments.json == "-")
    (source, *others) = discover([arguments.path])
    if others or source.path is None or source.kind not in {Kind.ONNX, Kind.TEXT}:
        raise InvalidSetting(f"{arguments.path}: expected one ONNX model")
    asked = arguments.length or ()
    if min(*arguments.batch, *chain(*map(each_of, asked)), 1) < 1 or arguments.budget <= 0:
        raise InvalidSetting("--batch, --length and --budget: expected more than 0")
    with _progress(console) as step:
        step("loading and probing")
        model = traced_model(source, arguments.config)
        report = report_of(
            model,
            batches=sorted(set(arguments.batch)),
            lengths=_ascending(model.checked(asked) or model.usual_lengths()),
            budget_bytes=int(arguments.budget * 1e6),
            step=step,
        )
    _show(console, report)
    if arguments.json == "-":
        sys.stdout.write(json.dumps(report) + "\n")
    elif arguments.json is not None:
        Path(arguments.json).write_text(json.dumps(report) + "\n", encoding="utf-8")
    if arguments.html is not None:
        plan_report(report).write(arguments.html)
        console.print(f"report: {arguments.html}")
    return 0


def _size(text: str) -> Size:
    """A length, or several: 128 or 32x128."""
    try:
        return size_of(tuple(int(part) for part in text.lower().replace("×", "x").split("x")))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no length; expected a number, or 32x128 for a model of two lengths"
        ) from None


def _ascending(lengths: Sequence[Size]) -> list[Size]:
    return sorted(set(lengths), key=lambda length: (area(length), length))


def shown_size(length: Size) -> str:
    """A length as it is asked for."""
    return "x".join(map(str, each_of(length)))


@dataclass(frozen=True, slots=True)
class TracedModel:
    """A model that can be run at chosen shapes.

    Attributes:
        name: Its name.
        path: The ONNX file.
        signature: What its axes mean.
        known: For each of its lengths, sizes that it takes, ascending.
    """

    name: str
    path: Path
    signature: Signature
    known: tuple[tuple[int, ...], ...]

    def traces(self, sizes: Sequence[Shape], *, is_default: bool = False) -> list[Trace]:
        """A run of each size: as the server has it, or as the runtime does by default."""
        count = self.signature.lengths
        feeds = [feed(self.signature, rows, each_of(n)[:count]) for rows, n in sizes]
        with TemporaryDirectory() as folder:
            target = Path(folder) / self.path.name
            path = self.path if is_default or not sliced(self.path, target) else target
            return trace(path, feeds, is_default=is_default)

    def checked(self, lengths: Sequence[Size]) -> Sequence[Size]:
        """Lengths that it can be asked about.

        Raises:
            InvalidSetting: It has more lengths than that, or fewer.
        """
        count = self.signature.lengths
        wrong = [length for length in lengths if len(each_of(length)) != count]
        if wrong and count:
            example = shown_size(tuple(sizes[-1] for sizes in self.known) or (128,) * count)
            raise InvalidSetting(
                f"--length {shown_size(wrong[0])}: model '{self.name}' has {count} "
                f"length{'s' if count > 1 else ''}; expected something like {example}"
            )
        return lengths if count else ()

    def law(self, *, alignment: int = 1) -> Law:
        """The law of its peak, and the names of the blocks."""
        sizes = self.calibration()
        return law_from(sizes, self.traces(sizes), alignment=alignment)

    def calibration(self) -> list[Shape]:
        """Tiny shapes, small ones first, that tell the terms of the law apart."""
        if len(self.known) > 1:
            tiny = tiny_sizes(self.signature, self.known)
            return [(rows, size_of(lengths)) for rows, lengths in tiny]
        lengths = self.known[0] if self.known else (1,)
        rows = ROWS if self.signature.is_batched else (1,)
        if self.signature.rows_fixed:
            rows = (self.signature.rows_fixed,)
        sizes = {
            (r, n) for r in rows for n in lengths if r * n <= max(ELEMENTS_MAX, lengths[0] * r)
        }
        return sorted(sizes, key=lambda size: (prod(size), size[1]))

    def usual_lengths(self) -> Sequence[Size]:
        """Lengths to show unless others are asked for."""
        if len(self.known) != 1:
            places = (0, 1, 2) if self.known else (0,)
            between = [tuple(n[place * (len(n) - 1) // 2] for n in self.known) for place in places]
            return [size_of(lengths) for lengths in between]
        shortest, longest = self.known[0][0], self.known[0][-1]
        return [n for n in LENGTHS if shortest <= n <= longest] or (shortest, longest)


def law_from(sizes: Sequence[Shape], traces: Sequence[Trace], *, alignment: int) -> Law:
    """The law behind traces of these sizes."""
    pairs = zip(sizes, traces, strict=True)
    return law_of([Traced(*s, t.lifetimes, t.unseen) for s, t in pairs], alignment=alignment)


def traced_model(source: Source, config_file: Path | None = None) -> TracedModel:
    """Load and probe a model, as `xirang check` does.

    Raises:
        InvalidSetting: It cannot be loaded.
    """
    assert source.path is not None
    config = load_config(file=config_file)
    loaded = load(source, config.settings_of(source.name), clock=MonotonicClock())
    signature = loaded.model.signature
    taken = loaded.findings.lengths_run if loaded.findings else ()
    known = tuple(tuple(sorted(set(sizes))) for sizes in taken)
    model = TracedModel(source.name, source.path, signature, known)
    if signature.lengths != 1 or not known:
        return model
    longest = loaded.model.shapes.length_max or TINY[-1]
    wide = replace(model, known=(tuple(n for n in TINY if known[0][0] <= n <= longest),))
    try:
        wide.traces([(1, n) for n in wide.known[0][-1:]])
    except InvalidSetting:  # it takes no rows as long as that
        return model
    return wide


def report_of(
    model: TracedModel,
    *,
    batches: Sequence[int],
    lengths: Sequence[Size],
    budget_bytes: int,
    step: Step,
) -> dict[str, Any]:
    """Everything, as plain values."""
    step("tracing tiny runs")
    calibration = model.calibration()
    traces = model.traces(calibration)
    law = law_from(calibration, traces, alignment=ALIGNMENT)
    exact = law_from(calibration, traces, alignment=1)
    if not model.signature.is_batched or model.signature.rows_fixed:
        batches = [model.signature.rows_fixed or 1]
    sizes = sorted(((b, n) for b in batches for n in lengths), key=lambda s: (s[0] * area(s[1]), s))
    measured = [size for size in sizes if exact.peak_bytes(*size) <= MEASURED_MAX_BYTES]
    step("running the shapes asked for, each tensor apart")
    apart = dict(zip(measured, model.traces(measured), strict=True)) if measured else {}
    step("running them as the runtime does by default")
    default = (
        dict(zip(measured, model.traces(measured, is_default=True), strict=True))
        if measured
        else {}
    )
    runs, largest = [], None
    for size in sizes:
        step(f"planning {size[0]} × {shown_size(size[1])}")
        lifetimes = law.regimes[0].lifetimes(*size).aligned(ALIGNMENT)
        largest = (lifetimes, planned(lifetimes))
        runs.append(_run(size, *largest, exact, apart.get(size), default.get(size)))
    assert largest is not None
    return {
        "model": model.name,
        "calibrated_at": calibration,
        "regimes": len(law.regimes),
        "blocks": len(law.regimes[0].slots),
        "inexact": [traces[0].names[slot] for slot in law.regimes[0].inexact],
        "peaks": [msgspec.to_builtins(peak) for peak in exact.peaks],
        "budget_bytes": budget_bytes,
        "rows_max": {shown_size(n): law.rows_max(n, budget_bytes) for n in lengths},
        "runs": runs,
        "picture": _picture(traces[0].names, *largest),
    }


def planned(lifetimes: Lifetimes, *, steps_max: int = STEPS) -> Plan:
    """A plan that the naive validator has found no fault in."""
    planner = Planner(lifetimes, search=search_at_hand())
    while planner.steps < steps_max and planner.advance():
        pass
    fault = fault_of(lifetimes, planner.plan.offsets, planner.plan.height_bytes)
    assert fault is None, fault
    return planner.plan


def _run(
    size: Shape,
    lifetimes: Lifetimes,
    plan: Plan,
    law: Law,
    apart: Trace | None,
    default: Trace | None,
) -> dict[str, Any]:
    return {
        "rows": size[0],
        "length": size[1],
        "sum_bytes": lifetimes.sum_bytes,
        "runtime_bytes": default.peak_bytes if default else None,
        "runtime_held_bytes": default.held_bytes if default else None,
        "plan_bytes": plan.height_bytes,
        "bound_bytes": plan.bound_bytes,
        "predicted_bytes": law.peak_bytes(*size),
        "real_bytes": apart.peak_bytes if apart else None,
        "unexplained_bytes": apart.unexplained_bytes if apart else None,
    }


def _picture(names: Sequence[str], lifetimes: Lifetimes, plan: Plan) -> list[dict[str, Any]]:
    return [
        {"name": name, "start": start, "end": end, "offset_bytes": offset, "size_bytes": size}
        for name, start, end, offset, size in zip(
            names,
            lifetimes.starts,
            lifetimes.ends,
            plan.offsets,
            lifetimes.sizes_bytes,
            strict=True,
        )
        if size
    ]


@contextmanager
def _progress(console: Any) -> Iterator[Step]:
    """One line that says what is being done."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda words: bar.update(task, description=words)


MB_COLUMNS = {
    "each tensor apart": "sum_bytes",
    "runtime's reuse": "runtime_bytes",
    "plan": "plan_bytes",
    "lower bound": "bound_bytes",
    "law": "predicted_bytes",
    "real peak": "real_bytes",
}


def _show(console: Any, report: Mapping[str, Any]) -> None:
    from rich.table import Table

    table = Table("rows", "length", *MB_COLUMNS, title=f"{report['model']}, MB a run")
    for run in report["runs"]:
        cells = [run[key] for key in MB_COLUMNS.values()]
        megabytes = ["–" if cell is None else shown(cell / 1e6) for cell in cells]
        table.add_row(str(run["rows"]), shown_size(run["length"]), *megabytes)
    console.print(table)
    budget = shown(report["budget_bytes"] / 1e6)
    largest = ", ".join(f"{rows} of length {n}" for n, rows in report["rows_max"].items())
    console.print(f"In {budget} MB the largest batch has {largest}.", soft_wrap=True)
    if report["inexact"]:
        names = ", ".join(report["inexact"][:3])
        console.print(
            f"{len(report['inexact'])} blocks follow no law exactly: {names}", soft_wrap=True
        )
