"""Triton's own HTTP client against a real server, held against ONNX Runtime alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.http as triton
from tests.support.wire import Wire, words
from tritonclient.utils import InferenceServerException

from xirang.repository.minilm import NAME as MINILM
from xirang.tensors.tensor import of_array

pytestmark = pytest.mark.e2e


@pytest.fixture
def client(house):
    with triton.InferenceServerClient(house.place) as client:
        yield client


def inputs_of(arrays, *, is_binary=True):
    inputs = []
    for name, array in arrays.items():
        one = triton.InferInput(name, array.shape, of_array(array).datatype)
        one.set_data_from_numpy(array, binary_data=is_binary)
        inputs.append(one)
    return inputs


def floats(rows, *, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 64)).astype(np.float32)


def token_ids(count, *, seed):
    ids = np.random.default_rng(seed).integers(1000, 20_000, (1, count))
    return {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }


def test_it_is_live_and_ready(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("mlp")
    assert client.is_model_ready("mlp", "1")
    assert not client.is_model_ready("none")
    assert not client.is_model_ready("mlp", "2")


def test_it_tells_what_it_is_and_serves(client):
    server = client.get_server_metadata()
    assert server["name"] == "xirang"
    assert {"binary_tensor_data", "statistics"} <= set(server["extensions"])
    model = client.get_model_metadata("mlp")
    assert model == {
        "name": "mlp",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}],
    }
    assert client.get_model_metadata("shout")["platform"] == "python"
    config = client.get_model_config("masked_double")
    assert (config["max_batch_size"], config["xirang"]["can_pad"]) == (128, True)
    index = client.get_model_repository_index()
    assert {entry["name"] for entry in index} >= {"mlp", "add_sub", MINILM, "shout", "hold"}
    assert {entry["state"] for entry in index} == {"READY"}


@pytest.mark.parametrize("is_binary", [True, False], ids=["binary", "JSON"])
@pytest.mark.parametrize("rows", [1, 3, 128, 300])
def test_answers_are_the_models_own(house, client, rows, is_binary):
    x = floats(rows, seed=rows)
    outputs = [triton.InferRequestedOutput("y", binary_data=is_binary)]
    result = client.infer("mlp", inputs_of({"x": x}, is_binary=is_binary), outputs=outputs)
    assert result.as_numpy("y").shape == (rows, 10)
    assert np.abs(result.as_numpy("y") - house.alone("mlp", x=x)["y"]).max() <= 1e-5


def test_integers_are_exact_and_the_id_comes_back(client):
    a, b = (np.full((1, 16), value, np.int32) for value in (2**30, 5))
    result = client.infer("add_sub", inputs_of({"INPUT0": a, "INPUT1": b}), request_id="seven")
    assert result.as_numpy("OUTPUT0").tolist() == (a + b).tolist()
    assert result.as_numpy("OUTPUT1").tolist() == (a - b).tolist()
    response = result.get_response()
    assert (response["id"], response["model_name"], response["model_version"]) == (
        "seven",
        "add_sub",
        "1",
    )


def test_only_the_outputs_asked_for_come(client):
    ones = np.ones((1, 16), np.int32)
    outputs = [triton.InferRequestedOutput("OUTPUT1")]
    result = client.infer("add_sub", inputs_of({"INPUT0": ones, "INPUT1": ones}), outputs=outputs)
    assert [output["name"] for output in result.get_response()["outputs"]] == ["OUTPUT1"]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_bodies_may_be_compressed_both_ways(house, client, algorithm):
    x = floats(20)
    result = client.infer(
        "mlp",
        inputs_of({"x": x}),
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert np.abs(result.as_numpy("y") - house.alone("mlp", x=x)["y"]).max() <= 1e-5


@pytest.mark.parametrize("is_binary", [True, False], ids=["binary", "JSON"])
@pytest.mark.parametrize(
    ("model", "shape", "names"),
    [("shout", (2,), ("input", "output")), ("same_words", (2, 1), "st")],
)
def test_words_go_through_python_and_onnx(client, model, shape, names, is_binary):
    given = np.array(["straße", "息壤"], object).reshape(shape)
    outputs = [triton.InferRequestedOutput(names[1], binary_data=is_binary)]
    result = client.infer(model, inputs_of({names[0]: given}, is_binary=is_binary), outputs=outputs)
    got = [w if isinstance(w, str) else w.decode() for w in result.as_numpy(names[1]).ravel()]
    assert got == (["STRASSE", "息壤"] if model == "shout" else ["straße", "息壤"])


def test_requests_of_many_lengths_at_once_each_get_their_own_rows(house):
    """They share padded runs; integers show any row or column that went astray."""

    def ask(number):
        rng = np.random.default_rng(number)
        ids = rng.integers(1, 100, (int(rng.integers(1, 4)), int(rng.integers(1, 60))))
        inputs = {"ids": ids, "attention_mask": np.ones_like(ids)}
        with triton.InferenceServerClient(house.place) as client:
            for _ in range(8):
                result = client.infer("masked_double", inputs_of(inputs))
                assert result.as_numpy("doubled").tolist() == (ids * 2).tolist()
                assert result.as_numpy("total").tolist() == ids.sum(1, keepdims=True).tolist()

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(ask, range(24)))


def test_a_real_model_answers_padded_runs_as_it_would_alone(house):
    def ask(number):
        inputs = token_ids(3 + 7 * number, seed=number)
        with triton.InferenceServerClient(house.place) as client:
            result = client.infer(MINILM, inputs_of(inputs))
        hidden = house.alone(MINILM, **inputs)["last_hidden_state"]
        assert np.abs(result.as_numpy("last_hidden_state") - hidden).max() <= 1e-5
        expected = house.embedding(inputs["input_ids"][0])
        assert np.abs(result.as_numpy("embedding")[0] - expected).max() <= 1e-5

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(16)))


def test_statistics_count_what_was_asked(client):
    def counts():
        (entry,) = client.get_inference_statistics("add_sub")["model_stats"]
        return entry["inference_count"], entry["inference_stats"]["success"]["count"]

    rows, successes = counts()
    ones = np.ones((5, 16), np.int32)
    client.infer("add_sub", inputs_of({"INPUT0": ones, "INPUT1": ones}))
    assert counts() == (rows + 5, successes + 1)
    everybody = client.get_inference_statistics()["model_stats"]
    assert {entry["name"] for entry in everybody} >= {"mlp", "hold"}


def test_a_timeout_is_answered_while_the_model_is_busy(house, client, hold):
    with Wire(house.url) as holder:
        holder.send("POST", "/v2/models/hold/infer", words(hold.text))
        hold.until_running()
        given = np.array(["late"], object)
        with pytest.raises(InferenceServerException, match="Request timeout expired") as caught:
            client.infer("hold", inputs_of({"input": given}), timeout=50_000)
        assert caught.value.status() == "504"
        hold.release()
        assert holder.receive()[0] == 200


WRONG = {
    "unknown model": ("none", {"x": floats(1)}, "404", "unknown model: 'none' is not found"),
    "unknown input": ("mlp", {"z": floats(1)}, "400", "missing inputs"),
    "missing input": ("add_sub", {"INPUT0": np.ones((1, 16), np.int32)}, "400", "INPUT1"),
    "another datatype": ("mlp", {"x": np.ones((1, 64))}, "400", "datatype FP64; expected FP32"),
    "another shape": ("mlp", {"x": np.ones((1, 63), np.float32)}, "400", "expected [-1, 64]"),
    "too long": (MINILM, token_ids(513, seed=0), "400", "expected at most 512"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_told_what_is_wrong(client, case):
    model, arrays, status, part = WRONG[case]
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, inputs_of(arrays))
    assert caught.value.status() == status
    assert part in caught.value.message()


def test_an_unknown_version_or_output_is_told(client):
    inputs = inputs_of({"x": floats(1)})
    with pytest.raises(InferenceServerException, match="version 9 is not found"):
        client.infer("mlp", inputs, model_version="9")
    with pytest.raises(InferenceServerException, match="unexpected inference output 'z'"):
        client.infer("mlp", inputs, outputs=[triton.InferRequestedOutput("z")])
