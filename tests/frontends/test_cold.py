"""The ASGI application, called in process: goldens of every URL that is not hot."""

import asyncio
import hashlib
from types import SimpleNamespace

import orjson
import pytest
from starlette.responses import Response
from starlette.routing import Route
from tests.frontends.puppets import PuppetModel, PuppetService, PuppetText, spec

from xirang.frontends.cold import admin_app, cold_app
from xirang.frontends.documents import BODY_BYTES_MAX
from xirang.frontends.extensions import EXTENSIONS
from xirang.frontends.keys import Grant, Keys

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
STATS = b'{"model_stats":[{"name":"echo","version":"3"}]}'


@pytest.fixture
def service():
    return PuppetService(MODEL, PuppetModel("slow", (), (), is_ready=False))


@pytest.fixture
def ask(service):
    app = cold_app(service, {"org/text": PuppetText()})

    def call(verb, path, body=b""):
        return asyncio.run(exchange(app, verb, path, body))

    return call


async def exchange(app, verb, path, body=b"", headers=()):
    """One request through an ASGI application."""
    scope = {
        "type": "http",
        "method": verb,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"x=1",
        "headers": list(headers),
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
    ("GET", "/v2/health/live", b"", 200, b'{"live":true}'),
    ("HEAD", "/v2/health/live", b"", 200, b'{"live":true}'),  # the server leaves the body out
    ("GET", "/v2/health/ready", b"", 400, b'{"ready":false}'),
    ("POST", "/v2/health/ready", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models/echo", b"", 200, METADATA),
    ("GET", "/v2/models/echo/versions/3", b"", 200, METADATA),
    ("GET", "/v2/models/echo/versions/9", b"", 404, UNKNOWN_VERSION),
    ("GET", "/v2/models/echo/versions/x", b"", 404, NOT_FOUND),
    ("GET", "/v2/models/nope", b"", 404, UNKNOWN),
    ("POST", "/v2/models/echo", b"", 405, NOT_ALLOWED),
    ("GET", "/v2/models/echo/ready", b"", 200, b'{"name":"echo","ready":true}'),
    ("GET", "/v2/models/echo/versions/3/ready", b"", 200, b'{"name":"echo","ready":true}'),
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
    ("GET", "/v1/embeddings", b"", 405, NOT_ALLOWED),
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
    assert found["extensions"] == list(EXTENSIONS)
    assert "system_shared_memory" not in EXTENSIONS


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


def test_metrics_are_openmetrics_to_who_asks_for_them(service):
    accept = (b"accept", b"application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    response = asyncio.run(exchange(cold_app(service, {}), "GET", "/metrics", b"", [accept]))
    assert response.headers["content-type"].startswith("application/openmetrics-text; version=1")
    assert response.body.endswith(b"# EOF\n")


def test_costs_are_told(ask):
    found = orjson.loads(ask("GET", "/v2/xirang/costs").body)
    assert [each["model"] for each in found["models"]] == ["echo", "slow"]


def test_front_page_names_the_endpoints(ask):
    assert b"/v2/models/{model}/infer" in ask("GET", "/").body


def test_all_statistics(ask):
    found = orjson.loads(ask("GET", "/v2/models/stats").body)
    assert [each["name"] for each in found["model_stats"]] == ["echo", "slow"]


def test_fault_of_ours_is_not_told(service):
    app = cold_app(service, {})
    service.metrics_text = lambda **_: 1 / 0
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


# ---------------------------------------------------------------------- keys


def keys_of(**grants):
    """Each holder's key is its own name."""
    return Keys(
        {
            name: Grant(hashlib.sha256(name.encode()).hexdigest(), name=name, admin=is_admin)
            for name, is_admin in grants.items()
        }
    )


async def _switch(_):
    return Response("switched")


MANAGING = (Route("/v2/switch/{name}", _switch, methods=["POST"]),)
KEYS = keys_of(client=False, boss=True)


def status(app, verb, path, key=None):
    headers = [] if key is None else [(b"authorization", b"Bearer " + key.encode())]
    return asyncio.run(exchange(app, verb, path, headers=headers)).status


@pytest.mark.parametrize("path", ["/", "/metrics", "/v2/health/live", "/v2/health/ready"])
def test_probes_and_scrapers_need_no_key(service, path):
    service.models.pop("slow")
    assert status(cold_app(service, {}, KEYS), "GET", path) == 200


@pytest.mark.parametrize("path", ["/v2", "/v2/models/echo", "/v1/models", "/v2/models/stats"])
def test_the_rest_does(service, path):
    app = cold_app(service, {}, KEYS)
    assert status(app, "GET", path) == 401
    assert status(app, "GET", path, "guess") == 401
    assert status(app, "GET", path, "client") == 200


@pytest.mark.parametrize(
    ("key", "expected"), [(None, 401), ("guess", 401), ("client", 403), ("boss", 200)]
)
@pytest.mark.parametrize("is_apart", [False, True])
def test_managing_needs_a_key_that_may(service, key, expected, is_apart):
    app = admin_app(service, KEYS, MANAGING) if is_apart else cold_app(service, {}, KEYS, MANAGING)
    assert status(app, "POST", "/v2/switch/x", key) == expected
    assert status(app, "GET", "/v2/switch/x", "boss") == 405


def test_without_keys_whoever_reaches_the_port_may_manage(service):
    assert status(admin_app(service, None, MANAGING), "POST", "/v2/switch/x") == 200
    assert status(cold_app(service, {}, None, MANAGING), "POST", "/v2/switch/x") == 200


def test_where_managing_has_a_port_apart_the_other_knows_nothing_of_it(service):
    assert status(cold_app(service, {}, KEYS), "POST", "/v2/switch/x", "boss") == 404


def test_the_port_for_operators_tells_how_the_server_is_and_infers_nothing(service):
    app = admin_app(service, None, MANAGING)
    for path in ("/metrics", "/v2/health/live", "/v2", "/v2/models/stats"):
        assert status(app, "GET", path) == 200
    for verb, path in (("GET", "/v1/models"), ("POST", "/v2/models/echo/infer")):
        assert status(app, verb, path) == 404


def test_operators_see_the_memory_pool(ask):
    found = orjson.loads(ask("GET", "/v2/xirang/memory").body)
    assert found == {"capacity_bytes": 8, "held_bytes": 3, "shares": []}
