"""What KServe's own client gets from a server: run by a Python that has kserve, never by ours.

KServe's client and Triton's bring the same protobuf messages and cannot be in one process; this
file is started by `benchmarks.kserve_client` in an environment of its own.
"""

import asyncio
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

MODEL = "add_sub"
ROWS = np.arange(32, dtype=np.int32).reshape(2, 16)


def wish(*, is_binary, outputs=None):
    """Two rows to add and to subtract."""
    inputs = []
    for name in ("INPUT0", "INPUT1"):
        tensor = InferInput(name, list(ROWS.shape), "INT32")
        tensor.set_data_from_numpy(ROWS, binary_data=is_binary)
        inputs.append(tensor)
    asked = [RequestedOutput(name) for name in outputs] if outputs else None
    return InferRequest(model_name=MODEL, infer_inputs=inputs, request_outputs=asked)


def check(answer):
    """Hold an answer against numpy."""
    found = {output.name: output.as_numpy() for output in answer.outputs}
    assert np.array_equal(found["OUTPUT0"], ROWS + ROWS)
    assert np.array_equal(found["OUTPUT1"], ROWS - ROWS)


async def over_http(url):
    """Everything the REST client offers."""
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        assert await client.is_server_live(url)
        assert await client.is_server_ready(url)
        assert await client.is_model_ready(url, MODEL)
        assert not await client.is_model_ready(url, "none")
        for is_binary in (False, True):
            check(await client.infer(url, wish(is_binary=is_binary), model_name=MODEL))
    async with InferenceRESTClient(RESTConfig(protocol="v1")) as client:
        columns = {"INPUT0": ROWS.tolist(), "INPUT1": ROWS.tolist()}
        answer = await client.infer(url, {"inputs": columns}, model_name=MODEL)
        assert answer["outputs"]["OUTPUT0"] == (ROWS + ROWS).tolist()


async def over_grpc(place):
    """Everything the gRPC client offers."""
    async with InferenceGRPCClient(place) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready(MODEL)
        for is_binary in (False, True):
            check(await client.infer(wish(is_binary=is_binary)))


async def main(url, place):
    """Both, one after the other."""
    await over_http(url)
    await over_grpc(place)


asyncio.run(main(*sys.argv[1:]))
print("kserve's clients get what they ask for, over HTTP and gRPC")
