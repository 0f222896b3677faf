"""MiniLM under mixed lengths: served against the offline optimum, no batching, first-come batches.

Everything is a ratio of runs in this one call. The offline optimum is measured in process before
and after each served run that is divided by it, since the machine's speed drifts.
"""

import argparse
import base64
import statistics
import threading
import time
from pathlib import Path

import numpy as np
import orjson

from benchmarks.accounting import Account, Reading
from benchmarks.figures import Figure, print_figures
from xirang.backends.onnx import OnnxExecutable
from xirang.lab.load import (
    ArrivalPlan,
    ClosedLoop,
    Lengths,
    OpenLoop,
    PointResult,
    Target,
    run_on_loop,
    run_point_apart,
)
from xirang.lab.load.payloads import of_tokens
from xirang.lab.server import ServerProcess
from xirang.repository.load import cores
from xirang.repository.minilm import NAME, prepare
from xirang.text.pooling import PooledExecutable

LENGTHS = Lengths(median=30, sigma=0.92, length_min=3, length_max=512)
SEED = 20261130
PEERS_OPTIMUM = 380
"""Requests a second of the offline optimum on the machine where the goals were set."""


class Offline:
    """The same model on the same requests with no server: what the machine can do."""

    def __init__(self, home: Path, tokens: list[list[int]]) -> None:
        self.tokens = tokens
        self._model = PooledExecutable(OnnxExecutable(home / "model.onnx"))
        self._by_length = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        self.rates: list[float] = []
        self.costs_ms: list[float] = []  # processor time a request, of each of them
        self.alone_rate = 0.0

    def rate(self, *, elements_max: int = 512) -> float:
        """Requests a second: sorted by length, bounded batches, one thread a core."""
        batches, batch = [], []
        for i in self._by_length:
            batch.append(i)
            if len(self.tokens[i]) * len(batch) >= elements_max:
                batches.append(batch)
                batch = []
        inputs = [self._inputs(b) for b in [*batches, batch] if b]
        begun_s = time.process_time()
        seconds = self._timed(inputs)
        self.costs_ms.append((time.process_time() - begun_s) * 1e3 / len(self.tokens))
        self.rates.append(len(self.tokens) / seconds)
        return self.rates[-1]

    def alone(self) -> list[np.ndarray]:
        """Every request's embedding, run alone; `alone_rate` says how fast that went."""
        answers: list[np.ndarray] = [np.empty(0)] * len(self.tokens)

        def work(part: range) -> None:
            for i in part:
                answers[i] = self._run(self._inputs([i]))[0]

        start = time.perf_counter()
        self._in_threads([range(n, len(self.tokens), cores()) for n in range(cores())], work)
        self.alone_rate = len(self.tokens) / (time.perf_counter() - start)
        return answers

    def lone_ms(self, tokens: list[int], count: int = 40) -> float:
        """Median time of one request in process."""
        inputs, times = self._arrays([tokens]), []
        for _ in range(count):
            start = time.perf_counter()
            self._run(inputs)
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)

    def _timed(self, batches: list[dict[str, np.ndarray]]) -> float:
        lock, remaining = threading.Lock(), iter(batches)

        def work(_part: range) -> None:
            while True:
                with lock:
                    inputs = next(remaining, None)
                if inputs is None:
                    return
                self._run(inputs)

        start = time.perf_counter()
        self._in_threads([range(0)] * cores(), work)
        return time.perf_counter() - start

    @staticmethod
    def _in_threads(parts, work) -> None:
        threads = [threading.Thread(target=work, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        return self._model.run(inputs, ["embedding"])["embedding"]

    def _inputs(self, batch: list[int]) -> dict[str, np.ndarray]:
        return self._arrays([self.tokens[i] for i in batch])

    @staticmethod
    def _arrays(rows: list[list[int]]) -> dict[str, np.ndarray]:
        longest = max(map(len, rows))
        ids = np.zeros((len(rows), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(rows):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


class Served:
    """Load on a real server in its own process, from a client in its own process."""

    def __init__(self, home: Path, tokens: list[list[int]]) -> None:
        self._home = home
        self._payloads = of_tokens(NAME, tokens)
        self.answers: dict[int, np.ndarray] = {}
        self.results: list[PointResult] = []

    def run(self, label: str, plan: ArrivalPlan, *options: str) -> PointResult:
        with ServerProcess([self._home], *options) as server:
            return self.on(server, label, plan)

    def on(self, server: ServerProcess, label: str, plan: ArrivalPlan) -> PointResult:
        target = Target.parse(server.url).at(self._payloads.path, self._payloads.headers)
        point = run_point_apart(
            target, self._payloads.bodies, plan, on_answer=self._keep, model=NAME
        )
        result = run_on_loop(point)
        self.results.append(result)
        figures = result.server
        assert figures is not None
        print(
            f"{label:<34} {result.throughput:6.1f}/s  p50 {result.p50_ms:6.1f}  "
            f"p99 {result.p99_ms:6.1f} ms  batch {figures.mean_batch or 0:5.2f}  "
            f"padding {100 * (figures.padding_waste or 0):4.1f} %  "
            f"device {figures.device_ms or 0:5.2f} ms a request  errors {result.errors}  "
            f"client {100 * result.client_cpu:.1f} % of a core",
            flush=True,
        )
        return result

    def _keep(self, index: int, status: int, body: bytes) -> None:
        if status == 200:
            data = orjson.loads(body)["data"][0]["embedding"]
            self.answers[index] = np.frombuffer(base64.b64decode(data), "<f4")

    def largest_difference(self, alone: list[np.ndarray]) -> float:
        return max(float(np.abs(self.answers[i] - alone[i]).max()) for i in self.answers)


def closed(clients: int, count: int) -> ArrivalPlan:
    return ArrivalPlan(
        ClosedLoop(clients), duration_s=300, request_count=count, warmup_s=2.0, seed=SEED
    )


def opened(rate: float, seconds: float) -> ArrivalPlan:
    return ArrivalPlan(OpenLoop(rate), duration_s=seconds, warmup_s=2.0, seed=SEED)


def bracketed(offline: Offline, run) -> tuple[PointResult, float]:
    """A served run and the offline optimum around it."""
    before = offline.rate()
    result = run()
    after = offline.rate()
    return result, (before + after) / 2


def measure(count: int, seconds: float) -> list[Figure]:
    home = prepare(Path("models"))
    tokens = LENGTHS.token_lists(count, seed=SEED)
    offline, served = Offline(home, tokens), Served(home, tokens)
    alone = offline.alone()
    figures = []
    with ServerProcess([home]) as server:
        for clients, goal in ((64, 0.90), (256, 0.93)):
            plan = closed(clients, count)
            figures.append(closed_loop(served, offline, server, plan, goal))
            ours = served.results[0]
        figures += open_loop(served, offline, server, seconds)
    figures.append(lone_client(home, offline))
    figures += against_others(served, offline, ours, count)
    difference = served.largest_difference(alone)
    figures.append(Figure("largest difference to the model alone", difference, 1e-5, False))
    errors = sum(result.errors for result in served.results if not result.note)
    figures.append(Figure("errors in all runs that the machine could serve", errors, 0, False))
    low, high = min(offline.rates), max(offline.rates)
    print(
        f"offline: optimum {low:.0f} to {high:.0f} requests/s ({PEERS_OPTIMUM} where the goals "
        f"were set), each alone {offline.alone_rate:.0f} (267 there)"
    )
    return figures


def closed_loop(
    served: Served, offline: Offline, server: ServerProcess, plan: ArrivalPlan, goal: float
) -> Figure:
    """Served ÷ offline optimum; a line says where the rest of the machine's time went."""
    label = plan.arrivals.label
    readings = []

    def run() -> PointResult:
        readings.append(Reading.of(server.pid, server.url))
        result = served.on(server, f"closed loop, {label}", plan)
        readings.append(Reading.of(server.pid, server.url))
        return result

    result, optimum = bracketed(offline, run)
    account = Account.between(*readings, client=result.client_cpu, cores=cores())
    optimum_ms = statistics.mean(offline.costs_ms[-2:])
    share = result.throughput / optimum
    print(account.line(share, optimum_ms=optimum_ms), flush=True)
    name = f"served / offline optimum, {label.replace(' ', ' closed-loop ')}"
    return Figure(name, share, goal)


def open_loop(
    served: Served, offline: Offline, server: ServerProcess, seconds: float
) -> list[Figure]:
    """Poisson arrivals at the peers' rate, and at the same share of this machine's capacity."""
    optimum = offline.rate()
    result = served.on(server, "Poisson, 250/s", opened(250, seconds))
    assert result.p99_ms is not None
    figures = [Figure("p99 at 250/s Poisson", result.p99_ms, 120, False, "ms")]
    rate = 250 / PEERS_OPTIMUM * optimum
    result = served.on(server, f"Poisson, {rate:.0f}/s, the same load here", opened(rate, seconds))
    assert result.p99_ms is not None
    scaled_ms = result.p99_ms * optimum / PEERS_OPTIMUM
    name = "p99 at the same share of the optimum, in that machine's ms"
    return [*figures, Figure(name, scaled_ms, 120, False, "ms")]


def lone_client(home: Path, offline: Offline) -> Figure:
    """One client, one request of median length at a time, on an idle server."""
    tokens = LENGTHS.token_lists(1, seed=SEED)[0][:1] * 30
    served = Served(home, [tokens])
    plan = ArrivalPlan(ClosedLoop(1), duration_s=60, request_count=100, warmup_s=1.0, seed=SEED)
    with ServerProcess([home]) as server:
        before_ms = offline.lone_ms(tokens)
        result = served.on(server, "one lone client, 30 tokens", plan)
        model_ms = (before_ms + offline.lone_ms(tokens)) / 2
    assert result.p50_ms is not None
    return Figure("lone client, p50 beyond the model's", result.p50_ms - model_ms, 2, False, "ms")


def against_others(served: Served, offline: Offline, ours: PointResult, count: int) -> list[Figure]:
    """The same server with batching off, and with first-come padded batches of 8."""
    figures = []
    for label, options, goal in (
        ("batching off", ("--batching", "off"), 1.3),
        (
            "first-come batches of 8",
            ("--batching", "first-come", "--max-batch-size", "8"),
            2.5,
        ),
    ):
        result, optimum = bracketed(
            offline,
            lambda n=label, o=options: served.run(f"{n}, 64 clients", closed(64, count // 2), *o),
        )
        # Each against the optimum around it: the machine may have changed in between.
        share = result.throughput / optimum
        ours_share = ours.throughput / statistics.mean(offline.rates[:2])
        figures.append(Figure(f"against {label}, 64 clients", ours_share / share, goal))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2048)
    parser.add_argument("--seconds", type=float, default=15.0)
    arguments = parser.parse_args()
    print_figures(measure(arguments.requests, arguments.seconds))


if __name__ == "__main__":
    main()
