"""Model repositories of a real server: every way to manage them, on real files."""

import base64
import json
import threading

import pytest
from tests.support.repositories import bytes_of, put
from tests.support.wire import Wire, get, post, until

from xirang.lab.replay import verify
from xirang.lab.server import ServerFailed, ServerProcess
from xirang.observe.recording import Recording

pytestmark = pytest.mark.e2e

QUICK = ("--learned", "off", "--warmup-s", "0")
REQUEST = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [0]}]}
POLL_S = "0.05"


def serve(root, mode, *options):
    return ServerProcess(
        [], "--model-repository", str(root), "--model-control-mode", mode, *QUICK, *options
    )


def infer(url, name="m", version=None):
    """Status, and what the model answered with which version, or its error."""
    where = f"/v2/models/{name}" + (f"/versions/{version}" if version else "")
    status, _, body = post(url, f"{where}/infer", REQUEST)
    if status != 200:
        return status, body["error"]
    return body["model_version"], body["outputs"][0]["data"]


def index(url, body=b""):
    return post(url, "/v2/repository/index", body)[2]


def load(url, name="m", **parameters):
    body = {"parameters": parameters} if parameters else b""
    status, _, answer = post(url, f"/v2/repository/models/{name}/load", body)
    return status, answer


def unload(url, name="m"):
    return post(url, f"/v2/repository/models/{name}/unload", b"")[0]


def test_a_repository_is_served_as_triton_would(tmp_path):
    put(tmp_path, "m", 1, number=1, config="version_policy { all { } } max_batch_size: 8")
    put(tmp_path, "m", 3, number=3)
    put(tmp_path, "auto", number=7)
    put(tmp_path, "bad", config="max_batch_size: 4\nfoo: 1")
    with serve(tmp_path, "none") as server:
        url = server.url
        assert index(url)[0] == {"name": "auto", "version": "1", "state": "READY"}
        assert index(url)[1] == {
            "name": "bad",
            "state": "UNAVAILABLE",
            "reason": 'bad/config.pbtxt: 2:1: Message type "inference.ModelConfig" has no field '
            'named "foo".',
        }
        ready = index(url, b'{"ready":true}')
        assert [each["name"] for each in ready] == ["auto", "m", "m"]
        assert get(url, "/v2/health/ready")[0] == 400
        assert get(url, "/v2/health/live")[0] == 200
        assert get(url, "/v2/models/m/ready")[0] == 200
        assert infer(url) == ("3", [3])
        assert infer(url, version=1) == ("1", [1])
        assert infer(url, version=2) == (
            404,
            "Request for unknown model: 'm' version 2 is not found",
        )
        assert get(url, "/v2/models/m")[1]["versions"] == ["1", "3"]
        assert get(url, "/v2/models/m/versions/1")[1]["versions"] == ["1"]
        for path, versions in (("m", ["1", "3"]), ("m/versions/3", ["3"])):
            told = get(url, f"/v2/models/{path}/stats")[1]["model_stats"]
            assert [each["version"] for each in told] == versions
        config = get(url, "/v2/models/auto/config")[1]
        assert (config["max_batch_size"], config["backend"]) == (4, "onnxruntime")
        status, answer = load(url)
        assert status == 503
        assert answer["error"] == (
            "explicit model load / unload is not allowed if polling is enabled"
        )


def test_an_unready_model_may_be_overlooked(tmp_path):
    put(tmp_path, "bad", config="foo: 1")
    with serve(tmp_path, "none", "--strict-readiness", "false") as server:
        assert get(server.url, "/v2/health/ready")[0] == 200


