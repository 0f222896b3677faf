"""What a no costs over HTTP, beside what a bare uvicorn takes to answer the same requests.

Sixty-four clients ask again at once, whatever they are told, a model that never has room: one
request runs for a second, one waits, all others get 429. The yardstick is taken right before it
in the same round, so that the machine's own speed cancels out.
"""

import statistics
from time import sleep

from benchmarks.figures import Figure
from benchmarks.overhead import SHAPE, cpu_us, noop_server
from xirang.lab.load.payloads import of_binary_tensors, of_tensors
from xirang.lab.server import ServerProcess

MODEL = "benchmarks.qos.refusals:slow"
SECONDS = 2.5
ROUNDS = 3


def slow(x):
    """The same after a second."""
    sleep(1.0)
    return x


slow.inputs = {"x": ("FP32", [64])}
slow.outputs = {"y": ("FP32", [64])}


def measure() -> list[Figure]:
    figures = []
    options = ("--queue=1", "--max-batch-size=1", "--budget-ms=60000", "--log-level=error")
    with (
        ServerProcess([MODEL], *options, "--learned=off") as server,
        noop_server("asgi") as (asgi_pid, asgi_url),
    ):
        for name, make in (("binary", of_binary_tensors), ("JSON", of_tensors)):
            payloads = make("slow", [SHAPE], 256, seed=1)
            pairs = []
            for _ in range(ROUNDS):
                bare_us, _ = cpu_us(asgi_pid, asgi_url, payloads, SECONDS)
                each_us, result = cpu_us(server.pid, server.url, payloads, SECONDS, status=429)
                assert result.statuses.get(429, 0) > 0.99 * result.sent
                pairs.append((each_us, bare_us))
            figures += _figures(name, pairs)
    return figures


def _figures(name: str, pairs: list[tuple[float, float]]) -> list[Figure]:
    title = f"a no over HTTP, {name}: server CPU"
    each_us, bare_us = min(pairs)
    ratio = statistics.median(each / bare for each, bare in pairs)
    return [
        Figure(f"{title}, all of it", each_us, 15, False, "µs"),
        Figure(f"{title} beyond bare uvicorn's", each_us - bare_us, 15, False, "µs"),
        Figure(f"{title} ÷ bare uvicorn's", ratio, 1.4, False),
    ]
