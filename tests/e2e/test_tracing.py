"""Traces of a real server, received by a collector; with its log, and exemplars in its metrics."""

import json
import os
import socket

import numpy as np
import pytest
from prometheus_client.openmetrics import parser as open_parser
from tests.support.collector import OtlpCollector, values_of
from tests.support.models import mlp
from tests.support.wire import Wire, place_of, until

from xirang.lab.server import ServerProcess

pytestmark = pytest.mark.e2e

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
BODY = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}]}
URL = "/v2/models/mlp/infer"


def parent(number=1, *, is_sampled=True):
    return f"00-{TRACE}-{number:016x}-0{int(is_sampled)}"


@pytest.fixture(scope="module")
def collector():
    with OtlpCollector() as collector:
        yield collector


@pytest.fixture(scope="module")
def server(tmp_path_factory, collector):
    model = mlp(tmp_path_factory.mktemp("tracing") / "mlp.onnx")
    os.environ["XIRANG_OTLP_HEADERS"] = "authorization=Bearer collector-key"
    options = [f"--otlp-endpoint={collector.url}", "--log-format=json", "--log-requests=1"]
    try:
        server = ServerProcess([model], *options, "--grpc-port=0")
    finally:
        del os.environ["XIRANG_OTLP_HEADERS"]
    with server:
        yield server


def request(number):
    body = json.dumps(BODY).encode()
    head = f"POST {URL} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    return f"{head}traceparent: {parent(number)}\r\n\r\n".encode() + body


def spans_of(collector, count):
    """So many spans of requests, with all that came so far by place."""
    found = until(
        lambda: (
            (len([s for s in collector.spans if s.kind == 2]) >= count) and list(collector.spans)
        )
    )
    return found, {(span.trace_id, span.span_id): span for span in found}


def test_requests_over_http_and_grpc_share_a_run_and_its_span(server, collector):
    from tritonclient.grpc import InferenceServerClient, InferInput

    tensor = InferInput("x", [1, 64], "FP32")
    tensor.set_data_from_numpy(np.full((1, 64), 0.5, np.float32))
    with socket.create_connection(place_of(server.url), timeout=30) as line:
        line.sendall(request(1) + request(2))  # who comes in one piece is in the same run
        sent = b""
        while sent.count(b'"outputs"') < 2:
            sent += line.recv(65536)
    assert sent.count(b"HTTP/1.1 200 OK") == 2
    with InferenceServerClient(server.grpc_place) as client:
        headers = {"traceparent": parent(3), "tracestate": "vendor=1"}
        client.infer("mlp", [tensor], headers=headers)
    with Wire(server.url) as wire:
        unsampled = {"traceparent": parent(4, is_sampled=False)}
        assert wire.ask("POST", URL, BODY, unsampled)[0] == 200
    found, by_place = spans_of(collector, 3)
    requests = [span for span in found if span.kind == 2]
    runs = [span for span in found if span.kind == 1]
    assert {span.name for span in requests} == {
        "POST /v2/models/{model}/infer",
        "inference.GRPCInferenceService/ModelInfer",
    }
    assert {span.trace_id.hex() for span in requests} == {TRACE}
    assert sorted(int(span.parent_span_id.hex(), 16) for span in requests) == [1, 2, 3]
    assert sorted(len(run.links) for run in runs) == [1, 2]
    for run in runs:
        linked = [s for s in requests if run.span_id in {link.span_id for link in s.links}]
        assert len(linked) == len(run.links)
        assert all((link.trace_id, link.span_id) in by_place for link in run.links)
    for span in requests:
        names = [event.name for event in span.events]
        assert names == [f"xirang.{stage}" for stage in STAGES]
        times = [event.time_unix_nano for event in span.events]
        assert [span.start_time_unix_nano, *times] == sorted([span.start_time_unix_nano, *times])
        assert times[-1] <= span.end_time_unix_nano
        assert values_of(span.attributes)["xirang.model"] == "mlp"
    assert collector.resources[0]["service.name"] == "xirang"
    assert collector.headers[0][1]["authorization"] == "Bearer collector-key"


STAGES = ("received", "queued", "assembled", "ran", "split")


def test_the_metrics_name_traces_and_count_spans(server, collector):
    with Wire(server.url) as wire:
        assert wire.ask("POST", URL, BODY, {"traceparent": parent(9)})[0] == 200
        spans_of(collector, 4)
        accept = {"accept": "application/openmetrics-text; version=1.0.0"}

        def exemplar():
            _, _, text = wire.ask("GET", "/metrics", headers=accept)
            families = {
                f.name: f for f in open_parser.text_string_to_metric_families(text.decode())
            }
            samples = families["xirang_request_duration_seconds"].samples
            sent = families["xirang_spans"].samples[0]
            assert sent.labels == {"result": "sent"}
            return sent.value and [s.exemplar for s in samples if s.exemplar]

        found = until(exemplar)
    assert {exemplar.labels["trace_id"] for exemplar in found} == {TRACE}


def test_each_request_has_a_line_with_its_ids_and_nothing_of_its_own(server):
    with Wire(server.url) as wire:
        headers = {"x-request-id": "line-1", "traceparent": parent(7), "authorization": "Bearer k"}
        assert wire.ask("POST", f"{URL}?key=secret", BODY, headers)[0] == 200
        assert wire.ask("POST", URL, b"{", {"x-request-id": "line-2"})[0] == 400

    def lines():
        told = [json.loads(line) for line in server.log_text().splitlines()]
        found = {line["request"]: line for line in told if "request" in line}
        return {"line-1", "line-2"} <= found.keys() and (told, found)

    told, found = until(lines)
    assert found["line-1"]["trace"] == TRACE
    assert found["line-1"]["model"] == "mlp"
    assert (found["line-1"]["status"], found["line-2"]["status"]) == (200, 400)
    assert "secret" not in server.log_text()
    of_requests = json.dumps([line for line in told if line["logger"] == "xirang.request"])
    assert "0.5, 0.5" not in of_requests
    assert {line["logger"].split(".")[0] for line in told} == {"xirang"}


def test_a_collector_that_is_gone_keeps_nobody_waiting(server, collector):
    """The last of these tests: the server ends well without it."""
    collector.status = 500
    with Wire(server.url) as wire:
        assert wire.ask("POST", URL, BODY, {"traceparent": parent(8)})[0] == 200
    assert server.stop() == 0
    assert "spans are lost until the collector takes them again" in server.log_text()
