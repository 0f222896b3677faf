"""The subcommand `xirang load`: from its arguments to points, and from results to files."""

import argparse
import gc
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from xirang.errors import InvalidSetting, XirangError
from xirang.lab.load.apart import run_on_loop
from xirang.lab.load.client import Target, fetch
from xirang.lab.load.page import load_report
from xirang.lab.load.payloads import (
    Lengths,
    Payloads,
    TensorShape,
    of_binary_tensors,
    of_body_file,
    of_tensors,
    of_texts,
    of_tokens,
    read_texts,
)
from xirang.lab.load.plan import ArrivalPlan, Arrivals, ClosedLoop, OpenLoop, Trace, read_trace
from xirang.lab.load.point import run_point
from xirang.lab.load.result import PointResult, as_dict
from xirang.lab.load.terminal import ProgressLine, make_console, print_results
from xirang.lab.report import plotly_module

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from rich.console import Console

CLIENTS_DEFAULT = 16
DURATION_DEFAULT_S = 10.0
DURATION_COUNTED_S = 3_600.0
EXIT_GOOD, EXIT_NOTHING_ANSWERED, EXIT_IMPOSSIBLE, EXIT_INTERRUPTED = 0, 1, 2, 130

EXAMPLES = """examples:
  xirang load http://127.0.0.1:8000 --text texts.jsonl.gz --clients 1 8 64
  xirang load http://127.0.0.1:8000 --lengths lognormal:30:0.92:3:512 --rate 100 200 400
  xirang load http://127.0.0.1:8000 --tensor input:FP32:1x64 --binary --model mlp
  xirang load http://127.0.0.1:8000/v1/embeddings --body request.json --requests 1000
"""


