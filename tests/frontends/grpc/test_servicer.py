"""The services from bytes to bytes, with a puppet behind them and no transport before them."""

import asyncio
import contextlib
import hashlib

import numpy as np
import pytest
from grpc_health.v1 import health_pb2
from tests.frontends.grpc.calls import wish
from tests.frontends.puppets import PuppetModel, PuppetService, answer_of, echo_model, spec
from tritonclient.grpc import service_pb2 as pb

from xirang.errors import (
    Cancelled,
    Expired,
    Forbidden,
    InvalidRequest,
    ModelFailed,
    NotReady,
    TooBusy,
    Unauthorized,
    UnknownModel,
)
from xirang.frontends.grpc.servicer import INFER_PATH, SERVICE_PATH, STREAM_PATH, Envelope, Servicer
from xirang.frontends.grpc.status import Code, NotServed, Status, status_of
from xirang.frontends.grpc.stream import streams_of
from xirang.frontends.keys import Grant, Keys
from xirang.tensors.tensor import to_array

KEY = b"not-much-of-a-secret"


@pytest.fixture
def service():
    slow = PuppetModel("slow", (spec("x", "INT8", 4),), (), is_ready=False)
    return PuppetService(echo_model(version="3"), slow)


@pytest.fixture
def servicer(service):
    return Servicer(service)


def keyed(service, repository=None, **grant):
    digest = hashlib.sha256(KEY).hexdigest()
    return Servicer(service, Keys({"shop": Grant(digest, name="shop", **grant)}), repository)


def ask(servicer, name, request=None, **headers):
    """Ask one of the cold procedures as a client would."""
    message = (request or getattr(pb, f"{name}Request")()).SerializeToString()
    envelope = Envelope({k.replace("_", "-").encode(): v for k, v in headers.items()})
    answer = asyncio.run(servicer.unary[SERVICE_PATH + name](message, envelope))
    return getattr(pb, f"{name}Response").FromString(answer)


def check(servicer, message=b""):
    """Ask for gRPC's own health."""
    return asyncio.run(servicer.unary["/grpc.health.v1.Health/Check"](message, Envelope()))


def infer(servicer, message=None, envelope=None):
    """The list that will hold the one reply, and the ticket."""
    replies = []
    message = wish() if message is None else message
    encoded = message if isinstance(message, bytes) else message.SerializeToString()
    ticket = servicer.infer(encoded, envelope or Envelope(), replies.append)
    return replies, ticket


def refused(servicer, message=None, envelope=None):
    (status,), ticket = infer(servicer, message, envelope)
    assert ticket is None
    return status


def test_health_and_readiness(service, servicer):
    assert ask(servicer, "ServerLive").live
    assert not ask(servicer, "ServerReady").ready
    service.models["slow"].is_ready = True
    assert ask(servicer, "ServerReady").ready
    for name in ("", "inference.GRPCInferenceService", "anything"):
        request = health_pb2.HealthCheckRequest(service=name).SerializeToString()
        assert check(servicer, request) == b"\x08\x01"
    service.is_up = False
    assert check(servicer) == b"\x08\x02", "as the genuine server says it"


@pytest.mark.parametrize(
    ("name", "version", "is_ready"),
    [
        ("echo", "", True),
        ("echo", "3", True),
        ("echo", "-1", True),
        ("echo", "9", False),
        ("slow", "", False),
        ("nope", "", False),
    ],
)
def test_a_models_readiness(servicer, name, version, is_ready):
    request = pb.ModelReadyRequest(name=name, version=version)
    assert ask(servicer, "ModelReady", request).ready is is_ready


