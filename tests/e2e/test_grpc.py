"""Triton's own gRPC clients against a real server: every datatype, streams, budgets, and faults."""

import asyncio
import os
import queue
import signal
from functools import partial

import grpc
import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.frontends.test_doors import certificate
from tests.support import models
from tests.support.wire import DEADLINE_S, Hold, metric, until
from tritonclient.utils import InferenceServerException

from xirang.frontends.keys import new_key
from xirang.lab.server import ServerProcess
from xirang.tensors.tensor import NUMPY_TYPES, of_array

pytestmark = pytest.mark.e2e

HOLD = "tests.e2e.callables:hold"
DATATYPES = [name for name in NUMPY_TYPES if name != "BYTES"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for make in (models.mlp, models.add_sub, models.masked_double):
        make(folder / f"{make.__name__}.onnx")
    callables = [f"tests.e2e.grpc_models:ident_{name.lower()}" for name in NUMPY_TYPES]
    options = ("--grpc-port", "0", "--instances", "1")
    with ServerProcess([folder, HOLD, *callables], *options) as server:
        server.mlp = onnxruntime.InferenceSession(str(folder / "mlp.onnx"))
        yield server
        assert server.stop() == 0
        log = server.log_text()
        for sign in ("BlockingIOError", "ERROR asyncio", "ERROR grpc", "ERROR xirang.frontends"):
            assert sign not in log


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.grpc_place) as client:
        yield client


def inputs_of(arrays, kind=triton):
    inputs = []
    for name, array in arrays.items():
        one = kind.InferInput(name, array.shape, of_array(array).datatype)
        one.set_data_from_numpy(array)
        inputs.append(one)
    return inputs


def said(text):
    return inputs_of({"input": np.array([text.encode()], object)})


def floats(rows, *, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 64)).astype(np.float32)


def code_of(caught):
    return caught.value.status().removeprefix("StatusCode.")


