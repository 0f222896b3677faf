"""What the server itself costs: a model so small that all the time is the path around it.

A 64→256→256→10 perceptron under 64 closed-loop clients. The figure is the processor time of the
server's process a request, user and system, ONNX Runtime and the kernel's sockets included.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.figures import Figure, print_figures
from tests.support.models import mlp
from xirang.lab.load import ArrivalPlan, ClosedLoop, Target, TensorShape, run_on_loop
from xirang.lab.load import run_point_apart
from xirang.lab.load.payloads import Payloads, of_binary_tensors, of_tensors
from xirang.lab.server import ServerProcess

SHAPE = TensorShape("x", "FP32", (1, 64))


def cpu_us(server: ServerProcess, payloads: Payloads, seconds: float) -> float:
    """Server CPU microseconds a request at saturation."""
    target = Target.parse(server.url).at(payloads.path, payloads.headers)
    run_on_loop(run_point_apart(target, payloads.bodies, _plan(1.0)))  # warm
    before_s = server.cpu_s()
    result = run_on_loop(run_point_apart(target, payloads.bodies, _plan(seconds), model="mlp"))
    spent_s = server.cpu_s() - before_s
    assert result.errors == 0
    batch = result.server.mean_batch if result.server else None
    print(
        f"{result.throughput:8.0f}/s  p50 {result.p50_ms:.2f}  p99 {result.p99_ms:.2f} ms  "
        f"mean batch {batch or 0:.1f}  client {100 * result.client_cpu:.0f} % of a core",
        flush=True,
    )
    return spent_s / result.sent * 1e6


def _plan(seconds: float) -> ArrivalPlan:
    return ArrivalPlan(ClosedLoop(64), duration_s=seconds, warmup_s=0.0)


def measure(seconds: float) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        model = mlp(Path(folder) / "mlp.onnx")
        with ServerProcess([model]) as server:
            binary = of_binary_tensors("mlp", [SHAPE], 256, seed=1)
            json = of_tensors("mlp", [SHAPE], 256, seed=1)
            return [
                Figure(
                    "server CPU a request, binary tensors", cpu_us(server, binary, seconds),
                    28, False, "µs",
                ),
                Figure(
                    "server CPU a request, JSON", cpu_us(server, json, seconds), 32, False, "µs"
                ),
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    print_figures(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
