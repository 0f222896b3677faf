"""The protocol's extensions through Triton's own clients, over HTTP and gRPC."""

import asyncio
import contextlib
import json
import os
import socket
import struct
import threading
from http.client import HTTPConnection

import grpc
import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.grpc.aio as over_grpc_aio
import tritonclient.http as over_http
import tritonclient.http.aio as over_http_aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.golden import repository
from tests.support.wire import get, place_of, post, until
from tritonclient.utils import InferenceServerException, shared_memory

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

KEY = f"/xirang_test_{os.getpid()}"
SIZE_BYTES = 64
BOTH = {"http": over_http, "grpc": over_grpc}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = repository(tmp_path_factory.mktemp("extensions"))
    options = ["--model-repository", str(root), "--model-control-mode", "explicit"]
    options += ["--load-model=addsub", "--load-model=ident_fp32", "--warmup-s", "0"]
    options += [
        "--allow-client-shm=true",
        "--grpc-port=0",
        "--learned=off",
        "--http-thread-count=4",
    ]
    options += ["--load-model=params", "--http-header-forward-pattern=x-o.*"]
    options += ["--grpc-header-forward-pattern=^x-own$"]
    options += ["--grpc-infer-response-compression-level=high", "--log-verbose=0"]
    with ServerProcess(["tests.e2e.grpc_models:ident_bytes"], *options) as server:
        yield server
        log = server.log_text()
        assert "--http-thread-count is without effect" in log
        assert "ERROR" not in log


@pytest.fixture(params=BOTH)
def kind(request):
    return BOTH[request.param]


@pytest.fixture
def client(server, kind):
    place = server.grpc_place if kind is over_grpc else server.url.removeprefix("http://")
    with kind.InferenceServerClient(place) as client:
        yield client


@pytest.fixture
def region(client):
    """A registered region, and the handle by which its owner reads and writes it."""
    handle = shared_memory.create_shared_memory_region("region", KEY, SIZE_BYTES)
    client.register_system_shared_memory("region", KEY, SIZE_BYTES)
    yield handle
    client.unregister_system_shared_memory()
    shared_memory.destroy_shared_memory_region(handle)


class Relay:
    """Passes one connection on, and counts what comes back."""

    def __init__(self, place):
        self.target = tuple(place.rsplit(":", 1))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.returned_bytes = 0
        self.ends = []

    def __enter__(self):
        threading.Thread(target=self.run, daemon=True).start()
        return self

    def __exit__(self, *_):
        for end in (self.listener, *self.ends):
            end.close()

    def run(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(self.target)
        self.ends = [near, far]
        threading.Thread(target=self.pump, args=(near, far), daemon=True).start()
        self.pump(far, near, is_back=True)

    def pump(self, source, sink, *, is_back=False):
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self.returned_bytes += len(data) * is_back
                sink.sendall(data)


def tensor(kind, name, array, datatype="FP32"):
    found = kind.InferInput(name, array.shape, datatype)
    found.set_data_from_numpy(array)
    return found


def placed(kind, name, shape, datatype, size_bytes, offset=0):
    found = kind.InferInput(name, shape, datatype)
    found.set_shared_memory("region", size_bytes, offset)
    return found


def row(*values):
    return np.array([values], np.float32)


def test_tensors_go_both_ways_through_shared_memory(client, kind, region):
    shared_memory.set_shared_memory_region(region, [row(1, 2)], offset=8)
    wanted = kind.InferRequestedOutput("OUTPUT0")
    wanted.set_shared_memory("region", 8, 24)
    sent = [placed(kind, "INPUT0", [1, 2], "FP32", 8, 8)]
    answer = client.infer("ident_fp32", sent, outputs=[wanted])
    found = shared_memory.get_contents_as_numpy(region, np.float32, [1, 2], offset=24)
    assert found.tolist() == [[1, 2]]
    output = answer.get_output("OUTPUT0")
    shape = output["shape"] if kind is over_http else list(output.shape)
    assert shape == [1, 2]


def test_words_go_both_ways_through_shared_memory(client, kind, region):
    words = np.array([[b"hello", b"\x00\xff"]], object)
    blob = b"".join(struct.pack("<I", len(w)) + w for w in words.ravel())
    shared_memory.set_shared_memory_region(region, [np.frombuffer(blob, np.uint8)])
    wanted = kind.InferRequestedOutput("OUTPUT0")
    wanted.set_shared_memory("region", 32, 32)
    sent = [placed(kind, "INPUT0", [1, 2], "BYTES", len(blob))]
    client.infer("ident_bytes", sent, outputs=[wanted])
    found = shared_memory.get_contents_as_numpy(region, np.uint8, [len(blob)], offset=32)
    assert found.tobytes() == blob


def test_inputs_of_both_kinds_keep_their_order(client, kind, region):
    count = np.arange(16, dtype=np.float32)[None]
    shared_memory.set_shared_memory_region(region, [count])
    sent = [
        placed(kind, "INPUT0", [1, 16], "FP32", 64),
        tensor(kind, "INPUT1", np.ones((1, 16), np.float32)),
    ]
    wanted = [kind.InferRequestedOutput(name) for name in ("OUTPUT0", "OUTPUT1")]
    wanted[0].set_shared_memory("region", 64)
    answer = client.infer("addsub", sent, outputs=wanted)
    found = shared_memory.get_contents_as_numpy(region, np.float32, [1, 16])
    assert found.tolist() == (count + 1).tolist()
    assert answer.as_numpy("OUTPUT1").tolist() == (count - 1).tolist()


def test_the_status_of_regions(client, kind, region):
    told = client.get_system_shared_memory_status(**AS_JSON.get(kind, {}))
    (found,) = told if kind is over_http else told["regions"].values()
    assert (found["name"], found["key"], int(found["byte_size"])) == ("region", KEY, SIZE_BYTES)
    with pytest.raises(InferenceServerException, match="'region' already in manager"):
        client.register_system_shared_memory("region", KEY, SIZE_BYTES)


AS_JSON = {over_grpc: {"as_json": True}}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((8, 60), "Invalid offset \\+ byte size for shared memory region: 'region'"),
        ((8, 100), "Invalid offset for shared memory region: 'region'"),
        ((4, 0), "input byte size mismatch"),
    ],
)
def test_what_lies_outside_is_refused(client, kind, region, arguments, words):
    sent = [placed(kind, "INPUT0", [1, 2], "FP32", *arguments)]
    with pytest.raises(InferenceServerException, match=words):
        client.infer("ident_fp32", sent)


