"""From what was seen to spans at a collector: names, parents, links, events, and what is lost."""

import logging
from random import Random

import pytest
from tests.support.collector import OtlpCollector, read, values_of

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Failed, Run, Trigger
from xirang.errors import InvalidSetting
from xirang.observe.otlp import export_request
from xirang.observe.outlet import Tally
from xirang.observe.spans import route_of
from xirang.observe.trace_context import Parent, below, first
from xirang.observe.tracing import SETTLED_NS, HttpCollector, Times, Tracing
from xirang.observe.witness import Membership, Sighting

MS = 1_000_000
EPOCH_NS = 10**18
RANDOM = Random(5)
ABOVE = Parent(b"t" * 16, b"p" * 8, is_sampled=True)
NOTHING = export_request([], resource={}, scope=("", ""))
INFER = "/inference.GRPCInferenceService/ModelInfer"


class Kept:
    """A collector that keeps what it gets, while it is there."""

    def __init__(self):
        self.bodies = []
        self.is_there = True

    def send(self, body):
        if not self.is_there:
            raise ConnectionError("nobody is there")
        self.bodies.append(body)

    def close(self):
        self.is_there = False

    @property
    def spans(self):
        return [span for body in self.bodies for span in read(body)[0]]


class Bench:
    def __init__(self, now_ms=1000):
        self.collector, self.tally, self.traced = Kept(), Tally(), []
        self.now_ns = now_ms * MS
        self.tracing = Tracing(
            self.collector,
            self.tally,
            resource={"service.name": "xirang"},
            random=Random(1),
            times=Times(lambda: self.now_ns, lambda: EPOCH_NS),
            on_traced=lambda *told: self.traced.append(told),
        )


def ended(run_id=3, *, count=2, end_ms=30, outcome=None):
    requests = tuple(Request(10 * run_id + i, "m", i * MS, 99 * MS) for i in range(count))
    run = Run(run_id, "m", 1, requests, count, 1, Trigger.WINDOW, 20 * MS, 8 * MS, 2 * MS, 4)
    return RunEnded(run, outcome or Done(9 * MS, 1 * MS, 2 * MS), end_ms * MS)


def seen(context=None, *events, status=200, end_ms=32, door="http", place="/v2/models/m/infer"):
    sighting = Sighting(
        door, place, {b"user-agent": b"me"}, 5 * MS, context or first(RANDOM), False
    )
    sighting.model, sighting.submitted_ns, sighting.end_ns = "m", 7 * MS, end_ms * MS
    sighting.status = status
    sighting.runs = [(event, event.run.requests[0].id) for event in events]
    members = [Membership(sighting, *each) for each in sighting.runs]
    return [*members, sighting]


def test_a_run_is_linked_to_all_who_shared_it_and_they_to_it():
    bench, event = Bench(), ended()
    one, other = seen(below(ABOVE, {}, RANDOM), event), seen(None, event)
    bench.tracing([one[0], other[0], one[1], other[1]])
    run, *requests = bench.collector.spans
    assert [span.trace_id for span in requests] == [s[-1].context.trace_id for s in (one, other)]
    places = [(span.trace_id, span.span_id) for span in requests]
    assert [(link.trace_id, link.span_id) for link in run.links] == places
    for span in requests:
        assert [(li.trace_id, li.span_id) for li in span.links] == [(run.trace_id, run.span_id)]
    assert len({run.trace_id, *[span.trace_id for span in requests]}) == 3
    assert [span.parent_span_id for span in requests] == [ABOVE.span_id, b""]
    assert not run.parent_span_id
    assert bench.tally.sent == 3
    assert [trace for *_, trace in bench.traced] == [
        s[-1].context.trace_id.hex() for s in (one, other)
    ]


def test_names_times_and_attributes_are_those_of_the_conventions():
    bench = Bench()
    bench.tracing(seen(None, ended()))
    run, request = bench.collector.spans
    assert (request.name, request.kind) == ("POST /v2/models/{model}/infer", 2)
    assert request.start_time_unix_nano == EPOCH_NS + 5 * MS
    assert request.end_time_unix_nano == EPOCH_NS + 32 * MS
    told = values_of(request.attributes)
    assert told["http.request.method"] == "POST"
    assert told["http.route"] == "/v2/models/{model}/infer"
    assert told["http.response.status_code"] == 200
    assert told["url.path"] == "/v2/models/m/infer"
    assert told["user_agent.original"] == "me"
    assert (told["xirang.model"], told["xirang.run"], told["xirang.request"]) == ("m", 3, 30)
    assert (run.name, run.kind) == ("run m", 1)
    told = values_of(run.attributes)
    assert (told["xirang.trigger"], told["xirang.rows"], told["xirang.instance"]) == (
        "window",
        2,
        1,
    )
    assert told["xirang.predicted_ms"] == 8
    assert told["xirang.ran_ms"] == 9


