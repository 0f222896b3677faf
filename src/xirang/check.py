"""The command `xirang check`: what the probe finds out about a model, and what follows from it."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xirang.config import Config, load_config
from xirang.core.signature import Layout, TensorSpec
from xirang.engine.clock import MonotonicClock
from xirang.engine.model import Model
from xirang.engine.probe import Findings
from xirang.errors import InvalidSetting
from xirang.repository.discover import Source, discover
from xirang.repository.load import load

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"exact": "green", "tolerant": "green", "pad-unsafe": "yellow"}
"""Of a verdict; others are red."""


def add_check(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="say how a model may be batched, and why",
        description="Load a model and run it alone, in company and padded, as `xirang serve` "
        "does before it serves; then show its axes, the verdict, and how long runs take.",
    )
    parser.add_argument("paths", nargs="+", metavar="MODEL", help="as for `xirang serve`")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    config = load_config(file=arguments.config)
    console = None if arguments.json else _console()
    reports = []
    for source in discover(arguments.paths):
        report = report_of(source, config)
        reports.append(report)
        if console is not None:
            _show(report, console)
    if arguments.json:
        sys.stdout.write(json.dumps(reports, indent=2) + "\n")
    return 0


def report_of(source: Source, config: Config) -> dict[str, Any]:
    """What was found out about one model, as plain values.

    Raises:
        InvalidSetting: It cannot be loaded.
    """
    loaded = load(source, config.settings_of(source.name), clock=MonotonicClock())
    signature, findings = loaded.model.signature, loaded.findings
    return {
        "model": source.name,
        "platform": loaded.model.executable.platform,
        "verdict": loaded.model.verdict,
        "inputs": _tensors(signature.inputs, signature.input_layouts),
        "outputs": _tensors(signature.outputs, signature.output_layouts),
        **(_found(findings) if findings is not None else {}),
        "overrides": list(loaded.model.overrides),
        "engine": engine_words(loaded.model),
    }


def engine_words(model: Model) -> str:
    """What the engine makes of it."""
    policy, shapes = model.policy, model.shapes
    if not model.signature.is_batched or policy.rows_max == 1:
        return "runs each request alone"
    if shapes.is_ragged:
        what = "requests of any shape, without padding"
    elif policy.can_pad and len(shapes.paddable) == model.signature.lengths:
        what = "requests of any length, padded to the longest of a run"
    elif policy.can_pad:
        padded = " and ".join(f"length {k}" for k in shapes.paddable)
        what = f"requests that differ in {padded} only, padded to the longest of a run"
    else:
        what = "requests of equal shape"
    bound = f" and {policy.elements_max} elements" if policy.elements_max else ""
    return f"gathers {what}: up to {policy.rows_max} rows{bound} in a run"


def _tensors(specs: Sequence[TensorSpec], layouts: Mapping[str, Layout]) -> list[dict[str, Any]]:
    return [_tensor(spec, layouts.get(spec.name, Layout())) for spec in specs]


def _tensor(spec: TensorSpec, layout: Layout) -> dict[str, Any]:
    return {
        "name": spec.name,
        "datatype": spec.datatype,
        "shape": list(spec.shape),
        "batch_axis": layout.batch_axis,
        "lengths": [
            {"axis": t.axis, "length": t.length, "stride": t.stride, "offset": t.offset}
            for t in layout.ties
        ],
        "pad_value": layout.pad_value,
        "is_mask": layout.is_mask,
    }


def _found(findings: Findings) -> dict[str, Any]:
    return {
        "kind": findings.kind.value,
        "difference": findings.difference,
        "relative": findings.relative,
        "residual": findings.residual,
        "paddable": list(findings.paddable),
        "sizes_run": [list(sizes) for sizes in findings.lengths_run],
        "suspects": list(findings.suspects),
        "timing": [
            {"rows": s.rows, "length": s.length, "ms": round(s.ran_ns / 1e6, 3)}
            for s in findings.samples
        ],
    }


def _console() -> "Console":
    try:
        from rich.console import Console
    except ImportError:
        raise InvalidSetting(
            "tables need rich, which is not installed: pip install 'xirang[report]', or --json"
        ) from None
    return Console(highlight=False)


def _show(report: Mapping[str, Any], console: "Console") -> None:
    kind = report["verdict"].partition(":")[0]
    console.print(f"\n[bold]{report['model']}[/]  {report['platform']}")
    console.print(f"[{STYLES.get(kind, 'red')}]{report['verdict']}[/]", soft_wrap=True)
    for suspect in report.get("suspects", ()):
        console.print(f"  it has {suspect}", soft_wrap=True)
    console.print(_tensor_table(report))
    if report.get("timing"):
        console.print(_timing_table(report["timing"]))
    against = f", by {' and '.join(report['overrides'])}" if report["overrides"] else ""
    console.print(f"The engine {report['engine']}{against}.", soft_wrap=True)


def _tensor_table(report: Mapping[str, Any]) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    paddable = set(report.get("paddable", ()))
    table = Table("", "tensor", "type", "shape", "padded with")
    for way in ("inputs", "outputs"):
        for tensor in report[way]:
            mask = "mask, " if tensor["is_mask"] else ""
            follows = {tie["length"] for tie in tensor["lengths"]}
            is_padded = way == "inputs" and not follows.isdisjoint(paddable)
            table.add_row(
                way[:-1],
                escape(tensor["name"]),
                tensor["datatype"],
                escape(shape_words(tensor)),
                f"{mask}{tensor['pad_value']:g}" if is_padded else "",
            )
    return table


def shape_words(tensor: Mapping[str, Any]) -> str:
    """A shape with the meaning of its axes, as `[rows, length 0, 384]`."""
    sizes = [str(size) if size >= 0 else "?" for size in tensor["shape"]]
    if tensor["batch_axis"] is not None:
        sizes[tensor["batch_axis"]] = "rows"
    for tie in tensor["lengths"]:
        size = f"length {tie['length']}"
        if tie["offset"]:
            size = f"({size} {tie['offset']:+d})"
        sizes[tie["axis"]] = f"{size} ÷ {tie['stride']}" if tie["stride"] > 1 else size
    shared = "" if tensor["batch_axis"] is not None else " for all rows"
    return f"[{', '.join(sizes)}]{shared}"


def _timing_table(timing: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.table import Table

    lengths = sorted({sample["length"] for sample in timing})
    ms = {(sample["rows"], sample["length"]): sample["ms"] for sample in timing}
    table = Table("rows", *(f"length {length}" for length in lengths), title="ms a run")
    for rows in sorted({sample["rows"] for sample in timing}):
        cells = [ms.get((rows, length)) for length in lengths]
        table.add_row(str(rows), *("" if cell is None else f"{cell:.3g}" for cell in cells))
    return table
