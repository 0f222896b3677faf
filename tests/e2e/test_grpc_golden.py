"""The genuine Triton server's answers to gRPC probes, held against ours."""

import json
from pathlib import Path

import grpc
import numpy as np
import pytest
from google.protobuf import text_format
from grpc_health.v1 import health_pb2
from tritonclient.grpc import service_pb2 as pb, service_pb2_grpc

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "triton_grpc.json").read_text())
MODELS = ("ident_fp32", "ident_bytes", "ident_bool", "ident_fp16", "fails")
ONE_TWO = np.array([1, 2], "<f4").tobytes()

ONLY_CODE = {
    "infer_dtype": "our words name both datatypes, too",
    "infer_short": "as over HTTP",
    "infer_shape": "ours is shorter",
    "infer_boom": "a traceback of the model is the server's log's, not the client's",
    "infer_fail": "as over HTTP",
    "infer_name": "ours say what was expected",
    "infer_wrongcontents": "ours say which field was expected",
    "p_prio_neg": "the same as for timeout",
    "p_timeout_str": "timeout may be unsigned, too",
    "deadline": "the words are the client's own",
}
"""Probes of which the code is the same and the text need not be, and why."""

DIFFERENT = {
    "infer_batch9": ("OK", "a request of more rows than a run may hold is cut and joined"),
    "ready": ("OK", "it had a model that failed"),
    "load_none": ("UNAVAILABLE", "this server has no repository"),
    "unload_none": ("UNAVAILABLE", "this server has no repository"),
    "trace": ("OK", "tracing goes to OpenTelemetry, and the order of a map is nobody's"),
    "log": ("OK", "the order of a map is nobody's"),
}
"""Probes that are answered otherwise on purpose, and why."""


@pytest.fixture(scope="module")
def stub():
    paths = [f"tests.e2e.grpc_models:{name}" for name in MODELS]
    paths += ["booms=tests.e2e.grpc_models:fails", "addsub=tests.e2e.grpc_models:ident_fp32"]
    with (
        ServerProcess(paths, "--grpc-port", "0", "--max-batch-size", "8") as server,
        grpc.insecure_channel(server.grpc_place) as channel,
    ):
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def wish(model="ident_fp32", datatype="FP32", shape=(1, 2), raw=ONE_TWO, **more):
    message = pb.ModelInferRequest(model_name=model, id=more.get("id", ""))
    message.model_version = more.get("version", "")
    tensor = message.inputs.add(name=more.get("name", "INPUT0"), datatype=datatype, shape=shape)
    for field, values in more.get("contents", {}).items():
        getattr(tensor.contents, field).extend(values)
    if raw is not None:
        message.raw_input_contents.append(raw)
    for name, value in more.get("parameters", {}).items():
        choice = {bool: "bool_param", int: "int64_param", str: "string_param"}.get(type(value))
        setattr(message.parameters[name], choice or "double_param", value)
    for name, value in more.get("outputs", {}).items():
        output = message.outputs.add(name=name)
        if value is not None:
            output.parameters["classification"].int64_param = value
    return message


