"""Side by side with a genuine Triton server, in one run and on one model repository.

The real perf_analyzer asks a model that adds and subtracts, and MiniLM through ONNX Runtime, both
as `model.py` files, at 1, 8 and 32 requests at once over HTTP and gRPC; each point on one server
and then on the other. Then texts of mixed lengths, 64 at a time: Triton batches what its dynamic
batcher gives it, and ours what its scheduler gives it, through the same model.py.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.figures import Figure, print_figures
from benchmarks.minilm import LENGTHS, SEED
from benchmarks.triton.analyzer import VARIABLE, AnalyzerFailed, Found, analyze, analyzer
from benchmarks.triton.repository import lay_out
from benchmarks.triton.servers import LAUNCHER, Genuine, Ours, absent, launcher, version_of
from xirang.lab.load import (
    ArrivalPlan,
    ClosedLoop,
    Payloads,
    PointResult,
    Target,
    run_on_loop,
    run_point_apart,
)

CONCURRENCIES = (1, 8, 32)
KINDS = ("http", "grpc")
TOKENS = 32
MODELS = {
    "add_sub": (),
    "minilm_equal": ("--shape", f"ids:{TOKENS}", "--input-data", "zero"),
}
"""What is measured by perf_analyzer, and how its inputs are made."""

CLIENTS = 64
TEXTS = 4096
ROUNDS = 2

Server = Genuine | Ours


@dataclass(frozen=True, slots=True)
class Point:
    """One place of the table: the same question to both."""

    model: str
    kind: str
    concurrency: int
    triton: Found
    xirang: Found

    @property
    def name(self) -> str:
        return f"{self.model} {self.kind} x{self.concurrency}"

    def row(self) -> str:
        triton, xirang = self.triton, self.xirang
        return (
            f"| {self.model} | {self.kind} | {self.concurrency} | {triton.rate:.0f} | "
            f"{xirang.rate:.0f} | {xirang.rate / triton.rate:.2f} | {triton.p99_ms:.1f} | "
            f"{xirang.p99_ms:.1f} |"
        )

    def figures(self) -> list[Figure]:
        rate, late = self.xirang.rate / self.triton.rate, self.xirang.p99_ms / self.triton.p99_ms
        return [
            Figure(f"{self.name}: requests/s, xirang ÷ triton", rate, 1.0),
            Figure(f"{self.name}: p99, xirang ÷ triton", late, 1.0, is_floor=False),
        ]


def points(triton: Server, xirang: Server) -> list[Point]:
    """Every place of the table, the two servers in turn."""
    found = []
    for model, options in MODELS.items():
        for kind in KINDS:
            for concurrency in CONCURRENCIES:
                pair = [
                    _measured(server, model, kind, options, concurrency)
                    for server in (triton, xirang)
                ]
                found.append(Point(model, kind, concurrency, *pair))
                print(found[-1].row(), flush=True)
    return found


def _measured(
    server: Server, model: str, kind: str, options: Sequence[str], concurrency: int
) -> Found:
    place = server.http if kind == "http" else server.grpc
    for _ in range(2):  # it stands still once in a while, on a busy machine
        try:
            return analyze(model, place, "-i", kind, *options, concurrency=concurrency)
        except AnalyzerFailed as error:
            print(f"{server.name} {model} {kind} x{concurrency}: {error}", flush=True)
    raise AnalyzerFailed(f"{server.name} {model} {kind} x{concurrency}: twice without a figure")


def mixed(triton: Server, xirang: Server, seconds: float) -> list[Figure]:
    """Texts of mixed lengths: answers a second of each way, in turns."""
    ways = {
        "triton, padded to the longest": (triton, "minilm_padded"),
        "triton, equal lengths only": (triton, "minilm_equal"),
        "xirang, its own rules": (xirang, "minilm_ours"),
        "xirang, Triton's rules, padded": (xirang, "minilm_padded"),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    tokens = LENGTHS.token_lists(TEXTS, seed=SEED)
    for _ in range(ROUNDS):
        for name, (server, model) in ways.items():
            result = _load(server, model, tokens, seconds)
            rates[name].append(result.throughput)
            print(
                f"{name:<32} {result.throughput:7.1f}/s  p50 {result.p50_ms or 0:7.1f}  "
                f"p99 {result.p99_ms or 0:7.1f} ms  errors {result.errors}",
                flush=True,
            )
    median = {name: statistics.median(each) for name, each in rates.items()}
    padded, equal, ours, same = median.values()
    return [
        Figure("mixed lengths: xirang ÷ triton's batcher, padded", ours / padded, 2.5),
        Figure("mixed lengths: xirang ÷ triton's batcher, equal lengths", ours / equal, 1.0),
        Figure("mixed lengths: xirang under Triton's rules ÷ triton", same / padded, 0.9),
    ]


def _load(
    server: Server, model: str, tokens: Sequence[Sequence[int]], seconds: float
) -> PointResult:
    payloads = _payloads(model, tokens)
    target = Target.parse(f"http://{server.http}").at(payloads.path, payloads.headers)
    plan = ArrivalPlan(ClosedLoop(CLIENTS), duration_s=seconds, warmup_s=2.0, seed=SEED)
    return run_on_loop(run_point_apart(target, payloads.bodies, plan))


def _payloads(model: str, tokens: Sequence[Sequence[int]]) -> Payloads:
    """Token ids in JSON, embeddings in binary."""
    bodies = [
        orjson.dumps(
            {
                "inputs": [
                    {"name": "ids", "shape": [1, len(ids)], "datatype": "INT64", "data": ids}
                ],
                "parameters": {"binary_data_output": True},
            }
        )
        for ids in tokens
    ]
    return Payloads(f"/v2/models/{model}/infer", tuple(bodies))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a round of mixed lengths")
    parser.add_argument("--only-mixed", action="store_true")
    arguments = parser.parse_args()
    missing = [
        absent(variable, what)
        for variable, is_there, what in (
            (LAUNCHER, launcher(), "a genuine Triton server"),
            (VARIABLE, analyzer(), "perf_analyzer"),
        )
        if not is_there
    ]
    if missing:
        print(*missing, sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        repository = lay_out(Path(folder) / "models")
        with Genuine(repository) as triton, Ours(repository) as xirang:
            print(version_of(triton.http), "and", version_of(xirang.http))
            print("| model | over | at once | triton /s | xirang /s | ratio | triton p99 | ours |")
            table = [] if arguments.only_mixed else points(triton, xirang)
            figures = [figure for point in table for figure in point.figures()]
            figures += mixed(triton, xirang, arguments.seconds)
    print_figures(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
