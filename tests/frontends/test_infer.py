"""The infer route from bytes to bytes, with a puppet behind it."""

import gzip
import struct
import zlib

import numpy as np
import orjson
import pytest
from msgspec import structs
from tests.frontends.puppets import (
    PuppetService,
    PuppetText,
    answer_of,
    connect,
    echo_model,
    post,
    responses,
)

from xirang.errors import Cancelled, Expired, ModelFailed, NotReady, TooBusy
from xirang.frontends import routes
from xirang.frontends.routes import hot_routes

ONE = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
JSON = orjson.dumps(ONE)
OUTPUTS = b'"outputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1.0,2.0]}]}'
URL = "/v2/models/echo/infer"


@pytest.fixture
def service():
    return PuppetService(echo_model(), echo_model("a b/ü", version="7"))


@pytest.fixture
def door(service):
    protocol, line, _ = connect(hot_routes(service, {"embed": PuppetText()}))

    def ask(url=URL, body=JSON, *headers, answer=True):
        protocol.data_received(post(url, body, *headers))
        while answer and service.calls:
            service.answer()
        return responses(line.take())

    ask.protocol, ask.line = protocol, line
    return ask


def test_json_in_and_out(door, service):
    (response,) = door()
    assert response.status == 200
    assert response.body == b'{"model_name":"echo","model_version":"1",' + OUTPUTS
    assert response.headers["content-type"] == "application/json"


def test_an_answer_names_the_version_that_gave_it(door, service):
    assert b'"model_version":"1"' in door()[0].body
    service.models["echo"].version = "2"  # replaced
    assert b'"model_version":"2"' in door()[0].body


@pytest.mark.parametrize(
    "url",
    [
        "/v2/models/a%20b%2F%C3%BC/infer",
        "/v2/models/a%20b%2F%C3%BC/versions/7/infer",
        "/v2/models/a%20b%2F%C3%BC/infer?x=1",
        "http://host:80/v2/models/a%20b%2F%C3%BC/infer",
    ],
)
def test_name_is_decoded_and_the_query_ignored(door, service, url):
    (response,) = door(url)
    assert orjson.loads(response.body)["model_name"] == "a b/ü"
    assert orjson.loads(response.body)["model_version"] == "7"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("/v2/models/nope/infer", "Request for unknown model: 'nope' is not found"),
        (
            "/v2/models/echo/versions/9/infer",
            "Request for unknown model: 'echo' version 9 is not found",
        ),
    ],
)
def test_unknown_model(door, url, text):
    (response,) = door(url)
    assert response.status == 404
    assert orjson.loads(response.body) == {"error": text}


@pytest.mark.parametrize(
    "url",
    [
        b"/v2/models//infer",
        b"/v2/models/a/b/infer",
        b"/v2/models/a/versions/x/infer",
        b"*",
        b"/v2/models/%ff/infer",
        b"/v2/models/a/infer/",
        b"/v1/embeddings/x",
        b"host:80",
    ],
)
def test_other_urls_are_cold(service, url):
    assert hot_routes(service, {})(url) is None


def test_kept_routes_are_bounded(service, monkeypatch):
    monkeypatch.setattr(routes, "ROUTES_KEPT_MAX", 4)
    match = hot_routes(service, {})
    first = match(b"/v2/models/0/infer")
    assert match(b"/v2/models/0/infer") is first
    for number in range(20):
        assert match(b"/v2/models/%d/infer" % number) is not None
    assert match(b"/v2/models/0/infer") is not first
    assert match(b"/v1/embeddings?x") is match(b"/v1/embeddings")


def test_binary_in_and_out(door):
    head = orjson.dumps(
        {
            "id": "7",
            "inputs": [
                {
                    "name": "x",
                    "shape": [1, 2],
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": 8},
                }
            ],
            "outputs": [{"name": "x", "parameters": {"binary_data": True}}],
        }
    )
    blob = struct.pack("<2f", 1, 2)
    (response,) = door(URL, head + blob, f"Inference-Header-Content-Length: {len(head)}")
    length = int(response.headers["inference-header-content-length"])
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.body[length:] == blob
    assert orjson.loads(response.body[:length])["id"] == "7"


@pytest.mark.parametrize("value", ["abc", "-1", "99999", "", "1e2"])
def test_head_length_must_make_sense(door, value):
    (response,) = door(URL, JSON, f"Inference-Header-Content-Length: {value}")
    assert response.status == 400


