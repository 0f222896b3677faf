"""What the server itself costs: a model so small that all the time is the path around it.

A 64→256→256→10 perceptron under 64 closed-loop clients. The figure is the processor time of the
server's process a request, user and system, ONNX Runtime and the kernel's sockets included. It
stands beside that of a server that does nothing, taken right before it in the same run: their
ratio holds where the machine's speed drifts.
"""

import argparse
import os
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
FLOOR_US = 6.7
"""The do-nothing server where the goals were set; goal ÷ floor is the goal of the ratio."""
ROUNDS = 3


def measure(seconds: float) -> list[Figure]:
    binary = of_binary_tensors("mlp", [SHAPE], 256, seed=1)
    json = of_tensors("mlp", [SHAPE], 256, seed=1)
    figures = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess([mlp(Path(folder) / "mlp.onnx")]) as server,
        noop_server() as floor,
    ):
        for name, payloads, goal_us in (("binary", binary, 28), ("JSON", json, 32)):
            rounds = [_round(name, server, floor, payloads, seconds) for _ in range(ROUNDS)]
            # The least disturbed round: noise only ever adds.
            spent_us = min(spent for spent, _ in rounds)
            ratio = min(spent / floor_us for spent, floor_us in rounds)
            title = f"server CPU a request, {name}, 64 clients"
            figures.append(Figure(title, spent_us, goal_us, False, "µs"))
            figures.append(
                Figure(
                    f"the same ÷ a do-nothing server's, {name}", ratio, goal_us / FLOOR_US, False
                )
            )
    return figures


def _round(
    name: str, server: ServerProcess, floor: tuple[int, str], payloads: Payloads, seconds: float
) -> tuple[float, float]:
    floor_us, _ = cpu_us(*floor, payloads, seconds / 2)
    spent_us, result = cpu_us(server.pid, server.url, payloads, seconds)
    batch = result.server.mean_batch if result.server else None
    print(
        f"{name:<7} {spent_us:5.1f} µs a request, a do-nothing server {floor_us:4.1f}; "
        f"{result.throughput:6.0f}/s  p99 {result.p99_ms:.1f} ms  mean batch {batch or 0:.1f}  "
        f"client {100 * result.client_cpu:.0f} % of a core",
        flush=True,
    )
    return spent_us, floor_us


def cpu_us(pid: int, url: str, payloads: Payloads, seconds: float) -> tuple[float, PointResult]:
    """Processor microseconds that a process uses a request at saturation."""
    target = Target.parse(url).at(payloads.path, payloads.headers)
    plan = ArrivalPlan(ClosedLoop(64), duration_s=seconds, warmup_s=0.0)
    before_s = _cpu_s(pid)
    result = run_on_loop(run_point_apart(target, payloads.bodies, plan))
    spent_s = _cpu_s(pid) - before_s
    assert result.errors == 0
    return spent_s / result.sent * 1e6, result


@contextmanager
def noop_server() -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "benchmarks.noop_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().split()[-1]
        process.terminate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    print_figures(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
