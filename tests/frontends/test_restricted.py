"""Restricted APIs: which there are, and who gets in."""

from types import SimpleNamespace

import pytest

from xirang.errors import InvalidSetting
from xirang.frontends.grpc.inference import RPCS
from xirang.frontends.restricted import (
    APIS,
    Restricted,
    api_of_path,
    api_of_rpc,
    guarded,
    restrictions,
)


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v2", "metadata"),
        ("/v2/", "metadata"),
        ("/v2/models/m", "metadata"),
        ("/v2/models/m/versions/3", "metadata"),
        ("/v2/health/live", "health"),
        ("/v2/health/ready", "health"),
        ("/v2/models/m/ready", "health"),
        ("/health", "health"),
        ("/ping", "health"),
        ("/tei/m/health", "health"),
        ("/info", "metadata"),
        ("/tei/m/info", "metadata"),
        ("/v2/models/m/versions/3/ready", "health"),
        ("/v2/models/m/config", "model-config"),
        ("/v2/models/stats", "statistics"),
        ("/v2/models/m/stats", "statistics"),
        ("/v2/xirang/costs", "statistics"),
        ("/v2/xirang/memory", "statistics"),
        ("/v2/models/m/infer", "inference"),
        ("/v2/models/m/versions/3/generate_stream", "inference"),
        ("/v2/repository/index", "model-repository"),
        ("/v2/repository/models/m/load", "model-repository"),
        ("/v2/systemsharedmemory/region/r/register", "shared-memory"),
        ("/v2/cudasharedmemory/status", "shared-memory"),
        ("/v2/trace/setting", "trace"),
        ("/v2/models/m/trace/setting", "trace"),
        ("/v2/logging", "logging"),
        ("/metrics", ""),
        ("/", ""),
        ("/dashboard", ""),
    ],
)
def test_the_api_of_a_path(path, api):
    assert api_of_path(path) == api


def test_every_procedure_belongs_to_an_api():
    assert {api_of_rpc(rpc.name) for rpc in RPCS} == APIS
    assert api_of_rpc("HealthCheck") == "health"
    assert api_of_rpc("ServerReflectionInfo") == ""


def test_a_rule_is_for_each_of_its_apis():
    checks = restrictions(["health,metadata:k=v", "inference:L=w"], "s")
    assert checks.keys() == {"health", "metadata", "inference"}
    checks["health"]({b"k": b"v"})
    checks["inference"]({b"l": b"w"})
    for headers in ({}, {b"k": b"w"}, {b"k": b""}, {b"l": b"v"}):
        with pytest.raises(Restricted, match="This API is restricted, expecting header 'k'"):
            checks["metadata"](headers)


def test_a_rule_may_have_been_cut_at_its_commas():
    assert restrictions(["health", "metadata:k=v"], "s").keys() == {"health", "metadata"}


def test_over_grpc_the_header_has_a_prefix():
    check = restrictions(["inference:k=v"], "s", is_grpc=True)["inference"]
    check({b"triton-grpc-protocol-k": b"v"})
    with pytest.raises(Restricted, match="protocol is restricted, expecting header 'triton-grpc"):
        check({b"k": b"v"})


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (["health"], "expected API:HEADER=VALUE"),
        (["health:k"], "expected API:HEADER=VALUE"),
        (["health:=v"], "expected API:HEADER=VALUE"),
        (["health:k="], "expected API:HEADER=VALUE"),
        (["foo:k=v"], "names 'foo'"),
        (["health:k=v", "health:l=w"], "restricts 'health' twice"),
    ],
)
def test_a_wrong_rule_is_refused(rules, words):
    with pytest.raises(InvalidSetting, match=words):
        restrictions(rules, "s")


def test_hot_routes_are_guarded_only_if_that_is_wished():
    def match(url):
        return seen.append if url == b"/hot" else None

    bringing, lacking = (SimpleNamespace(headers=h) for h in ({b"k": b"v"}, {}))
    seen = []
    assert guarded(match, None) is match
    find = guarded(match, restrictions(["inference:k=v"], "s")["inference"])
    assert find(b"/cold") is None
    with pytest.raises(Restricted):
        find(b"/hot")(lacking)
    find(b"/hot")(bringing)
    assert seen == [bringing]
