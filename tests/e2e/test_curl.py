"""What people type first: curl."""

import json
import subprocess

import pytest

from xirang.repository.minilm import NAME

pytestmark = pytest.mark.e2e


def curl(*arguments):
    """Status and body."""
    command = ["curl", "-sS", "--max-time", "30", "-w", "\n%{http_code}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def curl_json(url, document):
    data = document if isinstance(document, str) else json.dumps(document)
    status, body = curl(url, "-H", "Content-Type: application/json", "-d", data)
    return status, json.loads(body)


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/v2/models/mlp/ready"])
def test_health(house, path):
    status, body = curl(house.url + path)
    assert status == 200
    assert json.loads(body)[path.rpartition("/")[2]] is True
    assert curl("-I", house.url + path)[0] == 200


def test_an_inference(house):
    tensor = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 16], "data": list(range(16))}
    inputs = [tensor, tensor | {"name": "INPUT1", "data": [[1] * 16]}]
    status, answer = curl_json(house.url + "/v2/models/add_sub/infer", {"inputs": inputs})
    assert status == 200
    assert answer["outputs"][0] == {
        "name": "OUTPUT0",
        "datatype": "INT32",
        "shape": [1, 16],
        "data": [number + 1 for number in range(16)],
    }


def test_an_embedding(house):
    body = {"model": NAME, "input": "The answer to everything"}
    status, answer = curl_json(house.url + "/v1/embeddings", body)
    assert (status, len(answer["data"][0]["embedding"])) == (200, 384)


def test_bad_json_is_a_400_with_an_error(house):
    status, answer = curl_json(house.url + "/v2/models/mlp/infer", "{this is no JSON")
    assert status == 400
    assert "failed to parse the request JSON" in answer["error"]
    status, answer = curl_json(house.url + "/v1/embeddings", "{this is no JSON")
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


def test_what_is_not_there_is_a_404_and_a_wrong_verb_a_405(house):
    assert curl(house.url + "/v2/nothing")[0] == 404
    assert curl_json(house.url + "/v2/models/none/infer", {"inputs": []})[0] == 404
    assert curl(house.url + "/v2/models/mlp/infer")[0] == 405


def test_metrics_and_statistics(house):
    status, text = curl(house.url + "/metrics")
    assert status == 200
    assert 'nv_inference_request_success{model="mlp",version="1"}' in text
    assert json.loads(curl(house.url + "/v2/models/stats")[1])["model_stats"]


def test_a_large_body_with_expect_continue(house):
    data = [0.5] * (64 * 128)
    tensor = {"name": "x", "datatype": "FP32", "shape": [128, 64], "data": data}
    body = json.dumps({"inputs": [tensor]})
    status, answer = curl(
        house.url + "/v2/models/mlp/infer", "-H", "Expect: 100-continue", "-d", body
    )
    assert (status, json.loads(answer)["outputs"][0]["shape"]) == (200, [128, 10])
