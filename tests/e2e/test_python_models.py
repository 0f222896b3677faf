"""Model files written for Triton's Python backend, unchanged, behind a real server."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tests.support.wire import Wire, get, metric, post, until

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

REPOSITORY = Path(__file__).parents[1] / "data" / "python_repository"


def serve(root, *options):
    return ServerProcess(
        [], "--model-repository", str(root), "--learned", "off", "--grpc-port", "0", *options
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    shutil.copytree(REPOSITORY, root, dirs_exist_ok=True)
    with serve(root) as server:
        yield server


@pytest.fixture(params=["http", "grpc"])
def client(server, request):
    """Triton's own clients; and what of their modules makes tensors."""
    if request.param == "http":
        with httpclient.InferenceServerClient(server.url.removeprefix("http://")) as made:
            yield made, httpclient
    else:
        with grpcclient.InferenceServerClient(server.grpc_place) as made:
            yield made, grpcclient


def tensors(module, **arrays):
    found = []
    for name, array in arrays.items():
        kind = "BYTES" if array.dtype == object else {"f": "FP32", "i": "INT32"}[array.dtype.kind]
        tensor = module.InferInput(name, list(array.shape), kind)
        tensor.set_data_from_numpy(array)
        found.append(tensor)
    return found


def words(*texts, shape=None):
    return np.array([text.encode() for text in texts], object).reshape(shape or (1, len(texts)))


def tell(url, command, **more):
    """Status and answer of the unruly model, told what to do."""
    body = {
        "inputs": [{"name": "COMMAND", "datatype": "BYTES", "shape": [1, 1], "data": [command]}]
    }
    status, _, answer = post(url, "/v2/models/unruly/infer", body | more)
    if status != 200:
        return status, answer["error"]
    return status, {each["name"]: each["data"] for each in answer["outputs"]}


def ask(url, how, values=(1, 2, 3, 4), **parameters):
    body = {
        "inputs": [
            {"name": "HOW", "datatype": "BYTES", "shape": [1], "data": [how]},
            {"name": "VALUES", "datatype": "FP32", "shape": [4], "data": list(values)},
        ],
        "parameters": parameters,
    }
    status, _, answer = post(url, "/v2/models/asker/infer", body)
    return status, answer["outputs"][0]["data"] if status == 200 else answer["error"]


def test_the_model_of_the_documentation_adds_and_subtracts(client):
    asks, module = client
    one = np.arange(8, dtype=np.float32).reshape(2, 4)
    answer = asks.infer("add_sub", tensors(module, INPUT0=one, INPUT1=one * 3))
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), one * 4)
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), one * -2)


def test_each_of_many_requests_gets_its_own(server):
    def one(number):
        body = {
            "inputs": [
                {"name": name, "datatype": "FP32", "shape": [1, 4], "data": [number] * 4}
                for name in ("INPUT0", "INPUT1")
            ]
        }
        return post(server.url, "/v2/models/add_sub/infer", body)[2]["outputs"][0]["data"]

    with ThreadPoolExecutor(16) as pool:
        numbers = list(range(200))
        assert list(pool.map(one, numbers)) == [[2 * number] * 4 for number in numbers]


def test_a_model_sees_of_a_request_what_its_client_said(client):
    asks, module = client
    answer = asks.infer(
        "teller",
        tensors(module, TEXT=words("息壤", "b", shape=(2, 1))),
        request_id="seven",
        outputs=[module.InferRequestedOutput("SEEN")],
        timeout=2_000_000,
        parameters={"mode": "loud", "times": 3, "is_odd": True},
    )
    seen = json.loads(answer.as_numpy("SEEN")[0, 0])
    assert seen == {
        "args": [
            "model_config",
            "model_instance_device_id",
            "model_instance_kind",
            "model_instance_name",
            "model_name",
            "model_repository",
            "model_version",
        ],
        "name": "teller",
        "version": "1",
        "kind": "CPU",
        "device": "0",
        "mood": "good",
        "rows": 4,
        "input": "TYPE_STRING",
        "no input": None,
        "decoupled": False,
        "text": ["息壤", "b"],
        "is cpu": True,
        "shape": [2, 1],
        "type": "object",
        "id": "seven",
        "correlation": 0,
        "parameters": {"mode": "loud", "times": 3, "is_odd": True},
        "timeout": 2_000_000,
        "wanted": ["SEEN"],
        "inputs": ["TEXT"],
        "cancelled": False,
        "module": "1.model",
        "hint": None,
    }