def test_metadata_configuration_statistics_and_index(service, servicer):
    service.models["echo"].config = {
        "name": "echo",
        "max_batch_size": 8,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}],
        "dynamic_batching": {"max_queue_delay_microseconds": 5},
        "xirang": {"lengths": [16, 64], "verdict": "exact", "length_max": None},
        "new_in_the_next_release": 1,
    }
    server = ask(servicer, "ServerMetadata")
    assert server.name == "xirang"
    assert "statistics" in server.extensions
    model = ask(servicer, "ModelMetadata", pb.ModelMetadataRequest(name="echo"))
    assert (model.name, list(model.versions), model.platform) == ("echo", ["3"], "python")
    assert [(t.name, t.datatype, list(t.shape)) for t in model.inputs] == [("x", "FP32", [-1, -1])]
    config = ask(servicer, "ModelConfig", pb.ModelConfigRequest(name="echo")).config
    assert (config.max_batch_size, list(config.input[0].dims)) == (8, [-1])
    assert config.WhichOneof("scheduling_choice") == "dynamic_batching"
    own = {name: value.string_value for name, value in config.parameters.items()}
    assert own == {"xirang.lengths": "[16,64]", "xirang.verdict": "exact"}
    assert len(ask(servicer, "ModelStatistics").model_stats) == 2
    statistics = ask(servicer, "ModelStatistics", pb.ModelStatisticsRequest(name="slow"))
    assert [each.name for each in statistics.model_stats] == ["slow"]
    index = ask(servicer, "RepositoryIndex")
    assert [(m.name, m.version, m.state) for m in index.models] == [
        ("echo", "3", "READY"),
        ("slow", "1", "UNAVAILABLE"),
    ]
    ready = ask(servicer, "RepositoryIndex", pb.RepositoryIndexRequest(ready=True))
    assert [m.name for m in ready.models] == ["echo"]


def test_regions_are_none_and_unregistering_them_is_done(servicer):
    for kind in ("System", "Cuda"):
        assert not ask(servicer, f"{kind}SharedMemoryStatus").regions
        ask(servicer, f"{kind}SharedMemoryUnregister")


REFUSALS = [
    ("ModelReady", {"name": "echo", "version": "x"}, Code.INVALID_ARGUMENT, "version string 'x'"),
    ("ModelMetadata", {"name": "nope"}, Code.NOT_FOUND, "unknown model: 'nope' is not found"),
    ("ModelMetadata", {"name": "echo", "version": "9"}, Code.NOT_FOUND, "'echo' version 9 is not"),
    ("ModelConfig", {"name": "nope"}, Code.NOT_FOUND, "unknown model: 'nope' is not found"),
    ("ModelStatistics", {"name": "nope"}, Code.INVALID_ARGUMENT, "requested model 'nope' is not"),
    ("SystemSharedMemoryStatus", {"name": "r"}, Code.NOT_FOUND, "system shared memory region: 'r'"),
    ("SystemSharedMemoryRegister", {"name": "r"}, Code.UNIMPLEMENTED, "the server takes none"),
    ("CudaSharedMemoryStatus", {"name": "r"}, Code.NOT_FOUND, "cuda shared memory region: 'r'"),
    ("CudaSharedMemoryRegister", {}, Code.INVALID_ARGUMENT, "GPUs not supported"),
    ("TraceSetting", {"model_name": "r"}, Code.INVALID_ARGUMENT, "for unknown model : r"),
]


@pytest.mark.parametrize(("name", "members", "code", "text"), REFUSALS)
def test_what_is_wrong_is_told(servicer, name, members, code, text):
    request = getattr(pb, f"{name}Request")(**members)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the status says which
        ask(servicer, name, request)
    status = status_of(caught.value)
    assert status.code is code
    assert text in status.text
    assert status.pushback_ms is None


def test_bytes_that_are_no_message_are_refused(servicer):
    with pytest.raises(InvalidRequest, match="not a ModelReadyRequest"):
        asyncio.run(servicer.unary[f"{SERVICE_PATH}ModelReady"](b"\xff", Envelope()))
    status = refused(servicer, b"\xff\xff")
    assert status.code is Code.INVALID_ARGUMENT
    assert "not a ModelInferRequest" in status.text


def test_infer_answers_when_the_engine_does(service, servicer):
    replies, _ = infer(servicer, wish("q"))
    assert not replies
    service.answer()
    response = pb.ModelInferResponse.FromString(replies[0])
    assert (response.model_name, response.model_version, response.id) == ("echo", "3", "q")
    assert response.raw_output_contents == [b"\0\0\x80?\0\0\0@"]
    assert not response.parameters


def test_infer_may_be_answered_at_once(service, servicer):
    service.is_prompt = True
    assert len(infer(servicer)[0]) == 1


