"""What the server itself costs: a model so small that all the time is the path around it.

A 64→256→256→10 perceptron under 64 closed-loop clients. The figure is the processor time of the
server's process a request, user and system, ONNX Runtime and the kernel's sockets included. It
stands beside those of two servers that do nothing, taken right before it in the same run: the
ratios hold where the machine's speed differs or drifts.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.models import mlp

from benchmarks.figures import Figure, print_figures
from xirang.lab.load import (
    ArrivalPlan,
    ClosedLoop,
    PointResult,
    Target,
    TensorShape,
    run_on_loop,
    run_point_apart,
)
from xirang.lab.load.payloads import Payloads, of_binary_tensors, of_tensors
from xirang.lab.server import ServerProcess

SHAPE = TensorShape("x", "FP32", (1, 64))
GOALS_US = {"binary": 28.0, "JSON": 32.0}
YARDSTICKS_US = {"floor": 6.7, "asgi": 17.8}
"""What the do-nothing servers cost on the machine where the goals were set."""
ROUNDS = 3

Spent = dict[str, float]
"""Microseconds a request of `xirang` and of each yardstick, in one round."""


def measure(seconds: float) -> list[Figure]:
    figures = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess([mlp(Path(folder) / "mlp.onnx")]) as server,
        noop_server("floor") as floor,
        noop_server("asgi") as asgi,
    ):
        places = {"floor": floor, "asgi": asgi, "xirang": (server.pid, server.url)}
        for name, make in (("binary", of_binary_tensors), ("JSON", of_tensors)):
            payloads = make("mlp", [SHAPE], 256, seed=1)
            rounds = [_round(name, places, payloads, seconds) for _ in range(ROUNDS)]
            figures += _figures(name, rounds)
    return figures


def _figures(name: str, rounds: list[Spent]) -> list[Figure]:
    goal_us = GOALS_US[name]
    # Noise only ever adds to a time, but it may be on either side of a ratio.
    best = min(rounds, key=lambda spent: spent["xirang"])
    title = f"server CPU a request, {name}, 64 clients"
    figures = [Figure(title, best["xirang"], goal_us, False, "µs")]
    for kind, words in (("asgi", "bare uvicorn's"), ("floor", "a do-nothing protocol's")):
        ratio = statistics.median(spent["xirang"] / spent[kind] for spent in rounds)
        goal = round(goal_us / YARDSTICKS_US[kind], 2)
        figures.append(Figure(f"the same ÷ {words}, {name}", ratio, goal, False))
    return figures


def _round(
    name: str, places: dict[str, tuple[int, str]], payloads: Payloads, seconds: float
) -> Spent:
    spent, result = {}, None
    for kind, (pid, url) in places.items():
        spent[kind], result = cpu_us(pid, url, payloads, seconds)
    assert result is not None
    batch = result.server.mean_batch if result.server else None
    print(
        f"{name:<7} {spent['xirang']:5.1f} µs a request; bare uvicorn {spent['asgi']:4.1f}, "
        f"a do-nothing protocol {spent['floor']:4.1f}; {result.throughput:6.0f}/s  "
        f"p99 {result.p99_ms:.1f} ms  mean batch {batch or 0:.1f}  "
        f"client {100 * result.client_cpu:.0f} % of a core",
        flush=True,
    )
    return spent


def cpu_us(
    pid: int, url: str, payloads: Payloads, seconds: float, *, status: int = 200
) -> tuple[float, PointResult]:
    """Processor microseconds that a process uses a request at saturation.

    Args:
        pid: Of the process.
        url: Where it listens.
        payloads: What to send.
        seconds: For how long.
        status: What they are answered with; if it is 200, then all of them.
    """
    target = Target.parse(url).at(payloads.path, payloads.headers)
    plan = ArrivalPlan(ClosedLoop(64), duration_s=seconds, warmup_s=0.0)
    before_s = spent_s(pid)
    result = run_on_loop(run_point_apart(target, payloads.bodies, plan))
    cpu_s = spent_s(pid) - before_s
    assert status != 200 or result.errors == 0
    return cpu_s / result.sent * 1e6, result


@contextmanager
def noop_server(kind: str) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "benchmarks.noop_server", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().split()[-1]
        process.terminate()


def spent_s(pid: int) -> float:
    """Processor time of a process so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    print_figures(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
