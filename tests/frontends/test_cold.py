"""The ASGI application, called in process: goldens of every URL that is not hot."""

import asyncio
from types import SimpleNamespace

import orjson
import pytest
from tests.frontends.puppets import PuppetModel, PuppetService, PuppetText, spec

from xirang.frontends.cold import BODY_BYTES_MAX, cold_app

MODEL = PuppetModel(
    "echo",
    (spec("x", "FP32", None, 16),),
    (spec("y", "INT64", None, "length"),),
    version="3",
    platform="onnxruntime_onnx",
    config={"name": "echo", "max_batch_size": 8},
)
METADATA = (
    b'{"name":"echo","versions":["3"],"platform":"onnxruntime_onnx",'
    b'"inputs":[{"name":"x","datatype":"FP32","shape":[-1,16]}],'
    b'"outputs":[{"name":"y","datatype":"INT64","shape":[-1,-1]}]}'
)
UNKNOWN = b'{"error":"Request for unknown model: \'nope\' is not found"}'
UNKNOWN_VERSION = b'{"error":"Request for unknown model: \'echo\' version 9 is not found"}'
NOT_AVAILABLE = b'{"error":"requested model \'nope\' is not available"}'
NOT_READY = b'{"error":"Model version not ready"}'
NOT_FOUND = b'{"error":"Not Found"}'
NOT_ALLOWED = b'{"error":"Method Not Allowed"}'
INDEX = b'[{"name":"echo","version":"3","state":"READY"}'
INDEX_ALL = INDEX + b',{"name":"slow","version":"1","state":"UNAVAILABLE"}]'
STATS = b'{"model_stats":[{"name":"echo","version":"1"}]}'
CARD = b'{"id":"org/text","object":"model","created":0,"owned_by":"xirang"}'


@pytest.fixture
def service():
    return PuppetService(MODEL, PuppetModel("slow", (), (), is_ready=False))


@pytest.fixture
def ask(service):
    app = cold_app(service, {"org/text": PuppetText()})

    def call(verb, path, body=b""):
        return asyncio.run(exchange(app, verb, path, body))

    return call


async def exchange(app, verb, path, body=b""):
    """One request through an ASGI application."""
    scope = {
        "type": "http",
        "method": verb,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"x=1",
        "headers": [],
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return SimpleNamespace(
        status=sent[0]["status"],
        headers={name.decode(): value.decode() for name, value in sent[0]["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )


GOLDENS = [
    ("GET", "/v2/health/live", b"", 200, b""),
    ("HEAD", "/v2/health/live", b"", 200, b""),
    ("GET", "/v2/health/ready", b"", 400, b""),
    ("POST", "/v2/health/ready", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models/echo", b"", 200, METADATA),
    ("GET", "/v2/models/echo/versions/3", b"", 200, METADATA),
    ("GET", "/v2/models/echo/versions/9", b"", 404, UNKNOWN_VERSION),
    ("GET", "/v2/models/echo/versions/x", b"", 404, NOT_FOUND),
    ("GET", "/v2/models/nope", b"", 404, UNKNOWN),
    ("POST", "/v2/models/echo", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models/echo/ready", b"", 200, b""),
    ("GET", "/v2/models/echo/versions/3/ready", b"", 200, b""),
    ("GET", "/v2/models/echo/versions/9/ready", b"", 400, NOT_READY),
    ("GET", "/v2/models/slow/ready", b"", 400, NOT_READY),
    ("GET", "/v2/models/nope/ready", b"", 400, NOT_READY),
    ("GET", "/v2/models/echo/config", b"", 200, b'{"name":"echo","max_batch_size":8}'),
    ("GET", "/v2/models/nope/config", b"", 404, UNKNOWN),
    ("GET", "/v2/models/echo/stats", b"", 200, STATS),
    ("GET", "/v2/models/echo/versions/3/stats", b"", 200, STATS),
    ("GET", "/v2/models/nope/stats", b"", 400, NOT_AVAILABLE),
    ("GET", "/v2/models/echo/infer", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models/echo/versions/3/infer", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models", b"", 404, NOT_FOUND),
    ("POST", "/v2/repository/index", b"", 200, INDEX_ALL),
    ("POST", "/v2/repository/index", b"{}", 200, INDEX_ALL),
    ("POST", "/v2/repository/index", b'{"ready":false}', 200, INDEX_ALL),
    ("POST", "/v2/repository/index", b'{"ready":true}', 200, INDEX + b"]"),
    ("GET", "/v2/repository/index", b"", 405, NOT_ALLOWED),
    ("GET", "/v1/models", b"", 200, b'{"object":"list","data":[' + CARD + b"]}"),
    ("GET", "/v1/models/org/text", b"", 200, CARD),
    ("GET", "/v1/embeddings", b"", 405, NOT_ALLOWED),
    ("GET", "/health", b"", 404, NOT_FOUND),
    ("GET", "/v2/nowhere", b"", 404, NOT_FOUND),
    ("OPTIONS", "/v2", b"", 405, NOT_ALLOWED),
]


@pytest.mark.parametrize(("verb", "path", "body", "status", "expected"), GOLDENS)
def test_answer(ask, verb, path, body, status, expected):
    response = ask(verb, path, body)
    assert response.status == status
    assert response.body == expected
    if status == 405:
        assert "allow" in response.headers
    if expected:
        assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/v2", "/v2/"])
def test_server_tells_only_what_works(ask, path):
    found = orjson.loads(ask("GET", path).body)
    assert found["name"] == "xirang"
    assert found["extensions"] == [
        "binary_tensor_data",
        "model_configuration",
        "statistics",
        "parameters",
        "schedule_policy",
    ]


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"x"', b'{"ready":1}', b'{"ready":null}', b"x" * (BODY_BYTES_MAX + 1)]
)
def test_index_refuses_what_it_cannot_read(ask, body):
    response = ask("POST", "/v2/repository/index", body)
    assert response.status == (413 if len(body) > BODY_BYTES_MAX else 400)
    assert orjson.loads(response.body)["error"]


def test_health_follows_the_service(ask, service):
    service.models.pop("slow")
    assert ask("GET", "/v2/health/ready").status == 200
    service.is_up = False
    assert ask("GET", "/v2/health/ready").status == 400
    assert ask("GET", "/v2/health/live").status == 400


def test_metrics_are_prometheus_text(ask):
    response = ask("GET", "/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"xirang_requests_total 3\n" in response.body


def test_front_page_names_the_endpoints(ask):
    assert b"/v2/models/{model}/infer" in ask("GET", "/").body


def test_all_statistics(ask):
    found = orjson.loads(ask("GET", "/v2/models/stats").body)
    assert [each["name"] for each in found["model_stats"]] == ["echo", "slow"]


def test_unknown_model_in_openai_form(ask):
    response = ask("GET", "/v1/models/nope")
    assert response.status == 404
    assert orjson.loads(response.body)["error"]["code"] == "model_not_found"
    assert response.headers["content-type"] == "application/json"


def test_fault_of_ours_is_not_told(service):
    app = cold_app(service, {})
    service.metrics_text = lambda: 1 / 0
    told = []

    async def run():
        try:
            await collect(app, told)
        except ZeroDivisionError:
            told.append("raised on, for the server to log")

    asyncio.run(run())
    assert told[0]["status"] == 500
    assert told[1]["body"].startswith(b'{"error":"internal error')
    assert told[2] == "raised on, for the server to log"


async def collect(app, told):
    scope = {"type": "http", "method": "GET", "path": "/metrics", "root_path": "", "headers": []}

    async def send(message):
        told.append(message)

    await app(scope, None, send)
