"""The genuine Triton server's answers to HTTP probes, held against ours.

What differs on purpose stands in the tables below with its reason, and in docs/compatibility.md.
"""

import json
import socket
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.support import http_probes as probes
from tests.support.golden import repository
from tests.support.wire import Wire, place_of

from xirang.frontends.v2.shared_memory import FOLDER
from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "triton" / "http.json").read_text())
HEADERS = ("content-type", "inference-header-content-length", "content-encoding", "accept-encoding")
BYTES_KEPT = 600
CODINGS = {"gzip": 31, "deflate": 15}
UNKNOWN_ID = "[request id: <id_unknown>] "

MALFORMED = (
    "index_badjson index_badready log_bad log_badtype json_garbage json_trunc json_no_inputs "
    "json_inputs_obj json_array no_name no_dtype no_shape shape_neg shape_str "
    "shape_float shape_more shape_less data_str data_null data_scalar data_bool bool_int u8_neg "
    "u8_float bytes_num id_int param_priority_str param_priority_neg param_timeout_str "
    "param_timeout_float params_arr class_neg bin_size_str bin_flag_str bin_ihl_short "
    "bin_missing_ihl shm_reg_missing shm_reg_toobig shm_out_small load_cfg_bad "
    "load_param_bad"
)
"""A request that is wrong is 400, as the specification says; Triton answers 500."""

HEALTH = "the body is that of the specification, which KServe's client reads"

DIFFERENT = {
    "live": (200, HEALTH),
    "ready": (400, HEALTH),
    "ready_after_unload": (400, HEALTH),
    "mready": (200, HEALTH),
    "mready_v": (200, HEALTH),
    "ready_head": (400, "HEAD is GET without a body, and probes of load balancers use it"),
    "server_slash": (200, "the specification writes the path with a slash"),
    "root": (200, "a page that says what there is"),
    "health": (503, "the health of text-embeddings-inference; here a model cannot be loaded"),
    "meta_pct": (200, "%xx in names is decoded: Triton's own client encodes them"),
    "log_unknown": (400, "a setting that nobody knows is a typing error"),
    "trace_unknown": (400, "a setting that nobody knows is a typing error"),
    "trace_lvl": (400, "a level that nobody knows is a typing error"),
    "load_none": (404, "the model is not there; nothing broke"),
    "params_echo": (504, "a timeout of seven microseconds is a budget, and is kept"),
    "gen_err": (500, "the model raised: the request was right"),
    "batch_9": (200, "a request of more rows than a run may hold is cut and joined"),
    "shape_zero": (400, "a tensor without elements has nothing to run on"),
    "raw_empty": (400, "a tensor without elements has nothing to run on"),
    "shape_huge": (400, "the genuine server ends"),
    "class_bytes": (400, "the genuine server ends"),
    "data_big": (400, "1e39 is no float32, and is not made infinite"),
    "u8_over": (400, "300 is not 44"),
    "gz_bad": (400, "what is not gzip is not taken for an empty request"),
    "bin_ihl_x": (400, "a length that is no number is not taken for 0"),
    "bytes_nonutf8_jsonout": (400, "JSON is UTF-8; binary takes any bytes"),
    "server": (200, "another name, and another list of extensions"),
    "dup_key": (200, "of two members of one name the last counts, as in most parsers"),
    "trace": (200, "tracing goes to OpenTelemetry"),
    "trace_m": (200, "tracing goes to OpenTelemetry"),
}
"""Probes that are answered otherwise on purpose: our status, and why."""

OWN_WORDS = (
    "json_missing_input json_extra_input json_unknown_input json_empty_inputs shape_rank "
    "shape_rank3 shape_empty nobatch_bad wrong_dtype bad_dtype batch_zero bytes_few bytes_many "
    "no_data model_error model_raise param_obj param_null bin_long bin_short bin_size_mismatch "
    "bin_bytes_many bin_bytes_few bin_bytes_trunc_len bin_bytes_trunc_data br_in gen_missing "
    "fp16_json bf16_json trace_bad raw_odd cuda_reg"
)
"""Errors of the same status in our own words, which name the input and what was expected."""

CALLABLES = ("fails", "ident_bytes")


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    root = repository(tmp_path_factory.mktemp("golden"))
    paths = [f"tests.e2e.grpc_models:{name}" for name in CALLABLES]
    options = ["--model-repository", str(root), "--model-control-mode", "explicit"]
    options += ["--load-model", "*", "--warmup-s", "0", "--learned", "off"]
    options += ["--allow-shared-memory", "true", "--max-batch-size", "8"]
    with ServerProcess([*paths, "booms=tests.e2e.grpc_models:fails"], *options) as server:
        yield server.url