def test_an_optional_input_is_there_or_not(client):
    asks, module = client
    hint = np.full((1, 1), 0.5, np.float32)
    for given, expected in (({}, None), ({"HINT": hint}, [[0.5]])):
        answer = asks.infer("teller", tensors(module, TEXT=words("a"), **given))
        seen = json.loads(answer.as_numpy("SEEN")[0, 0])
        assert (seen["hint"], len(seen["inputs"])) == (expected, 1 + len(given))
    with pytest.raises(Exception, match="TEXT"):
        asks.infer("teller", tensors(module, HINT=hint))


def test_who_names_no_outputs_gets_those_that_there_are(client):
    asks, module = client
    answer = asks.infer("teller", tensors(module, TEXT=words("a")))
    assert "SEEN" in str(answer.get_response())
    assert answer.as_numpy("UNASKED") is None


def test_a_model_may_say_itself_what_it_takes(server):
    status, config = get(server.url, "/v2/models/completing/config")
    assert status == 200
    assert config["max_batch_size"] == 16
    assert config["dynamic_batching"]["preferred_batch_size"] == [16]
    assert [each["name"] for each in config["input"] + config["output"]] == ["X", "Y"]
    body = {"inputs": [{"name": "X", "datatype": "INT64", "shape": [2, 1], "data": [3, 4]}]}
    answer = post(server.url, "/v2/models/completing/infer", body)[2]
    assert answer["outputs"][0]["data"] == [6, 8]


def test_the_batch_that_was_cut_comes_as_a_list_of_requests_unpadded(server):
    def one(length):
        body = {
            "inputs": [
                {"name": "X", "datatype": "FP32", "shape": [1, length], "data": [0] * length}
            ]
        }
        answer = post(server.url, "/v2/models/gathering/infer", body)[2]
        return [output["data"][0] for output in answer["outputs"]]

    def some():
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(one, [1, 2, 3, 4]))
        assert [length for _, length in found] == [1, 2, 3, 4]
        return max(company for company, _ in found) > 1

    until(some, "requests that share a batch")


def test_a_request_is_handed_over_whole_or_refused(server):
    body = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [9, 1], "data": [0] * 9}]}
    status, _, answer = post(server.url, "/v2/models/gathering/infer", body)
    assert status == 400
    assert "9 rows is too large" in answer["error"]


# ---------------------------------------------------------------------- garbage and faults


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("type", 500, "output 'NUMBER' is int32 of shape (1, 1); expected FP32"),
        ("count", 500, "InferenceRequest(s) size is:1, and InferenceResponse(s) size is:0"),
        ("nothing", 500, "Expected a list in the execute return, found type '<class 'NoneType'>'"),
        ("junk", 500, "found type '<class 'str'>'"),
        ("none", 500, "gave a request no response"),
        ("raise", 500, "model 'unruly' raised RuntimeError: it was told to raise"),
        ("leave", 500, "model 'unruly' raised SystemExit: 4"),
        ("error INTERNAL", 500, "it said no"),
        ("error INVALID_ARG", 400, "it said no"),
        ("error NOT_FOUND", 404, "it said no"),
        ("error UNAVAILABLE", 503, "it said no"),
        ("error UNSUPPORTED", 501, "it said no"),
        ("exit", 500, "lost its process over this request: it ended with exit status 3"),
        ("hang", 500, "lost its process over this request: it did not answer in time"),
    ],
)
def test_what_a_model_does_wrong_is_said_and_the_next_request_is_answered(
    server, command, status, text
):
    parameters = {"timeout": 20_000_000}
    found, words = tell(server.url, command, parameters=parameters)
    assert (found, text in words) == (status, True), words
    found, outputs = tell(server.url, "good", parameters=parameters)
    assert (found, outputs["NUMBER"]) == (200, [0.0])