def test_an_owner_who_cuts_the_object_short_harms_only_himself(server, client, kind, region):
    os.truncate(f"/dev/shm{KEY}", 4)
    with pytest.raises(InferenceServerException, match="has become shorter"):
        client.infer("ident_fp32", [placed(kind, "INPUT0", [1, 2], "FP32", 8)])
    wanted = kind.InferRequestedOutput("OUTPUT0")
    wanted.set_shared_memory("region", 8)
    with pytest.raises(InferenceServerException, match="has become shorter"):
        client.infer("ident_fp32", [tensor(kind, "INPUT0", row(1, 2))], outputs=[wanted])
    assert client.is_server_live()
    os.truncate(f"/dev/shm{KEY}", SIZE_BYTES)


def test_memory_of_gpus_is_refused_in_words(client, kind):
    told = client.get_cuda_shared_memory_status()
    assert not (told if kind is over_http else told.regions)
    client.unregister_cuda_shared_memory()
    with pytest.raises(InferenceServerException, match="GPUs not supported"):
        client.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 8)


def test_classes_have_labels(client, kind):
    values = np.zeros((2, 16), np.float32)
    values[0, 3], values[1, 5], values[1, 6] = 9, 7, 8
    sent = [tensor(kind, "INPUT0", values), tensor(kind, "INPUT1", np.zeros_like(values))]
    wanted = [kind.InferRequestedOutput(f"OUTPUT{i}", class_count=2) for i in range(2)]
    answer = client.infer("addsub", sent, outputs=wanted)
    assert answer.as_numpy("OUTPUT1").tolist() == [
        [b"9.000000:3:class 3", b"0.000000:0:class 0"],
        [b"8.000000:6:class 6", b"7.000000:5:class 5"],
    ]
    assert answer.as_numpy("OUTPUT0")[0, 0] == b"9.000000:3"