@pytest.mark.parametrize(
    ("error", "code", "pushback_ms"),
    [
        (InvalidRequest("w"), Code.INVALID_ARGUMENT, None),
        (UnknownModel("w"), Code.NOT_FOUND, None),
        (Cancelled("w"), Code.CANCELLED, None),
        (TooBusy("w", retry_after_ns=1_500_000), Code.UNAVAILABLE, 2),
        (TooBusy("w"), Code.UNAVAILABLE, 1000),
        (NotReady("w"), Code.UNAVAILABLE, 1000),
        (Expired("w"), Code.DEADLINE_EXCEEDED, None),
        (ModelFailed("w"), Code.INTERNAL, None),
        (Unauthorized("w"), Code.UNAUTHENTICATED, None),
        (Forbidden("w"), Code.PERMISSION_DENIED, None),
    ],
)
def test_each_error_has_its_code(service, servicer, error, code, pushback_ms):
    replies, _ = infer(servicer)
    service.answer(error)
    service.refusal = error
    assert [*replies, refused(servicer)] == [Status(code, "w", pushback_ms)] * 2


def test_a_fault_of_ours_is_not_shown(service, servicer, caplog):
    service.refusal = ZeroDivisionError("secret")
    status = refused(servicer)
    assert status.code is Code.INTERNAL
    assert "secret" not in status.text
    assert "secret" in caplog.text


def test_an_answer_that_cannot_be_sent_fails_alone(service, servicer):
    replies, _ = infer(servicer)
    service.answer(answer_of({"y": np.zeros(1, np.complex64)}))
    assert replies[0].code is Code.INTERNAL


@pytest.mark.parametrize(
    ("headers", "timeout_us", "left_ns", "budget_ns"),
    [
        ({}, 0, None, None),
        ({}, 1000, None, 1_000_000),
        ({}, 1000, 500, 500),
        ({}, 0, 500, 500),
        ({}, 0, -3, 0),
        ({b"x-request-timeout-ms": b"2"}, 0, None, 2_000_000),
        ({b"x-request-timeout-ms": b"2"}, 1000, 5_000_000, 1_000_000),
    ],
)
def test_of_all_budgets_the_tightest_counts(
    service, servicer, headers, timeout_us, left_ns, budget_ns
):
    infer(servicer, wish(timeout=timeout_us), Envelope(headers, time_left_ns=left_ns))
    assert service.calls[0].budget_ns == budget_ns


def test_a_header_that_is_no_number_is_refused(servicer):
    status = refused(servicer, None, Envelope({b"x-request-timeout-ms": b"soon"}))
    assert status.code is Code.INVALID_ARGUMENT


def test_priority_and_client(service, servicer):
    infer(servicer, wish(priority=1), Envelope(connection=7))
    infer(servicer, wish(), Envelope({b"x-request-priority": b"3", b"x-session-id": b"a"}))
    first, second = service.calls
    assert (first.priority, first.client) == (1, 7)
    assert (second.priority, second.client) == (3, 3904355907)


def test_a_key_is_needed_where_the_server_asks_for_keys(service):
    servicer = keyed(service, models=frozenset({"echo"}), priority=2)
    assert ask(servicer, "ServerLive").live
    assert check(servicer)
    with pytest.raises(Unauthorized):
        ask(servicer, "ServerMetadata")
    with pytest.raises(Unauthorized):
        ask(servicer, "ServerMetadata", x_api_key=b"wrong")
    assert ask(servicer, "ServerMetadata", x_api_key=KEY).name
    assert ask(servicer, "ServerMetadata", authorization=b"Bearer " + KEY).name
    assert refused(servicer).code is Code.UNAUTHENTICATED
    mine = Envelope({b"authorization": b"Bearer " + KEY})
    assert refused(servicer, wish(model="slow"), mine).code is Code.PERMISSION_DENIED
    infer(servicer, wish(priority=1), mine)
    (call,) = service.calls
    assert (call.priority, call.tenant) == (2, "shop")