def test_it_is_live_and_ready(server, client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("mlp")
    assert client.is_model_ready("mlp", "1")
    assert not client.is_model_ready("none")
    assert not client.is_model_ready("mlp", "2")
    with grpc.insecure_channel(server.grpc_place) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        answer = check(health_pb2.HealthCheckRequest(service="inference.GRPCInferenceService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_it_tells_what_it_is_and_serves(client):
    assert client.get_server_metadata().name == "xirang"
    model = client.get_model_metadata("mlp", as_json=True)
    assert model["platform"] == "onnxruntime_onnx"
    assert model["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "64"]}]
    config = client.get_model_config("mlp").config
    assert (config.name, config.backend) == ("mlp", "onnxruntime")
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    index = client.get_model_repository_index(as_json=True)["models"]
    assert {"name": "hold", "version": "1", "state": "READY"} in index


def test_statistics_count_what_was_asked(client):
    before = client.get_inference_statistics("add_sub").model_stats[0]
    pair = {name: np.ones((3, 16), np.int32) for name in ("INPUT0", "INPUT1")}
    client.infer("add_sub", inputs_of(pair))
    after = client.get_inference_statistics("add_sub").model_stats[0]
    assert after.inference_count - before.inference_count == 3
    assert after.execution_count - before.execution_count == 1
    assert after.inference_stats.success.count - before.inference_stats.success.count == 1
    assert after.inference_stats.compute_infer.ns > before.inference_stats.compute_infer.ns
    assert [batch.batch_size for batch in after.batch_stats] == [3]
    names = [each.name for each in client.get_inference_statistics().model_stats]
    assert {"mlp", "hold"} <= set(names)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_comes_back_as_it_went(client, datatype):
    dtype = NUMPY_TYPES[datatype]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        array = np.array([[limits.min, 1, limits.max]], dtype)
    else:
        array = np.array([[0, 1, 1]], dtype)
    name = f"ident_{datatype.lower()}"
    result = client.infer(name, inputs_of({"INPUT0": array}), request_id="7")
    returned = result.as_numpy("OUTPUT0")
    assert returned.dtype == array.dtype
    assert returned.tobytes() == array.tobytes()
    assert result.get_response().id == "7"


def test_bytes_need_not_be_text(client):
    array = np.array([[b"", b"\x00\xff", "息壤".encode()]], object)
    result = client.infer("ident_bytes", inputs_of({"INPUT0": array}))
    assert result.as_numpy("OUTPUT0").tolist() == array.tolist()


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_answers_are_those_of_the_model_alone(server, client, coding):
    rows = floats(5)
    result = client.infer("mlp", inputs_of({"x": rows}), compression_algorithm=coding)
    (alone,) = server.mlp.run(["y"], {"x": rows})
    np.testing.assert_allclose(result.as_numpy("y"), alone, rtol=1e-5, atol=1e-5)


def test_only_the_outputs_asked_for_are_sent(client):
    pair = {name: np.full((1, 16), 2, np.int32) for name in ("INPUT0", "INPUT1")}
    wanted = [triton.InferRequestedOutput("OUTPUT1")]
    result = client.infer("add_sub", inputs_of(pair), outputs=wanted)
    assert result.as_numpy("OUTPUT1").tolist() == [[0] * 16]
    assert result.as_numpy("OUTPUT0") is None


def test_sixty_four_at_once_on_one_connection(server):
    async def main():
        async with triton_aio.InferenceServerClient(server.grpc_place) as client:

            async def one(seed):
                rows = floats(1 + seed % 3, seed=seed)
                result = await client.infer("mlp", inputs_of({"x": rows}, triton_aio))
                return rows, result.as_numpy("y")

            return await asyncio.gather(*map(one, range(64)))

    for rows, answer in asyncio.run(asyncio.wait_for(main(), DEADLINE_S)):
        (alone,) = server.mlp.run(["y"], {"x": rows})
        np.testing.assert_allclose(answer, alone, rtol=1e-5, atol=1e-5)


def test_a_stream_of_many_with_a_fault_among_them(server, client):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    rows = {str(i): floats(1, seed=i) for i in range(50)}
    for identity, row in rows.items():
        client.async_stream_infer("mlp", inputs_of({"x": row}), request_id=identity)
    client.async_stream_infer("none", inputs_of({"x": rows["0"]}), request_id="wrong")
    seen, errors = {}, []
    for _ in range(51):
        result, error = answers.get(timeout=DEADLINE_S)
        if error is None:
            seen[result.get_response().id] = result.as_numpy("y")
        else:
            errors.append(str(error))
    client.stop_stream()
    assert errors == ["Request for unknown model: 'none' is not found"]
    assert seen.keys() == rows.keys()
    for identity, row in rows.items():
        (alone,) = server.mlp.run(["y"], {"x": row})
        np.testing.assert_allclose(seen[identity], alone, rtol=1e-5, atol=1e-5)


def test_a_stream_of_the_asyncio_client(server):
    async def main():
        async def requests():
            for number in range(10):
                yield {
                    "model_name": "mlp",
                    "inputs": inputs_of({"x": floats(1, seed=number)}, triton_aio),
                    "request_id": str(number),
                }

        async with triton_aio.InferenceServerClient(server.grpc_place) as client:
            stream = client.stream_infer(requests())
            return [(result.get_response().id, error) async for result, error in stream]

    answers = asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
    assert sorted(answers) == [(str(number), None) for number in range(10)]


def test_a_large_message_passes_and_a_huge_one_is_refused(client):
    large = np.zeros((1, 10 << 20), np.float32)  # 40 MiB
    result = client.infer("ident_fp32", inputs_of({"INPUT0": large}))
    assert result.as_numpy("OUTPUT0").shape == large.shape
    with pytest.raises(InferenceServerException) as caught:
        client.infer("ident_fp32", inputs_of({"INPUT0": np.zeros((1, 17 << 20), np.float32)}))
    assert code_of(caught) == "RESOURCE_EXHAUSTED"
    assert client.is_server_live()


WRONG = {
    "unknown model": ("none", {"x": floats(1)}, "NOT_FOUND", "'none' is not found"),
    "unknown input": ("mlp", {"z": floats(1)}, "INVALID_ARGUMENT", "missing inputs"),
    "another datatype": ("mlp", {"x": np.ones((1, 64))}, "INVALID_ARGUMENT", "FP64"),
    "another shape": ("mlp", {"x": np.ones((1, 63), np.float32)}, "INVALID_ARGUMENT", "[-1, 64]"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_told_what_is_wrong(client, case):
    model, arrays, code, part = WRONG[case]
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, inputs_of(arrays))
    assert code_of(caught) == code
    assert part in caught.value.message()


def test_a_model_that_raises_is_an_internal_error(client):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("hold", said("raise kaboom"))
    assert code_of(caught) == "INTERNAL"
    assert "kaboom" in caught.value.message()


@pytest.fixture
def busy(server, client):
    """The model `hold` is busy until the fixture's hold is released."""
    answers = queue.Queue()
    with Hold() as hold:
        client.async_infer("hold", said(hold.text), lambda result, error: answers.put(error))
        hold.until_running()
        yield hold
        hold.release()
        assert answers.get(timeout=DEADLINE_S) is None


def waiting(server, count):
    until(lambda: metric(server.url, "xirang_waiting", "hold") == count, f"{count} to wait")


def test_a_cancelled_request_is_never_executed(server, client, busy, tmp_path):
    note = tmp_path / "executed.txt"
    errors = queue.Queue()
    call = client.async_infer(
        "hold", said(f"note {note} cancelled"), lambda result, error: errors.put(error)
    )
    waiting(server, 1)
    call.cancel()
    assert "CANCELLED" in str(errors.get(timeout=DEADLINE_S).status())
    waiting(server, 0)
    busy.release()
    client.infer("hold", said(f"note {note} after"))
    assert note.read_text() == "after\n"


def test_a_deadline_is_kept_and_its_request_never_executed(server, client, busy, tmp_path):
    note = tmp_path / "executed.txt"
    with pytest.raises(InferenceServerException) as caught:
        client.infer("hold", said(f"note {note} late"), client_timeout=0.1)
    assert code_of(caught) == "DEADLINE_EXCEEDED"
    waiting(server, 0)
    busy.release()
    client.infer("hold", said(f"note {note} after"))
    assert note.read_text() == "after\n"


@pytest.mark.parametrize(
    "words", [{"timeout": 60_000}, {"headers": {"x-request-timeout-ms": "60"}}]
)
def test_a_budget_may_come_as_parameter_or_header(client, busy, words):
    with pytest.raises(InferenceServerException) as caught:
        client.infer("hold", said("late"), **words)
    assert code_of(caught) == "DEADLINE_EXCEEDED"
    assert "Request timeout expired: the budget of 60 ms" in caught.value.message()


def test_a_stopped_stream_takes_back_what_waits(server, client, busy):
    client.start_stream(lambda result, error: None)
    for number in range(3):
        client.async_stream_infer("hold", said("never"), request_id=str(number))
    waiting(server, 3)
    client.stop_stream(cancel_requests=True)
    waiting(server, 0)


def test_a_stopping_server_finishes_what_is_in():
    with (
        ServerProcess([HOLD], "--grpc-port", "0") as server,
        Hold() as hold,
        triton.InferenceServerClient(server.grpc_place) as client,
    ):
        answers = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("hold", said(hold.text), request_id="in")
        hold.until_running()
        os.kill(server.pid, signal.SIGTERM)
        until(lambda: not client.is_server_ready(), "the server to be unready")
        with pytest.raises(InferenceServerException) as caught:
            client.infer("hold", said("too late"))
        assert code_of(caught) == "UNAVAILABLE"
        hold.release()
        result, error = answers.get(timeout=DEADLINE_S)
        assert (result.get_response().id, error) == ("in", None)
        assert server.stop() == 0
        assert "Traceback" not in server.log_text()


def test_keys_and_encryption_are_those_of_http(tmp_path):
    key, entry = new_key("shop")
    (tmp_path / "keys.toml").write_text(entry)
    chain, private = certificate(tmp_path)
    options = ("--keys", tmp_path / "keys.toml", "--tls-certificate", chain, "--tls-key", private)
    words = ["tests.e2e.callables:shout"]
    with ServerProcess(words, "--grpc-port", "0", *map(str, options)) as server:
        open_client = partial(
            triton.InferenceServerClient,
            server.grpc_place,
            ssl=True,
            root_certificates=str(chain),
        )
        with open_client() as client:
            assert client.is_server_ready()
            with pytest.raises(InferenceServerException) as caught:
                client.infer("shout", said("a"))
            assert code_of(caught) == "UNAUTHENTICATED"
            mine = {"authorization": f"Bearer {key}"}
            result = client.infer("shout", said("a"), headers=mine)
            assert result.as_numpy("output").tolist() == [b"A"]


def test_a_taken_port_ends_the_start(server):
    port = server.grpc_place.rpartition(":")[2]
    with pytest.raises(Exception, match=f"cannot listen on 127.0.0.1:{port} for gRPC"):
        ServerProcess([HOLD], "--grpc-port", port)