def test_clients_load_replace_and_unload(tmp_path):
    put(tmp_path, "m", number=1)
    with serve(tmp_path, "explicit") as server:
        url = server.url
        assert index(url) == [{"name": "m"}]
        assert infer(url)[0] == 404
        assert load(url) == (200, b"")
        assert infer(url) == ("1", [1])
        config = json.dumps({"backend": "onnxruntime", "max_batch_size": 2})
        sent = base64.b64encode(bytes_of(9, tmp_path)).decode()
        assert load(url, **{"config": config, "file:5/model.onnx": sent})[0] == 200
        assert infer(url) == ("5", [9])
        for path in ("../../x", "/etc/x"):
            status, answer = load(url, **{"config": config, f"file:{path}": sent})
            assert (status, "no path of a file" in answer["error"]) == (400, True)
        assert load(url, "nosuch")[0] == 404
        assert unload(url) == 200
        status, error = infer(url)
        assert (status, error) == (404, "Request for unknown model: 'm' has no available versions")
        until(lambda: index(url)[0].get("reason") == "unloaded", "the farewell")
        assert get(url, "/v2/models/m/ready")[0] == 400
        assert get(url, "/v2/health/ready")[0] == 200
        assert load(url) == (200, b"")
        assert infer(url) == ("1", [1])


def test_changed_files_are_taken_up(tmp_path):
    put(tmp_path, "m", number=1)
    with serve(tmp_path, "poll", "--repository-poll-s", POLL_S) as server:
        url = server.url
        assert infer(url) == ("1", [1])
        file = put(tmp_path, "m", number=2)
        until(lambda: infer(url) == ("1", [2]), "the changed file")
        put(tmp_path, "m", 4, number=4)
        until(lambda: infer(url) == ("4", [4]), "the new version")
        file.parent.parent.rename(tmp_path / ".gone")
        until(lambda: infer(url)[0] == 404, "the model to go")
        assert index(url) in ([], [{"name": "m", "version": "4", "state": "UNLOADING"}])


def test_a_half_written_file_is_never_served(tmp_path):
    put(tmp_path, "m", number=1)
    whole = bytes_of(2, tmp_path.parent)
    file = tmp_path / "m" / "1" / "model.onnx"
    clock = threading.Event()
    with serve(tmp_path, "poll", "--repository-poll-s", POLL_S) as server:
        with file.open("wb", buffering=0) as slow:
            for byte in whole:
                slow.write(bytes([byte]))
                clock.wait(0.002)
                if byte % 16 == 0:
                    assert infer(server.url) == ("1", [1])
        until(lambda: infer(server.url) == ("1", [2]), "the finished file")


class Client(threading.Thread):
    """Asks again and again until it is told to stop."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.seen = []
        self.is_over = threading.Event()

    def run(self):
        with Wire(self.url) as wire:
            while not self.is_over.is_set():
                status, _, body = wire.ask("POST", "/v2/models/m/infer", REQUEST)
                told = body.get("model_version"), *body.get("outputs", [{}])[0].get("data", [])
                self.seen.append((status, *told))


def test_a_model_is_replaced_under_load_and_no_request_is_lost(tmp_path):
    put(tmp_path, "m", 1, number=1)
    options = ("--instances", "2", "--record", str(tmp_path / ".ring"))
    with serve(tmp_path, "explicit", "--load-model", "m", *options) as server:
        clients = [Client(server.url) for _ in range(4)]
        for client in clients:
            client.start()
        for number in range(2, 8):
            put(tmp_path, "m", number // 2, number=number)  # a new version, or another file
            assert load(server.url)[0] == 200
            seen = [len(client.seen) for client in clients]
            until(
                lambda seen=seen: all(
                    len(c.seen) > before + 2 for c, before in zip(clients, seen, strict=True)
                ),
                "answers of the new one",
            )
        for client in clients:
            client.is_over.set()
        for client in clients:
            client.join()
        expected = {(200, str(max(1, number // 2)), number) for number in range(1, 8)}
        for client in clients:
            assert set(client.seen) <= expected
            numbers = [number for _, _, number in client.seen]
            assert numbers == sorted(numbers)  # nobody is sent back to an old one
            assert numbers[-1] == 7
        assert server.stop() == 0
    assert verify(Recording(tmp_path / ".ring")) is None  # replaced models replay as well


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "error: expected a PATH, or --model-repository"),
        (["--model-repository", "no/such"], "model repository no/such is no folder"),
        (
            ["--model-repository", ".", "--load-model", "x"],
            "load_model is given; expected model_control_mode explicit",
        ),
    ],
)
def test_what_cannot_work_is_told_at_the_start(options, message):
    with pytest.raises(ServerFailed, match="status 2") as raised:
        ServerProcess([], *options)
    assert message in str(raised.value)
