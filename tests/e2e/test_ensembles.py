"""Models made of models, behind a real server: Triton's ensembles, and a pipeline in a model.py."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc as grpcclient
from tests.support import models
from tests.support.wire import get, post, until

from xirang.lab.server import ServerProcess
from xirang.repository import minilm

pytestmark = pytest.mark.e2e

REPOSITORY = Path(__file__).parents[1] / "data" / "python_repository"

BEFORE = '''
"""Numbers in words to a row of 64 for the network."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()[:, 0]
            rows = np.array([text.split() for text in texts], np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("ROW", rows)]))
        return responses
'''

AFTER = '''
"""The network's row to words."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            rows = pb_utils.get_input_tensor_by_name(request, "ROW").as_numpy()
            best = np.array([[f"class {row.argmax()}"] for row in rows], np.object_)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("WORD", best)]))
        return responses
'''

EMBEDDER = '''
"""A text to its embedding: tokens here, the transformer by asking its model, pooling here."""

import numpy as np
import triton_python_backend_utils as pb_utils
from pathlib import Path
from tokenizers import Tokenizer


class TritonPythonModel:
    def initialize(self, args):
        folder = Path(args["model_repository"]) / args["model_version"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def execute(self, requests):
        return [self.embedded(request) for request in requests]

    def embedded(self, request):
        (text,) = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy()
        ids = np.array([self.tokenizer.encode(text.decode()).ids], np.int64)
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": ids * 0}
        response = pb_utils.InferenceRequest(
            model_name="transformer",
            requested_output_names=["last_hidden_state"],
            inputs=[pb_utils.Tensor(name, array) for name, array in arrays.items()],
        ).exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        hidden = pb_utils.get_output_tensor_by_name(response, "last_hidden_state").as_numpy()
        mean = hidden[0].mean(axis=0)
        vector = pb_utils.Tensor("VECTOR", mean / np.linalg.norm(mean))
        return pb_utils.InferenceResponse([vector])
'''


def tensor(sort, name, kind, dims):
    return f'{sort} {{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] }}\n'


NUMBERS = range(200, 400)
"""Those that the steps like."""


def put(root, name, code, config, *, file="model.py"):
    folder = root / name / "1"
    folder.mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(config)
    if code:
        (folder / file).write_text(code)
    return folder


def step(model, taken, given):
    maps = f'input_map {{ key: "{taken[0]}" value: "{taken[1]}" }} '
    maps += f'output_map {{ key: "{given[0]}" value: "{given[1]}" }}'
    return f'step {{ model_name: "{model}" model_version: -1 {maps} }}\n'


def classifier(root):
    """Words → python → ONNX → python → words."""
    batch = "max_batch_size: 8\n"
    row, text = tensor("output", "ROW", "FP32", 64), tensor("input", "TEXT", "STRING", 1)
    put(root, "before", BEFORE, 'backend: "python"\n' + batch + text + row)
    (root / "network" / "1").mkdir(parents=True)
    models.mlp(root / "network" / "1" / "model.onnx")
    (root / "network" / "config.pbtxt").write_text(batch)
    ten = onnxruntime.InferenceSession(str(root / "network" / "1" / "model.onnx")).get_outputs()[0]
    row, word = tensor("input", "ROW", "FP32", ten.shape[-1]), tensor("output", "WORD", "STRING", 1)
    put(root, "after", AFTER, 'backend: "python"\n' + batch + row + word)
    steps = step("before", ("TEXT", "TEXT"), ("ROW", "row"))
    steps += step("network", ("x", "row"), ("y", "logits"))
    steps += step("after", ("ROW", "logits"), ("WORD", "WORD"))
    config = 'platform: "ensemble"\n' + batch + text + word
    put(root, "classifier", "", config + f"ensemble_scheduling {{ {steps} }}\n")


def serve(root, *options):
    return ServerProcess(
        [], "--model-repository", str(root), "--learned", "off", "--grpc-port", "0", *options
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("repository")
    for name in ("add_sub", "twice", "ensemble"):
        shutil.copytree(REPOSITORY / name, root / name)
    classifier(root)
    return root


@pytest.fixture(scope="module")
def server(root):
    with serve(root) as server:
        yield server


def ask(url, one, other, **more):
    inputs = [
        {"name": name, "datatype": "FP32", "shape": [1, 4], "data": [value] * 4}
        for name, value in (("ONE", one), ("OTHER", other))
    ]
    status, _, answer = post(url, "/v2/models/ensemble/infer", {"inputs": inputs} | more)
    if status != 200:
        return status, answer["error"]
    return {each["name"]: each["data"][0] for each in answer["outputs"]}


def late(url):
    """What an ensemble says of whose budget is spent on the way, or would be; else nothing."""
    answer = ask(url, 1, 1, parameters={"timeout": 300_000})
    return answer[1] if isinstance(answer, tuple) and answer[0] in {429, 504} else ""


def counts(url, *names):
    """Rows, executions, successes and failures of each model."""
    found = []
    for name in names:
        (told,) = get(url, f"/v2/models/{name}/stats")[1]["model_stats"]
        kinds = told["inference_stats"]
        found.append(
            (
                told["inference_count"],
                told["execution_count"],
                kinds["success"]["count"],
                kinds["fail"]["count"],
            )
        )
    return found


def states(url):
    return {each["name"]: each for each in post(url, "/v2/repository/index", b"")[2]}


def test_an_ensemble_answers_as_its_steps_do(server):
    assert ask(server.url, 5, 3) == {"SUM": 16.0, "DIFFERENCE": 4.0, "HALF_SUM": 8.0}


def test_only_the_steps_that_are_needed_are_made(server):
    before = counts(server.url, "add_sub", "twice")
    wanted = {"outputs": [{"name": "HALF_SUM"}]}
    assert ask(server.url, 5, 3, **wanted) == {"HALF_SUM": 8.0}
    after = counts(server.url, "add_sub", "twice")
    assert (after[0][0] - before[0][0], after[1][0] - before[1][0]) == (1, 0)


def test_words_go_through_python_and_onnx_and_python(server, root):
    session = onnxruntime.InferenceSession(str(root / "network" / "1" / "model.onnx"))
    texts = [" ".join(str((seed * k) % 7 - 3) for k in range(64)) for seed in (1, 2, 3)]
    rows = np.array([text.split() for text in texts], np.float32)
    expected = [f"class {row.argmax()}" for row in session.run(["y"], {"x": rows})[0]]
    body = {"inputs": [{"name": "TEXT", "datatype": "BYTES", "shape": [3, 1], "data": texts}]}
    status, _, answer = post(server.url, "/v2/models/classifier/infer", body)
    assert (status, answer["outputs"][0]["data"]) == (200, expected)
    with grpcclient.InferenceServerClient(server.grpc_place) as asks:
        taken = grpcclient.InferInput("TEXT", [3, 1], "BYTES")
        taken.set_data_from_numpy(np.array([[text.encode()] for text in texts], object))
        given = asks.infer("classifier", [taken]).as_numpy("WORD")
    assert [word.decode() for word in given[:, 0]] == expected


def test_steps_of_different_requests_share_runs(server):
    def some():
        before = counts(server.url, "twice")[0]
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda n: ask(server.url, n, 1), NUMBERS))
        assert answers == [
            {"SUM": 2.0 * n + 2, "DIFFERENCE": 2.0 * n - 2, "HALF_SUM": n + 1.0} for n in NUMBERS
        ]
        after = counts(server.url, "twice")[0]
        assert after[0] - before[0] == 400
        return after[1] - before[1] < 400

    until(some, "steps that share a run")


def test_an_error_names_the_ensemble_and_the_model_and_is_counted(server):
    before = counts(server.url, "ensemble", "add_sub", "twice")
    status, text = ask(server.url, 99, 0)
    assert (status, text) == (400, "in ensemble 'ensemble', model 'twice': it does not like 99")
    after = counts(server.url, "ensemble", "add_sub", "twice")
    more = [tuple(np.subtract(*pair)) for pair in zip(after, before, strict=True)]
    assert more[0] == (0, 0, 0, 1)
    assert more[1] == (1, 1, 1, 0)


def test_an_ensemble_counts_as_triton_counts(server):
    before = counts(server.url, "ensemble", "add_sub", "twice")
    ask(server.url, 1, 2)
    after = counts(server.url, "ensemble", "add_sub", "twice")
    more = [tuple(np.subtract(*pair)) for pair in zip(after, before, strict=True)]
    assert more[:2] == [(1, 1, 1, 0)] * 2
    assert more[2][0] == 2
    (told,) = get(server.url, "/v2/models/ensemble/stats")[1]["model_stats"]
    assert [each["batch_size"] for each in told["batch_stats"]] == [1]


def test_what_is_left_of_the_budget_is_handed_on(server):
    """A step that waits behind a slow one has what remains, and is given up when that is spent."""
    slow = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1, 4], "data": [77] * 4}]}
    path = "/v2/models/twice/infer"
    with ThreadPoolExecutor(1) as pool:
        found, patient = "", slow | {"parameters": {"timeout": 20_000_000}}
        for _ in range(10):  # on a busy machine the slow one may have ended before the step came
            asked = pool.submit(post, server.url, path, patient)
            while not found and not asked.done():
                found = late(server.url)
            assert asked.result()[0] == 200
            if found:
                break
    assert "in ensemble 'ensemble', model 'twice': " in found


def test_a_wrong_request_is_refused_before_any_step(server):
    before = counts(server.url, "add_sub")
    body = {"inputs": [{"name": "ONE", "datatype": "FP32", "shape": [1, 4], "data": [0] * 4}]}
    status, _, answer = post(server.url, "/v2/models/ensemble/infer", body)
    assert (status, "OTHER" in answer["error"]) == (400, True)
    wide = [
        {"name": name, "datatype": "FP32", "shape": [9, 4], "data": [0] * 36}
        for name in ("ONE", "OTHER")
    ]
    status, _, answer = post(server.url, "/v2/models/ensemble/infer", {"inputs": wide})
    assert (status, "9 rows is too large" in answer["error"]) == (400, True)
    assert counts(server.url, "add_sub") == before


def test_metadata_and_configuration_are_those_of_an_ensemble(server):
    about = get(server.url, "/v2/models/ensemble")[1]
    assert about["platform"] == "ensemble"
    assert about["inputs"][0] == {"name": "ONE", "datatype": "FP32", "shape": [-1, 4]}
    config = get(server.url, "/v2/models/ensemble/config")[1]
    assert [each["model_name"] for each in config["ensemble_scheduling"]["step"]] == [
        "add_sub",
        "twice",
        "twice",
    ]
    assert config["instance_group"] == []
    assert "optimization" not in config


def test_an_ensemble_goes_and_comes_back_with_its_models(tmp_path):
    for name in ("add_sub", "twice", "ensemble"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    options = ("--model-control-mode", "explicit", "--load-model", "ensemble")
    with serve(tmp_path, *options) as server:
        url = server.url
        assert {name: each["state"] for name, each in states(url).items()} == dict.fromkeys(
            ("add_sub", "ensemble", "twice"), "READY"
        ), "who asks for an ensemble asks for its models"
        assert post(url, "/v2/repository/models/twice/unload", b"")[0] == 200
        until(lambda: states(url)["ensemble"]["state"] == "UNAVAILABLE", "the ensemble to go")
        assert states(url)["ensemble"]["reason"] == "unloaded"
        assert states(url)["add_sub"]["state"] == "READY"
        assert ask(url, 1, 1)[0] == 404
        assert post(url, "/v2/repository/models/twice/load", b"")[0] == 200
        assert states(url)["ensemble"]["state"] == "READY"
        assert ask(url, 1, 1)["SUM"] == 4.0
        config = json.dumps(
            {
                "backend": "python",
                "max_batch_size": 8,
                "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [5]}],
                "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [5]}],
            }
        )
        body = {"parameters": {"config": config}}
        assert post(url, "/v2/repository/models/twice/load", body)[0] == 200
        until(lambda: "inconsistent shape" in states(url)["ensemble"].get("reason", ""), "a reason")
        assert states(url)["ensemble"]["state"] == "UNAVAILABLE"
        assert post(url, "/v2/repository/models/twice/load", b"")[0] == 200
        until(lambda: states(url)["ensemble"]["state"] == "READY", "the ensemble to come back")


def test_a_server_that_leaves_finishes_what_its_ensembles_have_begun(tmp_path):
    for name in ("add_sub", "twice", "ensemble"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    with serve(tmp_path) as server:
        until(lambda: get(server.url, "/v2/health/ready")[0] == 200, "the server")
        more = {"parameters": {"timeout": 20_000_000}}
        with ThreadPoolExecutor(1) as pool:
            before = counts(server.url, "add_sub")[0][0]
            asked = pool.submit(ask, server.url, 77, 0, **more)
            until(lambda: counts(server.url, "add_sub")[0][0] > before, "the first step")
            assert server.stop() == 0
            assert asked.result()["SUM"] == 154.0


def test_a_pipeline_in_a_model_file_embeds_texts(tmp_path):
    minilm.prepare(tmp_path / "shelf")
    found = next(path for path in (tmp_path / "shelf").rglob("model.onnx"))
    transformer = tmp_path / "repository" / "transformer" / "1"
    transformer.mkdir(parents=True)
    shutil.copy(found, transformer / "model.onnx")
    (transformer.parent / "config.pbtxt").write_text("")
    text = 'input { name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }\n'
    vector = 'output { name: "VECTOR" data_type: TYPE_FP32 dims: [ 384 ] }\n'
    config = 'backend: "python"\n' + text + vector
    folder = put(tmp_path / "repository", "embedder", EMBEDDER, config)
    shutil.copy(found.parent / "tokenizer.json", folder / "tokenizer.json")
    with ServerProcess(
        [tmp_path / "shelf"], "--model-repository", str(tmp_path / "repository"), "--learned", "off"
    ) as server:
        for words in ("a drawer", "the quick brown fox jumps over the lazy dog"):
            text = {"name": "TEXT", "datatype": "BYTES", "shape": [1], "data": [words]}
            _, _, answer = post(server.url, "/v2/models/embedder/infer", {"inputs": [text]})
            asked = {"model": minilm.NAME, "input": words}
            _, _, told = post(server.url, "/v1/embeddings", asked)
            np.testing.assert_allclose(
                answer["outputs"][0]["data"], told["data"][0]["embedding"], atol=2e-3
            )