def add_load(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Register `load` with its options."""
    parser = subparsers.add_parser(
        "load",
        help="send load to a server and measure it",
        description="Send load to a server over HTTP; latency counts from the intended send time.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", metavar="URL", help="the server, http://host:port")
    parser.add_argument("--model", metavar="NAME", help="default: the only model that is served")
    _add_what(parser.add_argument_group("what is sent (one of them)"))
    _add_when(parser.add_argument_group("when (several values make several points)"))
    _add_limits(parser.add_argument_group("limits"))
    outputs = parser.add_argument_group("results")
    outputs.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    outputs.add_argument("--html", type=Path, metavar="FILE", help="write a report with plots")
    parser.set_defaults(run=load_command)


def _add_what(group: Any) -> None:
    group.add_argument(
        "--text", type=Path, metavar="FILE", help='lines, or .jsonl with key "text"; also .gz'
    )
    group.add_argument(
        "--lengths", metavar="lognormal:MEDIAN:SIGMA:MIN:MAX", help="random token ids"
    )
    group.add_argument(
        "--tensor", action="append", metavar="NAME:DATATYPE:SHAPE", help="random tensor; repeatable"
    )
    group.add_argument("--binary", action="store_true", help="tensors in the binary extension")
    group.add_argument("--body", type=Path, metavar="FILE", help="a JSON body for the URL's path")
    group.add_argument(
        "--distinct", type=int, default=1024, metavar="N", help="different random bodies (1024)"
    )


def _add_when(group: Any) -> None:
    group.add_argument(
        "--clients", type=int, nargs="+", metavar="N", help=f"closed loop ({CLIENTS_DEFAULT})"
    )
    group.add_argument(
        "--rate", type=float, nargs="+", metavar="R", help="open loop, requests a second"
    )
    group.add_argument(
        "--cv",
        type=float,
        default=1.0,
        help="variation of the gaps: 1 Poisson, 0 even, more: bursts",
    )
    group.add_argument(
        "--trace", type=Path, metavar="FILE", help="CSV with a column t_ms; also .gz"
    )
    group.add_argument(
        "--compress", type=float, default=1.0, metavar="X", help="replay a trace X times faster"
    )


def _add_limits(group: Any) -> None:
    group.add_argument("--duration", type=float, metavar="S", help="seconds measured (10)")
    group.add_argument("--requests", type=int, metavar="N", help="end after N measured requests")
    group.add_argument("--warmup", type=float, default=1.0, metavar="S", help="seconds before (1)")
    group.add_argument("--budget-ms", type=float, metavar="MS", help="sent along; counts goodput")
    group.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="give up after (30)"
    )
    group.add_argument(
        "--connections", type=int, default=512, metavar="N", help="most in an open loop (512)"
    )
    group.add_argument("--seed", type=int, default=0, help="root of what is random (0)")


@dataclass(frozen=True, slots=True)
class LoadRun:
    """A whole run: one server, one set of bodies, several points."""

    target: Target
    bodies: tuple[bytes, ...]
    plans: tuple[ArrivalPlan, ...]
    model: str | None


def load_command(args: argparse.Namespace) -> int:
    """Run the load; the exit status says whether anything succeeded."""
    try:
        console = make_console()
        if args.html is not None:
            plotly_module()  # better to miss it now than after the run
        run = _prepare(args)
    except XirangError as error:
        sys.stderr.write(f"xirang load: {error}\n")
        return EXIT_IMPOSSIBLE
    results = _measure(run, console)
    if not results:
        return EXIT_INTERRUPTED
    print_results(console, results)
    status = _write_files(args, console.print, run, results)
    return status if len(results) == len(run.plans) else EXIT_INTERRUPTED


def _measure(run: LoadRun, console: "Console") -> list[PointResult]:
    """Run the points one after the other; an interrupt keeps those that are whole."""
    gc.freeze()  # the prepared bodies are not garbage; a collection would pause the client
    results: list[PointResult] = []
    try:
        with ProgressLine(console) as progress:
            for plan in run.plans:
                point = run_point(
                    run.target, run.bodies, plan, on_progress=progress, model=run.model
                )
                results.append(run_on_loop(point))
    except KeyboardInterrupt:
        sys.stderr.write("xirang load: interrupted\n")
    return results


def _write_files(
    args: argparse.Namespace, tell: Callable[[str], None], run: LoadRun, results: list[PointResult]
) -> int:
    try:
        if args.json is not None:
            content = {"url": args.url, "model": run.model, "points": [*map(as_dict, results)]}
            args.json.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            tell(f"figures: {args.json}")
        if args.html is not None:
            where = f"{args.url} · {run.model or run.target.path} · seed {args.seed}"
            load_report("Load run", where, results).write(args.html)
            tell(f"report: {args.html}")
    except OSError as error:
        sys.stderr.write(f"xirang load: cannot write {error.filename}: {error.strerror}\n")
        return EXIT_IMPOSSIBLE
    if any(result.ok for result in results):
        return EXIT_GOOD
    sys.stderr.write(f"xirang load: no request to {args.url} succeeded\n")
    return EXIT_NOTHING_ANSWERED


def _prepare(args: argparse.Namespace) -> LoadRun:
    """Everything that can be wrong with the arguments is found here, before a request leaves."""
    kinds = [name for name in ("text", "lengths", "tensor", "body") if getattr(args, name)]
    if len(kinds) != 1:
        given = f"not {' and '.join(f'--{kind}' for kind in kinds)}" if kinds else "none was given"
        raise InvalidSetting(f"give one of --text, --lengths, --tensor, --body; {given}")
    if args.binary and kinds != ["tensor"]:
        raise InvalidSetting("--binary is for --tensor only")
    if not 1 <= args.distinct <= 1_000_000:
        raise InvalidSetting(f"--distinct {args.distinct}; expected 1 to 1000000")
    server = Target.parse(args.url)
    plans = _plans(args)
    if kinds == ["body"]:
        payloads = of_body_file(args.body)
        # The URL's own path is the route; the metrics page is at the server's root.
        payloads = replace(payloads, path=server.prefix or "/")
        server = replace(server, prefix="")
        model = args.model
    else:
        make = _payload_maker(args)
        model = args.model or run_on_loop(find_model(server))
        payloads = make(model)
    target = server.at(payloads.path, payloads.headers)
    if args.budget_ms is not None:
        target = target.with_headers(("X-Request-Timeout-Ms", f"{args.budget_ms:g}"))
    return LoadRun(target, payloads.bodies, plans, model)


def _payload_maker(args: argparse.Namespace) -> Callable[[str], Payloads]:
    if args.text is not None:
        texts = read_texts(args.text)
        random.Random(args.seed).shuffle(texts)  # files are often sorted
        return lambda model: of_texts(model, texts)
    if args.lengths is not None:
        token_lists = Lengths.parse(args.lengths).token_lists(args.distinct, seed=args.seed)
        return lambda model: of_tokens(model, token_lists)
    shapes = [TensorShape.parse(text) for text in args.tensor]
    make = of_binary_tensors if args.binary else of_tensors
    return lambda model: make(model, shapes, args.distinct, seed=args.seed)


def _plans(args: argparse.Namespace) -> tuple[ArrivalPlan, ...]:
    arrivals: list[Arrivals] = [ClosedLoop(clients) for clients in args.clients or ()]
    arrivals += [OpenLoop(rate, args.cv) for rate in args.rate or ()]
    if args.trace is not None:
        arrivals.append(read_trace(args.trace, compression=args.compress))
    return tuple(_plan(args, each) for each in arrivals or [ClosedLoop(CLIENTS_DEFAULT)])


def _plan(args: argparse.Namespace, arrivals: Arrivals) -> ArrivalPlan:
    duration_s = args.duration
    if duration_s is None:
        match arrivals:
            case Trace():  # the whole recording, warm-up included
                duration_s = max(arrivals.span_s - args.warmup, 0) + 0.01
            case OpenLoop() if args.requests is not None:
                duration_s = min(args.requests / arrivals.rate * 2 + 10, DURATION_COUNTED_S)
            case _:
                counted = args.requests is not None
                duration_s = DURATION_COUNTED_S if counted else DURATION_DEFAULT_S
    return ArrivalPlan(
        arrivals,
        duration_s=duration_s,
        request_count=args.requests,
        warmup_s=args.warmup,
        seed=args.seed,
        connections=args.connections,
        timeout_s=args.timeout,
        budget_ms=args.budget_ms,
    )


async def find_model(server: Target) -> str:
    """Ask the server for its only model."""
    index = server.at("/v2/repository/index")
    try:
        status, body = await fetch(index, index.post(b"{}"))
        names = {entry["name"] for entry in orjson.loads(body)} if status == 200 else set()
    except OSError as error:
        raise InvalidSetting(
            f"cannot ask {server.host}:{server.port} for models: {error}"
        ) from None
    except (ValueError, TypeError, KeyError):
        names = set()
    if len(names) != 1:
        known = f"it serves {', '.join(sorted(names))}" if names else "it does not name its models"
        raise InvalidSetting(f"give --model: {known}")
    return str(names.pop())
