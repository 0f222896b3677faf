"""What the gRPC door costs beside HTTP binary: the tiny model of `overhead.py` through both.

The figure is the processor time of the server's process a request. HTTP is loaded by the usual 64
closed-loop connections. gRPC is loaded by grpcio's asyncio client in a process of its own, 64 calls
in flight: it costs more than the server, so what it reaches a second is a lower bound.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import numpy as np
from tests.support.models import mlp

from benchmarks.overhead import SHAPE, _cpu_s, cpu_us
from xirang.lab.load.payloads import of_binary_tensors
from xirang.lab.server import ServerProcess

INFER_PATH = "/inference.GRPCInferenceService/ModelInfer"
STREAM_PATH = "/inference.GRPCInferenceService/ModelStreamInfer"
IN_FLIGHT = 64
KINDS = {"8 connections x 8": 8, "64 connections": 64, "one stream": 1}
ROUNDS = 3


def measure(seconds: float) -> dict[str, float]:
    """Kind of gRPC load to its processor time a request ÷ that of HTTP binary."""
    spent: dict[str, list[float]] = {kind: [] for kind in ("HTTP", *KINDS)}
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess([mlp(Path(folder) / "mlp.onnx")], "--grpc-port", "0") as server,
    ):
        assert server.grpc_place is not None
        payloads = of_binary_tensors("mlp", [SHAPE], 256, seed=1)
        for _ in range(ROUNDS):
            http_us, result = cpu_us(server.pid, server.url, payloads, seconds)
            spent["HTTP"].append(http_us)
            print(f"{'HTTP binary':<20}{http_us:7.1f} µs a request{result.throughput:9.0f}/s")
            for kind in KINDS:
                grpc_us, rate = _load_apart(server.pid, server.grpc_place, kind, seconds)
                spent[kind].append(grpc_us)
                print(f"gRPC {kind:<15}{grpc_us:7.1f} µs a request{rate:9.0f}/s", flush=True)
    pairs = {kind: zip(spent[kind], spent["HTTP"], strict=True) for kind in KINDS}
    return {
        kind: statistics.median(grpc_us / http_us for grpc_us, http_us in pairs[kind])
        for kind in KINDS
    }


def _load_apart(pid: int, place: str, kind: str, seconds: float) -> tuple[float, float]:
    """Processor microseconds of the server a request, and requests a second."""
    command = [sys.executable, "-m", "benchmarks.grpc_door", "--client", place, kind]
    before_s = _cpu_s(pid)
    found = subprocess.run(
        [*command, "--seconds", str(seconds)], check=True, capture_output=True, text=True
    )
    spent_s = _cpu_s(pid) - before_s
    sent, took_s = json.loads(found.stdout)
    return spent_s / sent * 1e6, sent / took_s


def _message() -> bytes:
    """One row, as any client encodes it."""
    from xirang.frontends.grpc.infer import Request

    row = np.random.default_rng(1).standard_normal((1, 64)).astype("<f4")
    request = Request(model_name="mlp", raw_input_contents=[row.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=row.shape)
    encoded: bytes = request.SerializeToString()
    return encoded


async def _client(place: str, kind: str, seconds: float) -> tuple[int, float]:
    """How many calls were answered, and in how many seconds."""
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
    parser.add_argument("--client", nargs=2, metavar=("PLACE", "KIND"), help="load, do not serve")
    arguments = parser.parse_args()
    if arguments.client:
        print(json.dumps(asyncio.run(_client(*arguments.client, arguments.seconds))))
    else:
        for kind, ratio in measure(arguments.seconds).items():
            print(f"server CPU a request, gRPC, {kind} ÷ HTTP binary: {ratio:.2f}")


if __name__ == "__main__":
    main()
