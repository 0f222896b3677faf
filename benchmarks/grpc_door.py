"""What the gRPC doors cost beside HTTP binary: the tiny model of `overhead.py` through all three.

The figure is the processor time of the server's process a request, in turns with HTTP's within one
run. All are loaded by clients that write prepared bytes and count answers (`prepared.py`), 64
requests in flight: HTTP on 64 connections, gRPC on 64, on 8, or on one stream. Real clients cost
more than any server: `--client grpcio` loads gRPC by grpcio's asyncio client instead, and then
requests come one by one.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

import numpy as np
from tests.support.models import mlp

from benchmarks.figures import Figure, print_figures
from benchmarks.overhead import SHAPE, spent_s
from benchmarks.prepared import load_grpc, load_http
from xirang.lab.load import run_on_loop
from xirang.lab.load.payloads import of_binary_tensors
from xirang.lab.server import ServerProcess

SERVERS = ("own", "grpcio")
INFER_PATH = "/inference.GRPCInferenceService/ModelInfer"
STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"
IN_FLIGHT = 64
HTTP = "HTTP binary"
KINDS = {"8 connections x 8": 8, "64 connections": 64, "one stream": 1}
ROUNDS = 3
GOAL = 1.2

Spent = dict[tuple[str, str], list[float]]
"""Server and kind of load to microseconds a request, one for each round."""


def measure(seconds: float, client: str, kinds: Sequence[str]) -> list[Figure]:
    """Processor time of each door ÷ that of HTTP binary, and of one door ÷ the other."""
    spent: Spent = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        model = mlp(Path(folder) / "mlp.onnx")
        servers = {
            name: stack.enter_context(
                ServerProcess([model], "--grpc-port", "0", "--grpc-server", name)
            )
            for name in SERVERS
        }
        for _ in range(ROUNDS):
            for name, kind in [("own", HTTP), *((n, k) for k in kinds for n in servers)]:
                us, rate = _load_apart(servers[name], (client, kind), seconds)
                spent.setdefault((name, kind), []).append(us)
                title = f"{name}, {kind}"
                print(f"{title:<30}{us:7.1f} µs a request{rate:9.0f}/s", flush=True)
    return [figure for kind in kinds for figure in _figures(spent, kind)]


def _figures(spent: Spent, kind: str) -> list[Figure]:
    http, own, grpcio = spent["own", HTTP], spent["own", kind], spent["grpcio", kind]
    title = f"server CPU a request, gRPC, {kind}"
    return [
        Figure(f"{title} ÷ HTTP binary", _ratio(own, http), GOAL, is_floor=False),
        Figure(f"{title} ÷ that over grpcio", _ratio(own, grpcio), 1.0, is_floor=False),
    ]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def _load_apart(
    server: ServerProcess, load: tuple[str, str], seconds: float
) -> tuple[float, float]:
    """Processor microseconds of the server a request, and requests a second."""
    place = server.url.removeprefix("http://") if load[1] == HTTP else server.grpc_place
    command = [sys.executable, "-m", "benchmarks.grpc_door", "--load", str(place), *load]
    before_s = spent_s(server.pid)
    found = subprocess.run(
        [*command, "--seconds", str(seconds)], check=True, capture_output=True, text=True
    )
    cpu_s = spent_s(server.pid) - before_s
    sent, took_s = json.loads(found.stdout)
    return cpu_s / sent * 1e6, sent / took_s


def _message() -> bytes:
    """One row, as any client encodes it."""
    from xirang.frontends.grpc.infer import Request

    row = np.random.default_rng(1).standard_normal((1, 64)).astype("<f4")
    request = Request(model_name="mlp", raw_input_contents=[row.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=row.shape)
    encoded: bytes = request.SerializeToString()
    return encoded


def _request(place: str) -> bytes:
    """The same row over HTTP."""
    payloads = of_binary_tensors("mlp", [SHAPE], 1, seed=1)
    (body,) = payloads.bodies
    fields = [("Host", place), *payloads.headers, ("Content-Length", str(len(body)))]
    lines = [f"POST {payloads.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _client(place: str, client: str, kind: str, seconds: float) -> tuple[int, float]:
    """How many calls were answered, and in how many seconds."""
    if kind == HTTP:
        return await load_http(place, _request(place), IN_FLIGHT, seconds)
    if client == "grpcio":
        return await _grpcio_client(place, kind, seconds)
    connections = KINDS[kind]
    path = STREAM_PATH if kind == "one stream" else INFER_PATH
    width = connections, IN_FLIGHT // connections
    return await load_grpc(place, path, _message(), width, seconds)


async def _grpcio_client(place: str, kind: str, seconds: float) -> tuple[int, float]:
    import grpc.aio

    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection for each channel
    channels = [grpc.aio.insecure_channel(place, options=options) for _ in range(KINDS[kind])]
    message, start = _message(), perf_counter()

    async def ask(channel: grpc.aio.Channel) -> int:
        call, count = channel.unary_unary(INFER_PATH), 0
        while perf_counter() - start < seconds:
            await call(message)
            count += 1
        return count

    async def stream(channel: grpc.aio.Channel) -> int:
        sent, count, room = 0, 0, asyncio.Semaphore(IN_FLIGHT)

        async def requests() -> AsyncIterator[bytes]:
            nonlocal sent
            while perf_counter() - start < seconds:
                await room.acquire()
                sent += 1
                yield message

        async for _ in channel.stream_stream(STREAM_PATH)(requests()):
            room.release()
            count += 1
        assert count == sent
        return count

    if kind == "one stream":
        counts = [await stream(channels[0])]
    else:
        workers = [channels[i % len(channels)] for i in range(IN_FLIGHT)]
        counts = await asyncio.gather(*map(ask, workers))
    took_s = perf_counter() - start
    for channel in channels:
        await channel.close()
    return sum(counts), took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--client", choices=("prepared", "grpcio"), default="prepared")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument(
        "--load", nargs=3, metavar=("PLACE", "CLIENT", "KIND"), help="load, do not serve"
    )
    arguments = parser.parse_args()
    if arguments.load:
        print(json.dumps(run_on_loop(_client(*arguments.load, arguments.seconds))))
    else:
        print_figures(measure(arguments.seconds, arguments.client, arguments.kinds))


if __name__ == "__main__":
    main()