def ask(url, probe):
    """Status, headers and bytes, as the probes recorded them."""
    with Wire(url) as wire:
        wire.send(*probe)
        response = wire.connection.getresponse()
        body = response.read()
    headers = {k.lower(): v for k, v in response.getheaders() if k.lower() in HEADERS}
    return response.status, headers, body


def meaning(document):
    """A document in which numbers are the same if they are the same float32."""
    if isinstance(document, dict):
        return {k: meaning(v) for k, v in document.items() if (k, v) != ("platform", "python")}
    if isinstance(document, list):
        return [meaning(each) for each in document]
    return repr(np.float32(document)) if isinstance(document, float) else document


def read(text):
    document = json.loads(text)
    if isinstance(document, dict) and document.get("platform") == "onnxruntime_onnx":
        del document["platform"]
    return meaning(document)


def hold_against(name, status, headers, body):
    golden = GOLDEN[name]
    if name in DIFFERENT or name in MALFORMED.split():
        assert status == (DIFFERENT[name][0] if name in DIFFERENT else 400)
        assert golden.get("crash") or (status, body.decode()) != (golden["status"], golden["body"])
        return
    assert status == golden["status"]
    if status >= 400:
        hold_error(name, golden, headers, body)
        return
    assert headers == golden["headers"]
    if coding := headers.get("content-encoding"):
        body, expected = zlib.decompress(body, CODINGS[coding]), GOLDEN["star_out"]["body"]
        assert read(body) == read(expected)
    elif headers["content-type"] == "application/json" and body:
        assert read(body) == read(golden["body"])
    else:
        assert body[:BYTES_KEPT].decode("utf8", "backslashreplace") == golden["body"]


def hold_error(name, golden, headers, body):
    """Errors are JSON and say so; Triton calls some of its own plain text."""
    if not golden["body"]:
        assert headers == golden["headers"]
        assert body == b""
        return
    assert headers == golden["headers"] | {"content-type": "application/json"}
    told, expected = json.loads(body)["error"], json.loads(golden["body"])["error"]
    if name in OWN_WORDS.split():
        assert told
    else:
        # Ours may say more in front, where it is, and behind, what was expected.
        assert expected.removeprefix(UNKNOWN_ID) in told


@pytest.mark.parametrize("name", probes.COLD)
def test_what_is_asked_seldom(url, name):
    hold_against(name, *ask(url, probes.COLD[name]))


@pytest.mark.parametrize("name", probes.INFER)
def test_infer(url, name):
    hold_against(name, *ask(url, probes.INFER[name]))


@pytest.mark.parametrize("name", probes.BINARY)
def test_binary(url, name):
    hold_against(name, *ask(url, probes.BINARY[name]))


def test_loading_and_unloading(url):
    for name, probe in probes.CONTROL.items():
        hold_against(name, *ask(url, probe))


def test_shared_memory(url):
    file = FOLDER / probes.KEY
    file.write_bytes(struct.pack("<4f", 1, 2, 0, 0))
    try:
        for name, probe in probes.SHARED.items():
            hold_against(name, *ask(url, probe))
            if name == "shm_infer":
                assert list(struct.unpack("<4f", file.read_bytes())) == GOLDEN[name]["shm"]
    finally:
        file.unlink()


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("chunked", b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"),
        ("expect100", b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%b"),
    ],
)
def test_bodies_in_unusual_forms(url, name, head):
    body = json.dumps(probes.one()).encode()
    request = b"POST /v2/models/ident_fp32/infer HTTP/1.1\r\nHost: x\r\n" + head
    told = b""
    with socket.create_connection(place_of(url), 10) as line:
        line.sendall(request % (len(body), body))
        while not told.endswith(b"]}]}"):
            told += line.recv(4096)
    theirs, ours = GOLDEN[name]["raw"], told.decode()
    assert ours.splitlines()[0] == theirs.splitlines()[0]
    assert read(ours.rpartition("\r\n\r\n")[2]) == read(theirs.rpartition("\r\n\r\n")[2])


def test_every_probe_is_replayed_and_every_difference_is_one():
    replayed = {"chunked", "expect100"}
    for table in (probes.COLD, probes.INFER, probes.BINARY, probes.CONTROL, probes.SHARED):
        replayed |= table.keys()
    assert GOLDEN.keys() == replayed
    assert {*DIFFERENT, *MALFORMED.split(), *OWN_WORDS.split()} <= replayed
