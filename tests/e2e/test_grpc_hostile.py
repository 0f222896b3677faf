"""A real gRPC server under clients that mean harm, and under honest ones that want much."""

import asyncio
import contextlib
import random
import socket
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio
import numpy as np
import pytest
from tests.frontends.grpc.http2.wire import HELLO, data, farewell_in, headers
from tests.frontends.grpc.test_calls import head
from tests.support.wire import DEADLINE_S
from tritonclient.grpc import service_pb2 as pb, service_pb2_grpc

from xirang.frontends.grpc.http2 import frames
from xirang.frontends.grpc.http2.frames import ErrorCode, frame
from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

MODELS = [f"tests.e2e.grpc_models:ident_{name}" for name in ("uint8", "int8", "bool")]
"""One for each size of messages: what is learned of short ones says nothing of long ones."""
MIB = 1 << 20
UNBOUND = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
HUNDRED_RESETS = [
    b"".join(
        headers(2 * number + 1, head()) + frames.reset(2 * number + 1, ErrorCode.CANCEL)
        for number in range(start, start + 100)
    )
    for start in range(0, 10_000, 100)
]


@pytest.fixture(scope="module")
def server():
    options = ("--grpc-port=0", "--grpc-server=own", "--client-timeout-s=2")
    with ServerProcess(MODELS, *options) as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.log_text()


def wish(values, identity="", datatype="UINT8"):
    array = np.asarray(values, np.uint8)
    message = pb.ModelInferRequest(model_name=f"ident_{datatype.lower()}", id=identity)
    message.inputs.add(name="INPUT0", datatype=datatype, shape=[1, array.size])
    message.raw_input_contents.append(array.tobytes())
    return message


@pytest.fixture(autouse=True)
def _a_good_call_is_answered_afterwards(server):
    yield
    with grpc.insecure_channel(server.grpc_place, UNBOUND) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(wish([1, 2, 3]), timeout=DEADLINE_S)
        assert answer.raw_output_contents == [bytes([1, 2, 3])]


def told(server, *sent):
    """What a server says to these bytes until it hangs up."""
    host, port = server.grpc_place.split(":")
    received = b""
    with (
        socket.create_connection((host, int(port)), DEADLINE_S) as wire,
        contextlib.suppress(ConnectionError),
    ):
        for piece in sent:
            wire.sendall(piece)
        while piece := wire.recv(1 << 16):
            received += piece
    return received


FLOODS = {
    "pings": [frame(frames.PING, 0, 0, bytes(8)) * 1000] * 100,
    "settings": [frames.settings({4: 1000}) * 1000] * 100,
    "empty data": [headers(1, head()), *[data(1, b"") * 1000] * 100],
    "rapid resets": HUNDRED_RESETS,
    "continuations": [headers(1, b"", 0), *[frame(frames.CONTINUATION, 0, 1) * 1000] * 100],
    "a bomb": [headers(1, head() + b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4000 + b"\xbe" * 9000)],
    "silence after a half": [headers(1, head())[:-3]],
    "another protocol": [b"\x16\x03\x01" + bytes(500)],
}


@pytest.mark.parametrize("kind", FLOODS)
def test_harm_is_answered_and_hung_up_on(server, kind):
    start = [] if kind == "another protocol" else [HELLO]
    received = told(server, *start, *FLOODS[kind])
    if received and kind not in {"pings", "settings"}:  # those are answered until we hang up
        assert farewell_in(received) is not ErrorCode.NO_ERROR


def test_noise_of_every_kind(server):
    """Sixty clients at once: random bytes, and frames with something wrong in them."""
    randomness = random.Random(1)

    def harm(seed):
        own = random.Random(seed)
        good = HELLO + headers(1, head()) + data(1, bytes(50), 1) + headers(3, head()) + data(3)
        noise = bytearray(good * 3)
        for _ in range(own.randint(1, 8)):
            noise[own.randrange(len(HELLO), len(noise))] = own.randrange(256)
        sent = own.randbytes(300) if seed % 4 == 0 else bytes(noise) + frame(0, 0, 0)
        return told(server, sent)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(harm, [randomness.randrange(1 << 30) for _ in range(60)]))


def test_five_hundred_at_once_each_get_their_own(server):
    async def main():
        async with grpc.aio.insecure_channel(server.grpc_place, UNBOUND) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            calls = [stub.ModelInfer(wish([n % 251] * (n % 7 + 1), str(n))) for n in range(500)]
            for number, call in enumerate(calls):
                answer = await call
                assert answer.id == str(number)
                expected = bytes([number % 251] * (number % 7 + 1))
                assert answer.raw_output_contents == [expected]

    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_messages_as_long_as_may_be_both_ways(server):
    values = np.arange(63 * MIB, dtype=np.uint32).astype(np.uint8)
    with grpc.insecure_channel(server.grpc_place, UNBOUND) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for coding in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            answer = stub.ModelInfer(wish(values, "", "INT8"), timeout=60, compression=coding)
            assert answer.raw_output_contents[0] == values.tobytes()


def test_a_stream_of_long_messages_is_read_as_it_is_answered(server):
    values = [np.full(3 * MIB + number, 1, np.uint8) for number in range(30)]
    with grpc.insecure_channel(server.grpc_place, UNBOUND) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        sent = (wish(each, str(number), "BOOL") for number, each in enumerate(values))
        for answer in stub.ModelStreamInfer(sent, timeout=60):
            assert not answer.error_message
            response = answer.infer_response
            assert response.raw_output_contents[0] == values[int(response.id)].tobytes()


def test_threads_with_connections_of_their_own(server):
    def ask(number):
        with grpc.insecure_channel(server.grpc_place, UNBOUND) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            return [
                stub.ModelInfer(wish([number, each]), timeout=DEADLINE_S).raw_output_contents[0]
                for each in range(20)
            ]

    with ThreadPoolExecutor(16) as pool:
        for number, answers in enumerate(pool.map(ask, range(16))):
            assert answers == [bytes([number, each]) for each in range(20)]
