"""Shared memory, tracing and logging over HTTP: who may do what, and the restricted APIs."""

import asyncio
import hashlib

import orjson
import pytest
from tests.frontends.puppets import PuppetModel, PuppetService
from tests.frontends.test_cold import exchange

from xirang.frontends.cold import admin_app, cold_app, metrics_app
from xirang.frontends.extensions import Extensions
from xirang.frontends.keys import Grant, Keys
from xirang.frontends.restricted import restrictions
from xirang.frontends.v2.operating import turning_routes
from xirang.frontends.v2.shared_memory import Regions

SYSTEM = "/v2/systemsharedmemory"


@pytest.fixture
def service():
    return PuppetService(PuppetModel("m", (), ()))


@pytest.fixture
def extensions(tmp_path):
    (tmp_path / "object").write_bytes(bytes(16))
    return Extensions(Regions(is_allowed=True, folder=tmp_path), shares_memory=True)


@pytest.fixture
def ask(service, extensions):
    app = cold_app(service, {}, None, turning_routes(service, extensions), extensions)

    def call(verb, path, body=None, headers=()):
        text = b"" if body is None else body if isinstance(body, bytes) else orjson.dumps(body)
        answer = asyncio.run(exchange(app, verb, path, text, headers))
        return answer.status, orjson.loads(answer.body) if answer.body else None

    return call


def test_a_region_comes_and_goes(ask, extensions):
    told = {"name": "r", "key": "/object", "offset": 4, "byte_size": 8}
    register = {"key": "/object", "offset": 4, "byte_size": 8}
    assert ask("POST", f"{SYSTEM}/region/r/register", register) == (200, None)
    assert ask("GET", f"{SYSTEM}/status") == (200, [told])
    assert ask("GET", f"{SYSTEM}/region/r/status") == (200, [told])
    assert ask("POST", f"{SYSTEM}/region/r/unregister") == (200, None)
    assert ask("GET", f"{SYSTEM}/status") == (200, [])
    ask("POST", f"{SYSTEM}/region/r/register", {"key": "/object", "byte_size": 8})
    assert ask("POST", f"{SYSTEM}/unregister") == (200, None)
    assert not extensions.regions.status()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "failed to parse"),
        (b"[]", "must be a JSON object"),
        ({"byte_size": 8}, "has no 'key' field"),
        ({"key": "/object"}, "has no 'byte_size' field"),
        ({"key": 5, "byte_size": 8}, "'key' must be a string"),
        ({"key": "/object", "byte_size": "8"}, "'byte_size' must be an unsigned integer"),
        ({"key": "/object", "offset": -1, "byte_size": 8}, "'offset' must be an unsigned integer"),
        ({"key": "/other", "byte_size": 8}, "Unable to open shared memory region: '/other'"),
    ],
)
def test_what_cannot_be_registered(ask, body, words):
    status, told = ask("POST", f"{SYSTEM}/region/r/register", body)
    assert status == 400
    assert words in told["error"]


def test_memory_of_gpus_is_not_shared(ask):
    assert ask("GET", "/v2/cudasharedmemory/status") == (200, [])
    assert ask("GET", "/v2/cudasharedmemory/region/r/status")[0] == 404
    assert ask("POST", "/v2/cudasharedmemory/unregister") == (200, None)
    assert ask("POST", "/v2/cudasharedmemory/region/r/unregister") == (200, None)
    status, told = ask("POST", "/v2/cudasharedmemory/region/r/register", {"raw_handle": {}})
    assert status == 400
    assert "GPUs not supported" in told["error"]


def test_settings_of_tracing(ask, extensions):
    assert ask("GET", "/v2/trace/setting")[1]["trace_rate"] == "1000"
    assert ask("POST", "/v2/trace/setting", {"trace_rate": "5"})[1]["trace_rate"] == "5"
    turned = ask("POST", "/v2/models/m/trace/setting", {"trace_rate": "7"})
    assert turned == ask("GET", "/v2/models/m/trace/setting")
    assert turned == ask("GET", "/v2/models/m/versions/1/trace/setting")
    assert extensions.dials.tracing("m").trace_rate == 7
    assert extensions.dials.tracing("n").trace_rate == 5
    for verb in ("GET", "POST"):
        assert ask(verb, "/v2/models/n/trace/setting", {}) == (
            400,
            {"error": "Request for unknown model : n"},
        )
    assert ask("POST", "/v2/trace/setting", {"trace_file": "/x"})[0] == 501
    assert ask("POST", "/v2/trace/setting", b"{")[0] == 400
    assert ask("PUT", "/v2/trace/setting")[0] == 405


def test_settings_of_the_log(ask, extensions):
    assert ask("GET", "/v2/logging")[1]["log_verbose_level"] == 0
    assert ask("POST", "/v2/logging", {"log_format": "ISO8601"})[1]["log_format"] == "ISO8601"
    assert extensions.dials.logging.log_format == "ISO8601"
    assert ask("POST", "/v2/logging", {"log_info": 1})[0] == 400


def test_what_operators_turn_needs_their_key_or_their_port(service, extensions):
    def key(name):
        return [(b"x-api-key", name)]

    grants = {
        name: Grant(hashlib.sha256(name.encode()).hexdigest(), admin=name == "boss")
        for name in ("boss", "guest")
    }
    keys, turning = Keys(grants), turning_routes(service, extensions)

    def status(app, verb, headers=()):
        return asyncio.run(exchange(app, verb, "/v2/logging", b"{}", headers)).status

    app = cold_app(service, {}, keys, turning, extensions)
    assert [status(app, "POST", key(name)) for name in (b"boss", b"guest", b"x")] == [200, 403, 401]
    assert status(app, "GET", key(b"guest")) == 200
    beside = cold_app(service, {}, None, (), extensions)
    assert (status(beside, "GET"), status(beside, "POST")) == (200, 405)
    assert status(admin_app(service, None, turning, extensions), "POST") == 200


def test_a_restricted_api_needs_its_header(service, extensions):
    extensions.http_checks = restrictions(["logging,health:k=v"], "s")
    app = cold_app(service, {}, None, turning_routes(service, extensions), extensions)

    def ask(path, *headers):
        return asyncio.run(exchange(app, "GET", path, b"", headers))

    refused = ask("/v2/logging")
    assert refused.status == 403
    assert orjson.loads(refused.body) == {"error": "This API is restricted, expecting header 'k'"}
    assert ask("/v2/health/ready", (b"k", b"w")).status == 403
    assert ask("/v2/health/ready", (b"k", b"v")).status == 200
    assert ask("/v2/logging", (b"k", b"v")).status == 200
    assert ask("/v2").status == 200


def test_a_port_for_metrics_has_nothing_else(service):
    app = metrics_app(service)
    assert asyncio.run(exchange(app, "GET", "/metrics")).status == 200
    assert asyncio.run(exchange(app, "GET", "/v2")).status == 404
    assert asyncio.run(exchange(app, "POST", "/metrics")).status == 405