def test_what_is_odd_but_no_fault_passes(server):
    status, outputs = tell(server.url, "missing")
    assert (status, list(outputs)) == (200, ["PROCESS"])
    status, outputs = tell(server.url, "extra")
    assert (status, list(outputs)) == (200, ["NUMBER", "PROCESS"])
    status, text = tell(server.url, "missing", outputs=[{"name": "NUMBER"}])
    assert (status, text[-38:]) == (500, "output 'NUMBER' is missing; expected FP32"[-38:])
    status, outputs = tell(server.url, "flood 5000")
    assert (status, outputs["NUMBER"]) == (200, [0.0])
    assert "flood 4999" in server.log_text()


def test_not_a_number_is_a_number(client):
    asks, module = client
    answer = asks.infer(
        "unruly",
        tensors(module, COMMAND=words("nan")),
        outputs=[module.InferRequestedOutput("NUMBER")],
    )
    assert np.isnan(answer.as_numpy("NUMBER"))


def test_an_error_of_one_request_is_nobody_elses(server):
    """Whoever shares the run gets his answer, and each is counted for what it was."""
    before = metric(server.url, "nv_inference_request_failure", "unruly")

    def one(number):
        return tell(server.url, "error INVALID_ARG" if number % 4 == 0 else "good")[0]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(40)))
    assert found == [400 if number % 4 == 0 else 200 for number in range(40)]
    assert metric(server.url, "nv_inference_request_failure", "unruly") == before + 10


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "class TritonPythonModel:\n    def initialize(self, args):\n        {}['lost']",
            "KeyError: 'lost' (",
        ),
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("def (", "SyntaxError: invalid syntax (model.py, line 1)"),
        ("x = 1", "AttributeError: module '1.model' has no attribute 'TritonPythonModel'"),
        ("import os\nos._exit(9)", "it ended with exit status 9"),
        (
            "class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(config):\n"
            "        config.add_input({'name': 'X', 'dims': [1]})\n        return config",
            "is missing 'data_type' property",
        ),
        ("class TritonPythonModel: ...", "names no input"),
        ("import sys\nsys.exit(1)", "SystemExit: 1"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why_and_takes_nobody_along(tmp_path, code, reason):
    shutil.copytree(REPOSITORY / "twice", tmp_path / "twice")
    (tmp_path / "bad" / "1").mkdir(parents=True)
    (tmp_path / "bad" / "1" / "model.py").write_text(code)
    with serve(tmp_path, "--strict-readiness", "false") as server:
        states = post(server.url, "/v2/repository/index", b"")[2]
        by_name = {each["name"]: each for each in states}
        assert by_name["twice"]["state"] == "READY"
        assert by_name["bad"]["state"] == "UNAVAILABLE"
        assert reason in by_name["bad"]["reason"]


def test_an_environment_of_its_own_is_refused_in_words(tmp_path):
    shutil.copytree(REPOSITORY / "twice", tmp_path / "twice")
    with (tmp_path / "twice" / "config.pbtxt").open("a") as config:
        config.write('parameters { key: "EXECUTION_ENV_PATH" value { string_value: "x.tgz" } }\n')
    with serve(tmp_path, "--strict-readiness", "false") as server:
        (state,) = post(server.url, "/v2/repository/index", b"")[2]
        assert "EXECUTION_ENV_PATH" in state["reason"]


def test_loading_a_model_leaves_its_repository_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    shutil.copytree(REPOSITORY / "twice", tmp_path / "twice")
    before = sorted(path for path in tmp_path.rglob("*"))
    with serve(tmp_path) as server:
        (state,) = post(server.url, "/v2/repository/index", b"")[2]
        assert state["state"] == "READY"
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_an_unloaded_model_says_farewell(tmp_path):
    shutil.copytree(REPOSITORY / "add_sub", tmp_path / "add_sub")
    with serve(tmp_path, "--model-control-mode", "explicit", "--load-model", "*") as server:
        assert post(server.url, "/v2/repository/models/add_sub/unload", b"")[0] == 200
        until(lambda: server.log_text().count("cleaning up") == 2, "both processes' farewell")


# ---------------------------------------------------------------------- models that ask models


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("chain", [3, 4, 5, 6]),
        ("at once", [44, 52, 60, 68]),
        ("threads", [44, 52, 60, 68]),
    ],
)
def test_a_model_asks_others_of_the_same_server(server, how, expected):
    assert ask(server.url, how) == (200, expected)