def test_settings_are_turned_and_told(client, kind):
    as_json = AS_JSON.get(kind, {})

    def level(told):
        if as_json:
            return told["settings"]["log_verbose_level"]["uint32_param"]
        return told["log_verbose_level"]

    def rate(told):
        return told["settings"]["trace_rate"]["value"][0] if as_json else told["trace_rate"]

    assert level(client.update_log_settings({"log_verbose_level": 1}, **as_json)) == 1
    assert level(client.get_log_settings(**as_json)) == 1
    client.update_log_settings({"log_verbose_level": 0})
    settings = {"trace_level": ["TIMESTAMPS"], "trace_rate": "7"}
    assert rate(client.update_trace_settings("addsub", settings, **as_json)) == "7"
    assert rate(client.get_trace_settings("addsub", **as_json)) == "7"
    assert rate(client.get_trace_settings(**as_json)) == "1000"
    client.update_trace_settings("addsub", {"trace_level": None, "trace_rate": None})
    assert rate(client.get_trace_settings("addsub", **as_json)) == "1000"
    with pytest.raises(InferenceServerException, match="Request for unknown model : nope"):
        client.get_trace_settings("nope")


def test_models_come_and_go(client, kind):
    client.load_model("ident_i64")
    assert client.is_model_ready("ident_i64")
    told = client.get_model_repository_index()
    names = {m["name"] for m in told} if kind is over_http else {m.name for m in told.models}
    assert {"ident_i64", "noload"} <= names
    client.unload_model("ident_i64")
    until(lambda: not client.is_model_ready("ident_i64"), "the model to be gone")
    with pytest.raises(InferenceServerException, match="UNAVAILABLE state"):
        client.load_model("noload")


def test_sequence_and_other_parameters_are_taken(client, kind):
    answer = client.infer(
        "ident_fp32",
        [tensor(kind, "INPUT0", row(1, 2))],
        request_id="7",
        sequence_id=5,
        sequence_start=True,
        sequence_end=True,
        priority=1,
        timeout=5_000_000,
        headers={"x-own": "1"},
        parameters={"own": "text", "number": 3},
    )
    assert answer.as_numpy("OUTPUT0").tolist() == [[1, 2]]


def test_headers_and_parameters_go_to_the_model(client, kind):
    answer = client.infer(
        "params",
        [tensor(kind, "INPUT0", row(1))],
        headers={"x-own": "1", "y-own": "2"},
        parameters={"n": 3},
        priority=1,
    )
    assert json.loads(answer.as_numpy("OUTPUT0")[0, 0]) == {"x-own": "1", "n": 3}


def test_inputs_are_used_again(client, kind):
    sent = tensor(kind, "INPUT0", row(1, 2))
    for values in ((1, 2), (3, 4), (5, 6)):
        sent.set_data_from_numpy(row(*values))
        assert client.infer("ident_fp32", [sent]).as_numpy("OUTPUT0").tolist() == [list(values)]


def test_calls_at_once(server):
    sent = tensor(over_http, "INPUT0", row(1, 2))
    with over_http.InferenceServerClient(
        server.url.removeprefix("http://"), concurrency=4
    ) as client:
        calls = [client.async_infer("ident_fp32", [sent]) for _ in range(8)]
        assert [c.get_result().as_numpy("OUTPUT0").tolist() for c in calls] == [[[1, 2]]] * 8


@pytest.mark.parametrize("kind_aio", [over_http_aio, over_grpc_aio])
def test_the_asyncio_clients(server, kind_aio):
    is_grpc = kind_aio is over_grpc_aio
    place = server.grpc_place if is_grpc else server.url.removeprefix("http://")

    async def use():
        async with kind_aio.InferenceServerClient(place) as client:
            assert await client.is_server_live()
            wanted = [kind_aio.InferRequestedOutput("OUTPUT0", class_count=1)]
            sent = [tensor(kind_aio, "INPUT0", row(1, 2))]
            answers = await asyncio.gather(
                *(client.infer("ident_fp32", sent, outputs=wanted) for _ in range(4))
            )
            await client.unregister_system_shared_memory()
            return [answer.as_numpy("OUTPUT0").tolist() for answer in answers]

    assert asyncio.run(use()) == [[[b"2.000000:1"]]] * 4


def test_json_of_what_is_no_number(server):
    sent = over_http.InferInput("INPUT0", [1, 3], "FP32")
    sent.set_data_from_numpy(row(np.nan, np.inf, -np.inf), binary_data=False)
    with over_http.InferenceServerClient(server.url.removeprefix("http://")) as client:
        found = client.infer("ident_fp32", [sent]).as_numpy("OUTPUT0")
    assert np.array_equal(found, row(np.nan, np.inf, -np.inf), equal_nan=True)


