"""Settings, regions and restricted procedures over gRPC, without a network."""

import asyncio

import pytest
from tests.frontends.grpc.test_servicer import KEY, ask, infer, keyed, wish
from tests.frontends.puppets import PuppetService, echo_model
from tritonclient.grpc import service_pb2 as pb

from xirang.errors import Forbidden, InvalidRequest, Unauthorized
from xirang.frontends.extensions import Extensions
from xirang.frontends.grpc.servicer import Envelope, Servicer
from xirang.frontends.grpc.status import Code, status_of
from xirang.frontends.restricted import Restricted, restrictions
from xirang.frontends.v2.shared_memory import AlreadyRegistered, Regions, UnknownRegion

SOMETHING = object()
"""In the place of a repository, where operators have no port apart."""


@pytest.fixture
def service():
    return PuppetService(echo_model(version="3"))


def traced(model="", **settings):
    request = pb.TraceSettingRequest(model_name=model)
    for name, values in settings.items():
        request.settings[name].value.extend(values)
    return request


def logged(**settings):
    request = pb.LogSettingsRequest()
    for name, value in settings.items():
        field = {bool: "bool_param", int: "uint32_param"}.get(type(value), "string_param")
        setattr(request.settings[name], field, value)
    return request


def test_settings_are_told_and_turned(service):
    servicer = Servicer(service, None, SOMETHING)
    told = ask(servicer, "TraceSetting").settings
    assert {name: list(each.value) for name, each in told.items()} == {
        "trace_level": ["OFF"],
        "trace_rate": ["1000"],
        "trace_count": ["-1"],
        "log_frequency": ["0"],
        "trace_file": [""],
        "trace_mode": ["opentelemetry"],
    }
    own = ask(servicer, "TraceSetting", traced("echo", trace_rate=["7"])).settings
    assert list(own["trace_rate"].value) == ["7"]
    assert list(ask(servicer, "TraceSetting").settings["trace_rate"].value) == ["1000"]
    cleared = ask(servicer, "TraceSetting", traced("echo", trace_rate=[])).settings
    assert list(cleared["trace_rate"].value) == ["1000"]
    told = ask(servicer, "LogSettings", logged(log_format="ISO8601")).settings
    assert told["log_format"].string_param == "ISO8601"
    assert told["log_info"].bool_param
    assert told["log_verbose_level"].uint32_param == 0


@pytest.mark.parametrize(
    ("name", "request_of", "words"),
    [
        ("TraceSetting", traced("nope"), "Request for unknown model : nope"),
        ("TraceSetting", traced(trace_rate=["x"]), "Unable to parse 'trace_rate', got: x"),
        ("TraceSetting", traced(trace_rate=["1", "2"]), "expect only 1 value for 'trace_rate'"),
        ("TraceSetting", traced(zz=["1"]), "unknown trace setting 'zz'"),
        ("LogSettings", logged(log_info="x"), "expect boolean for 'log_info'"),
        ("LogSettings", logged(log_format="q"), "invalid argument for log_format, got: q"),
        ("LogSettings", logged(zzz=1), "unknown log setting 'zzz'"),
    ],
)
def test_wrong_settings_are_refused(service, name, request_of, words):
    with pytest.raises(InvalidRequest) as caught:
        ask(Servicer(service, None, SOMETHING), name, request_of)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "request_of"),
    [("TraceSetting", traced(trace_rate=["7"])), ("LogSettings", logged(log_info=True))],
)
def test_settings_are_turned_by_operators(service, name, request_of):
    with pytest.raises(Forbidden, match="at the port for operators"):
        ask(Servicer(service), name, request_of)
    guest = keyed(service, SOMETHING)
    with pytest.raises(Unauthorized):
        ask(guest, name)
    ask(guest, name, x_api_key=KEY)
    with pytest.raises(Forbidden, match="may not manage the server"):
        ask(guest, name, request_of, x_api_key=KEY)
    ask(keyed(service, SOMETHING, admin=True), name, request_of, x_api_key=KEY)


def test_a_region_comes_and_goes(service, tmp_path):
    (tmp_path / "object").write_bytes(bytes(16))
    extensions = Extensions(Regions(is_allowed=True, folder=tmp_path), shares_memory=True)
    servicer = Servicer(service, extensions=extensions)
    assert "system_shared_memory" in ask(servicer, "ServerMetadata").extensions
    register = pb.SystemSharedMemoryRegisterRequest(name="r", key="/object", offset=4, byte_size=8)
    ask(servicer, "SystemSharedMemoryRegister", register)
    (told,) = ask(servicer, "SystemSharedMemoryStatus").regions.values()
    assert (told.name, told.key, told.offset, told.byte_size) == ("r", "/object", 4, 8)
    with pytest.raises(AlreadyRegistered) as caught:
        ask(servicer, "SystemSharedMemoryRegister", register)
    assert status_of(caught.value).code is Code.ALREADY_EXISTS
    one = pb.SystemSharedMemoryUnregisterRequest(name="r")
    ask(servicer, "SystemSharedMemoryUnregister", one)
    status = pb.SystemSharedMemoryStatusRequest(name="r")
    with pytest.raises(UnknownRegion):
        ask(servicer, "SystemSharedMemoryStatus", status)


def test_a_restricted_procedure_needs_its_header(service):
    checks = restrictions(["inference,health,model-repository:k=v"], "s", is_grpc=True)
    servicer = Servicer(service, None, SOMETHING, extensions=Extensions(grpc_checks=checks))
    for name in ("ServerLive", "ModelReady", "RepositoryIndex", "RepositoryModelUnload"):
        with pytest.raises(Restricted, match="expecting header 'triton-grpc-protocol-k'") as caught:
            ask(servicer, name)
        status = status_of(caught.value)
        assert (status.code, status.pushback_ms) == (Code.UNAVAILABLE, None)
    assert ask(servicer, "ServerLive", triton_grpc_protocol_k=b"v").live
    ask(servicer, "ServerMetadata")
    (refused,), _ = infer(servicer)
    assert refused.code is Code.UNAVAILABLE
    replies, ticket = infer(servicer, wish(), Envelope({b"triton-grpc-protocol-k": b"v"}))
    assert ticket is not None
    service.answer()
    assert isinstance(replies[0], bytes)
    with pytest.raises(Restricted):
        asyncio.run(servicer.health(b"", Envelope()))