def test_those_who_ask_are_told_where_the_time_went(service, servicer):
    message = wish()
    message.parameters["xirang_timing"].bool_param = True
    replies, _ = infer(servicer, message)
    service.answer()
    told = pb.ModelInferResponse.FromString(replies[0]).parameters
    assert {"receive_ms", "queue_ms", "run_ms", "budget_ms"} <= told.keys()
    assert told["budget_ms"].double_param == 10_000


def test_versions_are_asked_for_by_number(service, servicer):
    infer(servicer, wish(version="3"))
    assert service.calls[0].version == "3"
    assert refused(servicer, wish(version="9")).code is Code.NOT_FOUND
    assert refused(servicer, wish(version="x")).code is Code.INVALID_ARGUMENT


class PuppetRepository:
    def __init__(self):
        self.done = []
        self.refusal = None

    async def load(self, name, parameters):
        if self.refusal is not None:
            raise self.refusal
        self.done.append(("load", name, parameters))

    async def unload(self, name):
        self.done.append(("unload", name))


def manage(servicer, verb, request=None, **headers):
    name = f"RepositoryModel{verb}"
    message = (request or getattr(pb, f"{name}Request")(model_name="m")).SerializeToString()
    envelope = Envelope({k.replace("_", "-").encode(): v for k, v in headers.items()})
    assert asyncio.run(servicer.unary[SERVICE_PATH + name](message, envelope)) == b""


def test_models_are_loaded_and_unloaded(service):
    repository = PuppetRepository()
    servicer = Servicer(service, repository=repository)
    request = pb.RepositoryModelLoadRequest(model_name="m")
    request.parameters["config"].string_param = "{}"
    request.parameters["file:1/model.onnx"].bytes_param = b"\xff"
    request.parameters["unload_dependents"].bool_param = True
    manage(servicer, "Load", request)
    manage(servicer, "Unload")
    assert repository.done == [
        ("load", "m", {"config": "{}", "file:1/model.onnx": b"\xff"}),
        ("unload", "m"),
    ]
    request.parameters["config"].bytes_param = b"{}"
    with pytest.raises(InvalidRequest, match="'config', expected string_param"):
        manage(servicer, "Load", request)
    repository.refusal = NotReady("explicit model load / unload is not allowed")
    with pytest.raises(NotReady):
        manage(servicer, "Load")
    elsewhere = pb.RepositoryModelUnloadRequest(model_name="m", repository_name="r")
    with pytest.raises(NotServed, match="'repository_name' specification is not supported"):
        manage(servicer, "Unload", elsewhere)


def test_only_those_who_may_manage_and_only_where_that_is_done(service, servicer):
    with pytest.raises(Forbidden, match="port for operators"):
        manage(servicer, "Load")
    for admin in (False, True):
        repository = PuppetRepository()
        guarded = keyed(service, repository, admin=admin)
        with pytest.raises(Unauthorized):
            manage(guarded, "Unload")
        with contextlib.nullcontext() if admin else pytest.raises(Forbidden):
            manage(guarded, "Unload", x_api_key=KEY)
        assert bool(repository.done) is admin


def test_all_requests_together_have_a_bound(service):
    size_bytes = len(wish().SerializeToString())
    servicer = Servicer(service, memory_bytes_max=2 * size_bytes)
    (_, first), (replies, _) = infer(servicer), infer(servicer)
    status = refused(servicer)
    assert (status.code, status.pushback_ms) == (Code.UNAVAILABLE, 1000)
    assert "too many bytes" in status.text
    first.cancel()
    first.cancel()
    service.calls.popleft()
    infer(servicer)
    assert refused(servicer).code is Code.UNAVAILABLE
    service.answer()
    assert len(replies) == 1
    service.refusal = TooBusy("full")
    assert refused(servicer).text == "full"
    service.refusal = None
    infer(servicer)
    assert len(service.calls) == 2


def test_every_procedure_has_a_path(servicer):
    paths = {*servicer.unary, *streams_of(servicer), INFER_PATH}
    rpcs = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    assert {SERVICE_PATH + name for name in rpcs} <= paths
    assert STREAM_PATH in paths


def test_inputs_reach_the_engine_as_they_are(service, servicer):
    infer(servicer)
    assert to_array(service.calls[0].inputs["x"]).tolist() == [[1.0, 2.0]]
