"""MiniLM under deadlines: what is answered on time, live, and what the simulator predicts of it.

Poisson arrivals at shares of the offline optimum, half of them with a budget of 100 ms and half
with 250 ms. Each point is a server of its own that records what its scheduler was told; the
recorded arrivals then go through the simulator with the law and the noise that the recorded runs
show. Live and predicted share on time stand side by side.
"""

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from benchmarks.figures import Figure, print_figures
from benchmarks.minilm import LENGTHS, SEED, Offline
from xirang.lab.load import ArrivalPlan, OpenLoop, Target, run_on_loop, run_point_apart
from xirang.lab.replay import tallies
from xirang.lab.replay_command import simulate
from xirang.lab.server import ServerProcess
from xirang.lab.simulator_result import Result
from xirang.observe.recording import Recording
from xirang.repository.minilm import NAME, prepare

LOADS = (0.3, 0.6, 0.8, 0.95, 1.2)
BUDGETS_MS = (100, 250)
WINDOW = ("--window-ms", "200")  # wide: the budgets shall decide
WAYS: dict[str, tuple[str, ...]] = {
    "off": ("--batching", "off"),
    "efficiency 0": ("--efficiency", "0"),
    "efficiency 0.5": ("--efficiency", "0.5", *WINDOW),
    "efficiency 1": ("--efficiency", "1", *WINDOW),
}
TEXTS = 1024


@dataclass(frozen=True)
class Point:
    """One way of batching at one load: as it went, and as it was predicted from its arrivals."""

    way: str
    load: float
    live: Result
    predicted: Result

    @property
    def error(self) -> float:
        return abs(self.live.on_time - self.predicted.on_time)

    def line(self) -> str:
        return (
            f"{self.way:<15} load {self.load:4.2f}  on time {100 * self.live.on_time:5.1f} % "
            f"(predicted {100 * self.predicted.on_time:5.1f})  batch {self.live.batch_mean:5.2f} "
            f"({self.predicted.batch_mean:5.2f})  device {self.live.device_ms_per_on_time:6.2f} ms "
            f"an answer on time ({self.predicted.device_ms_per_on_time:6.2f})"
        )


def bodies_of(tokens: list[list[int]]) -> list[bytes]:
    """Infer requests in JSON, budgets by turns; answers come as binary."""
    bodies = []
    for number, row in enumerate(tokens):
        columns = {"input_ids": row, "attention_mask": [1] * len(row), "token_type_ids": []}
        columns["token_type_ids"] = [0] * len(row)
        parameters = {
            "timeout": BUDGETS_MS[number % len(BUDGETS_MS)] * 1000,
            "binary_data_output": True,
        }
        inputs = [
            {"name": name, "datatype": "INT64", "shape": [1, len(row)], "data": column}
            for name, column in columns.items()
        ]
        bodies.append(orjson.dumps({"inputs": inputs, "parameters": parameters}))
    return bodies


def run_point(home: Path, bodies: list[bytes], rate: float, seconds: float, *options: str) -> Path:
    """Load on a fresh server; where it recorded what its scheduler was told."""
    file = Path(tempfile.mkdtemp()) / "arrivals.rec"
    plan = ArrivalPlan(OpenLoop(rate), duration_s=seconds, warmup_s=1.0, seed=SEED)
    with ServerProcess([home], *options, "--record", str(file)) as server:
        headers = (("Content-Type", "application/json"),)
        target = Target.parse(server.url).at(f"/v2/models/{NAME}/infer", headers)
        run_on_loop(run_point_apart(target, bodies, plan, model=NAME))
    return file


def measure(seconds: float) -> list[Figure]:
    home = prepare(Path("models"))
    tokens = LENGTHS.token_lists(TEXTS, seed=SEED)
    offline, bodies = Offline(home, tokens), bodies_of(tokens)
    points: list[Point] = []
    for load in LOADS:
        optimum = offline.rate()
        for way, options in WAYS.items():
            file = run_point(home, bodies, load * optimum, seconds, *options)
            recording = Recording(file)
            live = tallies(recording)[NAME].result()
            predicted = simulate(recording, changes={}, seed=SEED)[NAME].result()
            points.append(Point(way, load, live, predicted))
            print(points[-1].line(), flush=True)
            file.unlink()
            file.parent.rmdir()
    return figures_of(points)


def figures_of(points: list[Point]) -> list[Figure]:
    """What the points come to."""

    def of(way: str, load: float) -> Result:
        return next(p.live for p in points if (p.way, p.load) == (way, load))

    errors = [100 * point.error for point in points]
    figures = [
        Figure("goodput predicted, median error", statistics.median(errors), 5, False, "points"),
        Figure("goodput predicted, largest error", max(errors), 5, False, "points"),
    ]
    for load in LOADS:
        gain = of("efficiency 0.5", load).on_time / max(1e-9, of("off", load).on_time)
        figures.append(Figure(f"on time, ours / batching off, load {load}", gain, 0.98))
    saved = of("efficiency 1", 0.3).batch_mean / of("efficiency 0", 0.3).batch_mean
    figures.append(Figure("mean batch, efficiency 1 / 0, load 0.3", saved, 1.2))
    light = np.mean([of("efficiency 0.5", load).on_time for load in LOADS[:2]])
    figures.append(Figure("on time at loads 0.3 and 0.6", float(light), 0.98))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="of load, a point")
    print_figures(measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