def test_generate_answers_flat_and_as_an_event(server):
    status, headers, body = post(
        server.url, "/v2/models/ident_fp32/generate", {"INPUT0": [1, 2], "id": "7"}
    )
    assert (status, headers["content-type"]) == (200, "application/json")
    assert body == {"OUTPUT0": [1, 2], "id": "7", "model_name": "ident_fp32", "model_version": "1"}
    status, headers, body = post(
        server.url, "/v2/models/ident_fp32/versions/1/generate_stream", {"INPUT0": 5}
    )
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert body.startswith(b"data: ")
    assert body.endswith(b"\n\n")
    assert json.loads(body.removeprefix(b"data: "))["OUTPUT0"] == 5
    assert post(server.url, "/v2/models/nope/generate", {"INPUT0": 5})[0] == 404


def test_answers_are_packed_where_that_was_wished(server):
    """What comes back over the wire is far less than the answer."""
    zeros = np.zeros((1, 1 << 16), np.float32)
    with (
        Relay(server.grpc_place) as relay,
        over_grpc.InferenceServerClient(relay.place) as client,
    ):
        answer = client.infer("ident_fp32", [tensor(over_grpc, "INPUT0", zeros)])
    assert answer.as_numpy("OUTPUT0").shape == zeros.shape
    assert 0 < relay.returned_bytes < zeros.nbytes // 10


def test_whoever_watches_health_is_told_of_a_change(tmp_path):
    root = repository(tmp_path)
    options = ["--model-repository", str(root), "--load-model=ident_fp32", "--grpc-port=0"]
    options += ["--model-control-mode=explicit", "--warmup-s=0", "--learned=off", "--grace-s=20"]
    with (
        ServerProcess([], *options) as server,
        grpc.insecure_channel(server.grpc_place) as channel,
    ):
        told = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(told).status == health_pb2.HealthCheckResponse.SERVING
        os.kill(server.pid, 15)
        assert next(told).status == health_pb2.HealthCheckResponse.NOT_SERVING
        os.kill(server.pid, 15)
        assert not list(told)
        assert server.stop() == 0


def test_restricted_apis_need_their_header(tmp_path):
    root = repository(tmp_path)
    options = ["--model-repository", str(root), "--load-model=ident_fp32", "--grpc-port=0"]
    options += ["--model-control-mode=explicit", "--warmup-s=0", "--learned=off"]
    options += ["--http-restricted-api=inference,logging:k=v"]
    options += ["--grpc-restricted-protocol=inference,health:k=v"]
    probe = {"INPUT0": [1, 2]}
    with ServerProcess([], *options) as server:
        path = "/v2/models/ident_fp32/generate"
        assert post(server.url, path, probe)[0] == 403
        assert post(server.url, path, probe, {"k": "v"})[0] == 200
        assert get(server.url, "/v2/logging")[0] == 403
        assert get(server.url, "/v2/health/live")[0] == 200
        with over_grpc.InferenceServerClient(server.grpc_place) as client:
            sent = [tensor(over_grpc, "INPUT0", row(1, 2))]
            with pytest.raises(InferenceServerException, match="This protocol is restricted"):
                client.infer("ident_fp32", sent)
            with pytest.raises(InferenceServerException, match="This protocol is restricted"):
                client.is_server_live()
            header = {"triton-grpc-protocol-k": "v"}
            assert client.is_server_live(headers=header)
            client.infer("ident_fp32", sent, headers=header)
            client.get_server_metadata()


def test_a_port_of_their_own_for_metrics(tmp_path):
    root = repository(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--model-repository", str(root), "--load-model=ident_fp32", "--learned=off"]
    options += ["--model-control-mode=explicit", "--warmup-s=0", f"--metrics-port={port}"]
    with ServerProcess([], *options) as server:
        host, _ = place_of(server.url)
        line = HTTPConnection(host, port, timeout=10)
        line.request("GET", "/metrics")
        lines = line.getresponse().read().decode().splitlines()
        (loaded,) = (each for each in lines if each.startswith("nv_model_load_duration_secs{"))
        assert loaded.startswith('nv_model_load_duration_secs{model="ident_fp32",version="1"} ')
        assert 0 < float(loaded.rpartition(" ")[2]) < 60
        line.request("GET", "/v2")
        assert line.getresponse().status == 404
        line.close()