def test_stages_are_events_in_their_order():
    bench = Bench()
    bench.tracing(seen(None, ended()))
    run, request = bench.collector.spans
    stages = [(event.name, event.time_unix_nano - EPOCH_NS) for event in request.events]
    assert stages == [
        ("xirang.received", 7 * MS),
        ("xirang.queued", 20 * MS),
        ("xirang.assembled", 21 * MS),
        ("xirang.ran", 28 * MS),
        ("xirang.split", 30 * MS),
    ]
    names = [event.name for event in run.events]
    assert names == ["xirang.assembled", "xirang.ran"]


def test_a_call_over_grpc_has_the_names_of_calls():
    bench = Bench()
    bench.tracing(seen(None, ended(), door="grpc", place=INFER, status=0))
    bench.tracing(seen(None, door="grpc", place=INFER, status=4))
    _, well, late = bench.collector.spans
    assert well.name == "inference.GRPCInferenceService/ModelInfer"
    told = values_of(well.attributes)
    assert told["rpc.system.name"] == "grpc"
    assert told["rpc.method"] == "inference.GRPCInferenceService/ModelInfer"
    assert told["rpc.response.status_code"] == "OK"
    assert values_of(late.attributes)["error.type"] == "DEADLINE_EXCEEDED"
    assert (well.status.code, late.status.code) == (0, 2)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (400, 0), (429, 0), (500, 2), (504, 2)])
def test_only_our_own_faults_are_errors(status, code):
    bench = Bench()
    bench.tracing(seen(None, status=status))
    (span,) = bench.collector.spans
    assert span.status.code == code
    assert ("error.type" in values_of(span.attributes)) == bool(code)


def test_a_run_that_failed_says_so():
    bench = Bench()
    bench.tracing(seen(None, ended(outcome=Failed((30,)))))
    run, request = bench.collector.spans
    assert run.status.code == 2
    assert [event.name for event in request.events][:2] == ["xirang.received", "xirang.queued"]


def test_who_was_only_just_seen_waits_for_the_others_of_its_run():
    bench, event = Bench(now_ms=31), ended(end_ms=30)
    one, other = seen(None, event), seen(None, event)
    bench.tracing(one)
    assert bench.collector.spans == []
    bench.now_ns = 32 * MS + SETTLED_NS
    bench.tracing(other)
    run, *_ = bench.collector.spans
    assert len(run.links) == 2


def test_at_the_end_nobody_waits():
    bench = Bench(now_ms=32)
    bench.tracing(seen(None, ended()))
    bench.tracing([])
    assert len(bench.collector.spans) == 2
    assert not bench.collector.is_there, "it was closed"


def test_what_nobody_takes_is_counted_and_told_once(caplog):
    bench = Bench()
    bench.collector.is_there = False
    bench.tracing(seen(None, ended()))
    bench.tracing(seen(None, ended(4)))
    assert (bench.tally.sent, bench.tally.failed) == (0, 4)
    assert len(caplog.records) == 1
    assert "nobody is there" in caplog.text
    bench.collector.is_there = True
    bench.tracing(seen(None))
    bench.collector.is_there = False
    bench.tracing(seen(None))
    assert len(caplog.records) == 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_over_http_a_collector_gets_what_it_needs():
    with OtlpCollector() as collector:
        sender = HttpCollector(collector.url, {"authorization": "Bearer k"})
        for _ in range(2):
            sender.send(NOTHING)
        path, headers = collector.headers[0]
        sender.close()
    assert len(collector.headers) == 2
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["authorization"] == "Bearer k"
    with pytest.raises(ConnectionRefusedError):
        sender.send(NOTHING)


def test_a_collector_that_refuses_is_no_collector():
    with OtlpCollector(status=503) as collector:
        sender = HttpCollector(f"{collector.url}/other/path/", {})
        with pytest.raises(ConnectionError, match="answers 503"):
            sender.send(NOTHING)
        sender.close()
        assert collector.headers[0][0] == "/other/path"


@pytest.mark.parametrize(
    "endpoint", ["collector:4317", "grpc://x:4317", "http://", "http://x:port"]
)
def test_what_is_no_address_is_refused(endpoint):
    with pytest.raises(InvalidSetting, match="expected http://host:port"):
        HttpCollector(endpoint, {})


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v2/models/a%20b/versions/3/infer", "/v2/models/{model}/versions/{version}/infer"),
        ("/v2/models/m/generate_stream", "/v2/models/{model}/generate_stream"),
        ("/v1/models/m:predict", "/v1/models/{model}:predict"),
        ("/v1/embeddings", "/v1/embeddings"),
        ("/", "/"),
    ],
)
def test_routes_name_what_varies(path, route):
    assert route_of(path) == route
