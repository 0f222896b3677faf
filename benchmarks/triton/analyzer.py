"""The real perf_analyzer: where it is, what it is asked, and what it found.

The environment variable `XIRANG_PERF_ANALYZER` says where it is.
"""

import csv
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.triton.servers import runnable

VARIABLE = "XIRANG_PERF_ANALYZER"
LIMIT_S = 90


def analyzer() -> str:
    """Where it is; empty if nobody has said so."""
    return os.environ.get(VARIABLE, "")


@dataclass(frozen=True, slots=True)
class Found:
    """One measurement.

    Attributes:
        rate: Requests a second.
        p50_ms: Median latency.
        p99_ms: What 99 in 100 stayed within.
        text: All that it wrote.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    text: str


class AnalyzerFailed(RuntimeError):
    """It ended with an error, or not at all; the message says what it wrote."""


def analyze(
    model: str, place: str, *options: str, concurrency: int = 1, window_ms: int = 1000
) -> Found:
    """Measure a model under so many requests at once, until three windows agree.

    Raises:
        AnalyzerFailed: It ended with an error.
    """
    return ask(
        ["-m", model, "-u", place, *options, *_steady(concurrency, window_ms)],
    )


def _steady(concurrency: int, window_ms: int) -> Sequence[str]:
    counted = ["--measurement-interval", str(window_ms), "-r", "4", "-s", "999"]
    return ["--concurrency-range", f"{concurrency}:{concurrency}", *counted]


def ask(arguments: Sequence[str]) -> Found:
    """Run it with these arguments.

    Raises:
        AnalyzerFailed: It ended with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "found.csv"
        command = [*runnable(analyzer()), *arguments, "-f", str(table)]
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=folder
            )
        except subprocess.TimeoutExpired as error:
            raise AnalyzerFailed(f"no end within {LIMIT_S} s") from error
        text = ended.stdout + ended.stderr
        if not table.is_file():
            raise AnalyzerFailed(text[-2000:])
        with table.open(newline="") as lines:
            (row,) = csv.DictReader(lines)
    return Found(
        rate=float(row["Inferences/Second"]),
        p50_ms=float(row["p50 latency"]) / 1000,
        p99_ms=float(row["p99 latency"]) / 1000,
        text=text,
    )