def test_models_that_wait_for_each_other_leave_the_device_to_them(server):
    """More of them at once than the device holds runs: they would hold it against each other."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask(server.url, "chain", timeout=20_000_000), range(24)))
    assert found == [(200, [3, 4, 5, 6])] * 24


@pytest.mark.parametrize(
    ("how", "status", "text"),
    [
        ("nobody", 404, "Request for unknown model: 'nobody' is not found"),
        ("add_sub SUM", 400, "unexpected inference output 'SUM' for model 'add_sub'"),
        ("twice", 400, "is missing inputs ['X']"),
        ("counter", 400, "is missing inputs ['COUNT']"),
    ],
)
def test_what_is_wrong_with_an_inner_request_the_model_is_told(server, how, status, text):
    found, words = ask(server.url, how)
    assert (found, text in words) == (status, True), words


def test_a_killed_process_loses_no_inner_request_for_ever(server):
    with Wire(server.url) as wire:
        body = {
            "inputs": [{"name": "COMMAND", "datatype": "BYTES", "shape": [1, 1], "data": ["good"]}]
        }
        process = wire.ask("POST", "/v2/models/unruly/infer", body)[2]["outputs"][1]["data"][0]
        os.kill(process, 9)
        assert tell(server.url, "good")[0] == 200
    assert get(server.url, "/v2/health/ready")[0] == 200


# ---------------------------------------------------------------------- several answers


def stream(server, *counts, empty=False):
    """Numbers, errors and marks of the end, as a stream of Triton's client brings them."""
    found, done = [], threading.Semaphore(0)

    def take(result, error):
        if error is not None:
            found.append(str(error.message()))
        else:
            response = result.get_response()
            is_final = response.parameters["triton_final_response"].bool_param
            number = result.as_numpy("NUMBER")
            found.append((None if number is None else int(number[0]), is_final))
        done.release()

    with grpcclient.InferenceServerClient(server.grpc_place) as asks:
        asks.start_stream(take)
        for count in counts:
            asks.async_stream_infer(
                "counter",
                tensors(grpcclient, COUNT=np.array([count], np.int32)),
                enable_empty_final_response=empty,
            )
        asks.stop_stream()
    return found


def test_a_decoupled_model_answers_a_stream_as_often_as_it_likes(server):
    assert stream(server, 3) == [(0, False), (1, False), (2, False)]
    assert stream(server, 2, empty=True) == [(0, False), (1, False), (None, True)]
    assert stream(server, 0) == []
    assert stream(server, 2, 1) == [(0, False), (1, False), (0, False)]
    assert stream(server, -1) == [(0, False), "below zero"]


def test_a_decoupled_model_is_asked_by_a_stream_only(server):
    body = {"inputs": [{"name": "COUNT", "datatype": "INT32", "shape": [1], "data": [2]}]}
    status, _, answer = post(server.url, "/v2/models/counter/infer", body)
    assert (status, "ModelStreamInfer" in answer["error"]) == (501, True)
    with (
        grpcclient.InferenceServerClient(server.grpc_place) as asks,
        pytest.raises(Exception, match="ModelStreamInfer"),
    ):
        asks.infer("counter", tensors(grpcclient, COUNT=np.array([2], np.int32)))