INFER = {
    "infer_ok": wish(id="z"),
    "infer_contents": wish(raw=None, contents={"fp32_contents": [1, 2]}),
    "infer_noname": wish(""),
    "infer_v9": wish(version="9"),
    "infer_vx": wish(version="x"),
    "infer_name": wish(name="X"),
    "infer_wrongcontents": wish(raw=None, contents={"int_contents": [1, 2]}),
    "infer_class": wish(outputs={"OUTPUT0": 2}),
    "p_prio_neg": wish(parameters={"priority": -1}),
    "p_timeout_str": wish(parameters={"timeout": "1"}),
    "fp16_contents": wish("ident_fp16", "FP16", raw=np.array([1, 2], "<f2").tobytes()),
    "infer_both": wish(contents={"fp32_contents": [1, 2]}),
    "infer_none": wish("nope"),
    "infer_dtype": wish(datatype="INT32"),
    "infer_short": wish(raw=ONE_TWO[:4]),
    "infer_nodata": wish(raw=None),
    "infer_shape": wish(shape=(2,)),
    "infer_batch9": wish(shape=(9, 1), raw=ONE_TWO[:4] * 9),
    "infer_out": wish(outputs={"NOPE": None}),
    "infer_class0": wish(outputs={"OUTPUT0": 0}),
    "infer_fail": wish("fails"),
    "infer_boom": wish("booms"),
    "p_prio_str": wish(parameters={"priority": "1"}),
    "p_triton": wish(parameters={"triton_x": 1}),
    "p_custom": wish(parameters={"foo": 1.5}),
    "p_bdo": wish(parameters={"binary_data_output": True}),
    "bytes_contents": wish(
        "ident_bytes", "BYTES", raw=None, contents={"bytes_contents": [b"a", b"\xff"]}
    ),
    "u8_contents": wish("ident_bool", "BOOL", raw=None, contents={"bool_contents": [True, False]}),
}

COLD = {
    "live": ("ServerLive", {}),
    "ready": ("ServerReady", {}),
    "stats_none": ("ModelStatistics", {"name": "nope"}),
    "load_none": ("RepositoryModelLoad", {"model_name": "nope"}),
    "unload_none": ("RepositoryModelUnload", {"model_name": "nope"}),
    "trace": ("TraceSetting", {}),
    "mready": ("ModelReady", {"name": "addsub"}),
    "mready_none": ("ModelReady", {"name": "nope"}),
    "mready_badver": ("ModelReady", {"name": "addsub", "version": "x"}),
    "mmeta_none": ("ModelMetadata", {"name": "nope"}),
    "mmeta_v9": ("ModelMetadata", {"name": "addsub", "version": "9"}),
    "cfg_none": ("ModelConfig", {"name": "nope"}),
    "log": ("LogSettings", {}),
}

STREAMS = {
    "stream_ok": [wish(id="1"), wish(id="2")],
    "stream_err": [wish("nope", id="1"), wish(id="2")],
    "stream_final": [wish(id="1", parameters={"triton_enable_empty_final_response": True})],
}


def answered(call):
    """Code and text, as the probes recorded them."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", text_format.MessageToString(answer, as_one_line=True)


def hold_against(name, code, text):
    golden = GOLDEN[name]
    if name in DIFFERENT:
        assert code == DIFFERENT[name][0]
        return
    assert code == golden["code"]
    if name not in ONLY_CODE:
        # What C++ calls its functions is no part of the answer; ours may say more behind it.
        assert text.startswith(golden["body"].replace(" (details: stol)", ""))


@pytest.mark.parametrize("name", INFER)
def test_infer(stub, name):
    hold_against(name, *answered(lambda: stub.ModelInfer(INFER[name])))


@pytest.mark.parametrize("name", COLD)
def test_what_is_asked_seldom(stub, name):
    rpc, members = COLD[name]
    request = getattr(pb, f"{rpc}Request")(**members)
    hold_against(name, *answered(lambda: getattr(stub, rpc)(request)))


@pytest.mark.parametrize("name", STREAMS)
def test_streams(stub, name):
    texts = [
        text_format.MessageToString(answer, as_one_line=True)
        for answer in stub.ModelStreamInfer(iter(STREAMS[name]))
    ]
    assert sorted(texts) == sorted(GOLDEN[name]["body"])


def test_health_is_the_same_message():
    assert GOLDEN["health"] == {"code": "OK", "body": "0802"}, "it had a model that failed"
    kind = health_pb2.HealthCheckResponse
    assert kind.FromString(bytes.fromhex("0802")).status == kind.NOT_SERVING


def test_every_probe_is_replayed():
    elsewhere = {
        "deadline",
        "health",
        "health_svc",
    }  # tests/e2e/test_grpc.py has a model that takes its time
    assert GOLDEN.keys() == INFER.keys() | COLD.keys() | STREAMS.keys() | elsewhere