def test_raw_request(door):
    blob = struct.pack("<2f", 1, 2)
    (response,) = door(URL, blob, "inference-header-content-length: 0")
    assert response.body.endswith(blob)
    (response,) = door(URL, b"")
    assert b'"shape":[1,0]' in response.body
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("parameter_us", "header_ms", "budget_ns"),
    [
        (None, None, None),
        (5000, None, 5_000_000),
        (None, "2.5", 2_500_000),
        (5000, "2", 2_000_000),
        (1000, "2", 1_000_000),
        (0, "2", 2_000_000),
    ],
)
def test_tightest_budget_counts(door, service, parameter_us, header_ms, budget_ns):
    parameters = {} if parameter_us is None else {"timeout": parameter_us}
    headers = () if header_ms is None else (f"X-Request-Timeout-Ms: {header_ms}",)
    body = orjson.dumps({**ONE, "parameters": {**parameters, "priority": 3}})
    door(URL, body, *headers, answer=False)
    (call,) = service.calls
    assert call.budget_ns == budget_ns
    assert call.priority == 3
    assert call.outputs is None
    assert call.version is None


@pytest.mark.parametrize("value", ["0", "-5", "soon", "nan", "inf", "1e30"])
def test_budget_header_must_be_a_positive_number(door, value):
    (response,) = door(URL, JSON, f"X-Request-Timeout-Ms: {value}")
    assert response.status == 400
    assert b"x-request-timeout-ms must be a positive number" in response.body


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TooBusy("full"), 429),
        (NotReady("draining"), 503),
        (Expired("late"), 504),
        (ModelFailed("no"), 500),
        (Cancelled("gone"), 499),
    ],
)
@pytest.mark.parametrize("is_at_the_door", [True, False])
def test_errors_at_the_door_and_later(door, service, error, status, is_at_the_door):
    if is_at_the_door:
        service.refusal = error
        (response,) = door()
    else:
        door(answer=False)
        service.answer(error)
        (response,) = responses(door.line.take())
    assert response.status == status
    assert orjson.loads(response.body) == {"error": str(error)}
    assert ("retry-after" in response.headers) is (status in {429, 503})


def test_answer_before_submit_returns(door, service):
    service.is_prompt = True
    assert door()[0].status == 200


def test_answer_that_cannot_be_sent_is_one_clients_error(door, service, caplog):
    door(answer=False)
    service.answer(answer_of({"x": object()}))
    (response,) = responses(door.line.take())
    assert response.status == 500
    assert b"internal error" in response.body
    assert "AttributeError" in caplog.text
    assert door()[0].status == 200


def test_client_that_vanishes_is_taken_out(door, service):
    door(answer=False)
    door(answer=False)
    service.answer()
    door.line.closed = True
    door.protocol.connection_lost(None)
    assert [ticket.is_cancelled for ticket in service.tickets] == [False, True]


@pytest.mark.parametrize(
    ("accepted", "unpack"),
    [("gzip", gzip.decompress), ("deflate", zlib.decompress), ("*", bytes), ("gzip;q=0", bytes)],
)
def test_answer_is_packed_when_asked(door, accepted, unpack):
    (response,) = door(URL, JSON, f"Accept-Encoding: {accepted}")
    assert unpack(response.body).endswith(OUTPUTS)
    coding = response.headers.get("content-encoding")
    assert coding == (accepted if unpack is not bytes else None)


def test_error_is_not_packed(door):
    (response,) = door("/v2/models/nope/infer", JSON, "Accept-Encoding: gzip")
    assert orjson.loads(response.body)
    assert "content-encoding" not in response.headers


def test_packed_binary_request_counts_the_head_unpacked(door):
    head = JSON.replace(b'"data":[1,2]', b'"parameters":{"binary_data_size":8}')
    body = gzip.compress(head + struct.pack("<2f", 1, 2))
    (response,) = door(
        URL, body, "Content-Encoding: gzip", f"Inference-Header-Content-Length: {len(head)}"
    )
    assert response.body.endswith(OUTPUTS)


def test_pipelined_answers_keep_their_order(door, service):
    bodies = [orjson.dumps({**ONE, "id": str(number)}) for number in range(5)]
    door.protocol.data_received(b"".join(post(URL, body) for body in bodies))
    calls = list(service.calls)
    for call in reversed(calls):
        call.reply(service.echo(call))
    found = responses(door.line.take())
    assert [orjson.loads(each.body)["id"] for each in found] == list("01234")


def test_outputs_are_asked_for_by_name(door, service):
    door(URL, orjson.dumps({**ONE, "outputs": [{"name": "y"}]}), answer=False)
    assert service.calls[0].outputs == ("y",)
    service.answer(answer_of({"y": np.ones((1, 1), np.int64)}))
    (response,) = responses(door.line.take())
    assert b'{"name":"y","datatype":"INT64","shape":[1,1],"data":[1]}' in response.body


def test_an_answer_to_a_request_that_was_cut_says_so(door, service):
    assert door(answer=False) == []
    answer = service.echo(service.calls[0])
    service.answer(structs.replace(answer, is_cropped=True))
    (response,) = responses(door.line.take())
    assert orjson.loads(response.body)["parameters"] == {"xirang_cropped": True}
