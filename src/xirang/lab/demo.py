"""`xirang demo`: a real model, real texts, and three ways of batching under the same load."""

import argparse
import base64
import random
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from xirang.errors import XirangError
from xirang.lab.load import (
    ArrivalPlan,
    ClosedLoop,
    Payloads,
    PointResult,
    Target,
    run_on_loop,
    run_point_apart,
)
from xirang.lab.load.client import fetch
from xirang.lab.load.page import add_points
from xirang.lab.load.payloads import JSON_HEADERS
from xirang.lab.load.terminal import ProgressLine, make_console, print_results
from xirang.lab.report import Report
from xirang.lab.server import ServerProcess
from xirang.repository.minilm import NAME, prepare

SIMILAR = ("A cat is sitting on the mat.", "A kitten rests on a rug.")
UNRELATED = "The central bank raised interest rates again."

WAYS = (
    ("xirang", "optimal batches", ()),
    ("off", "batching off", ("--batching", "off")),
    (
        "first-come",
        "first-come batches of 8",
        ("--batching", "first-come", "--max-batch-size", "8"),
    ),
)


class DemoFailed(XirangError):
    """An answer was wrong or missing."""


@dataclass(slots=True, eq=False)
class Answers:
    """The embeddings of one run, by text."""

    by_text: dict[int, bytes] = field(default_factory=dict)
    failed: int = 0

    def keep(self, index: int, status: int, body: bytes) -> None:
        """Take one answer."""
        if status == 200:
            self.by_text[index] = base64.b64decode(orjson.loads(body)["data"][0]["embedding"])
        else:
            self.failed += 1

    def largest_difference(self, other: "Answers") -> float:
        """Over all texts that both answered."""
        common = self.by_text.keys() & other.by_text.keys()
        if not common:
            raise DemoFailed("no text was answered in both runs; expected the same texts")
        return max(
            float(np.abs(_vector(self.by_text[i]) - _vector(other.by_text[i])).max())
            for i in common
        )


def add_demo(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "demo",
        help="a real model under a real load, batched three ways side by side",
        description="Load all-MiniLM-L6-v2, serve it three times (optimal batches, batching off, "
        "first-come batches), send the same real texts from several clients, check the answers "
        "and compare. Ends by itself.",
    )
    parser.add_argument("--models", type=Path, default=Path("models"), metavar="FOLDER")
    parser.add_argument("--html", type=Path, default=Path("xirang-demo.html"), metavar="FILE")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=600, help="texts a run")
    parser.set_defaults(run=demo_command)


def demo_command(arguments: argparse.Namespace) -> int:
    """Run it; 0 if every answer was right."""
    console = make_console()
    begun = time.perf_counter()
    home = prepare(arguments.models)
    console.print(f"model   {home} (sha256 checked)")
    texts = paragraphs()
    chosen = random.Random(7).sample(texts, min(arguments.requests, len(texts)))
    console.print(f"texts   {len(chosen)} paragraphs of Python's own manual, {_lengths(chosen)}")
    payloads = _payloads(chosen)
    results: list[PointResult] = []
    answers: list[Answers] = []
    with ProgressLine(console) as progress:
        for _, label, options in WAYS:
            console.print(f"server  {label}: loading, probing, warming …")
            with ServerProcess([home], *options) as server:
                if not answers:
                    console.print(f"check   {_check(server.url)}")
                plan = ArrivalPlan(
                    ClosedLoop(arguments.clients),
                    duration_s=300,
                    request_count=len(chosen),
                    warmup_s=0.5,
                )
                kept = Answers()
                point = run_point_apart(
                    Target.parse(server.url).at(payloads.path, payloads.headers),
                    payloads.bodies,
                    plan,
                    on_progress=progress,
                    on_answer=kept.keep,
                    model=NAME,
                )
                results.append(_named(run_on_loop(point), label))
                answers.append(kept)
    failed = sum(kept.failed for kept in answers)
    difference = max(kept.largest_difference(answers[1]) for kept in (answers[0], answers[2]))
    print_results(console, results)
    _summary(console, results, difference)
    _report(arguments.html, results, difference, arguments.clients)
    console.print(f"report  {arguments.html}")
    console.print(f"took    {time.perf_counter() - begun:.0f} s")
    console.print(_next_steps(home), markup=False)
    if failed or difference > 1e-5:
        raise DemoFailed(f"{failed} requests failed; answers differ by up to {difference:.1e}")
    return 0


def paragraphs() -> list[str]:
    """Real texts of mixed length that every CPython brings along: the topics of `help()`."""
    from pydoc_data.topics import topics

    found = []
    for topic in sorted(topics):
        for block in topics[topic].split("\n\n"):
            text = re.sub(r"\s+", " ", block).strip()
            if len(text) >= 8 and not set(text) <= set("*=-~ "):
                found.append(text)
    return found


def _lengths(texts: Sequence[str]) -> str:
    counts = np.array([len(text) for text in texts])
    middle, high = np.percentile(counts, [50, 99])
    return f"{counts.min()} to {counts.max()} characters (median {middle:.0f}, p99 {high:.0f})"


def _payloads(texts: Sequence[str]) -> Payloads:
    bodies = tuple(
        orjson.dumps({"model": NAME, "input": text, "encoding_format": "base64"}) for text in texts
    )
    return Payloads("/v1/embeddings", bodies)


def _check(url: str) -> str:
    """A similar pair must score above an unrelated one."""
    target = Target.parse(url).at("/v1/embeddings", JSON_HEADERS)
    body = {"model": NAME, "input": [*SIMILAR, UNRELATED], "encoding_format": "base64"}
    status, answer = run_on_loop(fetch(target, target.post(orjson.dumps(body))))
    if status != 200:
        raise DemoFailed(f"status {status}: {answer[:300]!r}")
    rows = [base64.b64decode(entry["embedding"]) for entry in orjson.loads(answer)["data"]]
    one, near, far = map(_vector, rows)
    similar, unrelated = float(one @ near), float(one @ far)
    if not similar > unrelated + 0.2:
        raise DemoFailed(f"similar pair {similar:.2f}, unrelated pair {unrelated:.2f}")
    return f"cosine of a similar pair {similar:.2f}, of an unrelated pair {unrelated:.2f}"


def _vector(data: bytes) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return np.frombuffer(data, "<f4")


def _named(result: PointResult, label: str) -> PointResult:
    return replace(result, label=label)


def _summary(console: Any, results: Sequence[PointResult], difference: float) -> None:
    ours, off, first_come = (result.throughput for result in results)
    console.print(
        f"\nOptimal batches answer {ours / off:.2f} x the requests of no batching and "
        f"{ours / first_come:.2f} x those of first-come batches;\n"
        f"all answers agree within {difference:.1e}."
    )


def _report(path: Path, results: Sequence[PointResult], difference: float, clients: int) -> None:
    ours, off, first_come = results
    report = Report(
        "xirang demo: three ways of batching",
        f"{NAME} on this machine, {clients} clients, the same {ours.sent} texts each time",
    )
    report.tiles(
        [
            ("x the requests of no batching", ours.throughput / off.throughput),
            ("x those of first-come batches", ours.throughput / first_come.throughput),
            ("answered /s", ours.throughput),
            ("p99 ms", ours.p99_ms),
            ("largest difference between answers", f"{difference:.0e}"),
        ]
    )
    add_points(report, results)
    report.write(path)


def _next_steps(home: Path) -> str:
    binary = Path(sys.argv[0])
    command = binary if binary.name == "xirang" else "xirang"
    return (
        f"\nKeep a server running:\n  {command} serve {home}\n\nand try it:\n"
        f"  curl -s http://127.0.0.1:8000/v1/embeddings -H 'Content-Type: application/json' \\\n"
        f'    -d \'{{"model": "{NAME}", "input": "The answer to everything"}}\''
    )
