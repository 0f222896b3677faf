"""At the doors: who is followed, what is seen of them, and that all others are plain exchanges."""

from random import Random

import orjson
import pytest
from tests.frontends.puppets import PuppetService, PuppetText, connect, echo_model, post, responses

from xirang.core.event import Function, RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Run, Trigger
from xirang.engine.call import Answer, Ran
from xirang.errors import TooBusy
from xirang.frontends.exchange import Exchange
from xirang.frontends.following import exchanges
from xirang.frontends.routes import hot_routes
from xirang.observe.sampling import Sampler
from xirang.observe.witness import GONE, Membership, Sighting, Witness

MS = 1_000_000
URL = "/v2/models/echo/infer"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"traceparent: 00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"traceparent: 00-{TRACE}-{SPAN}-00"
EVENT = RunEnded(
    Run(3, "echo", 0, (Request(7, "echo", 0, 50 * MS),), 1, 1, Trigger.ALONE, 2 * MS, MS, 0, 0),
    Done(4 * MS, 20_000, 10_000),
    6 * MS,
)


class Left(list):
    """An outlet whose end is the test."""

    put = list.append


class Street:
    """A door, a house behind it, and somebody who watches."""

    def __init__(self, *, traced=0.0, logged=0.0):
        self.service = PuppetService(echo_model())
        self.spans, self.log = Left(), Left()
        self.witness = Witness(
            Sampler(traced, random=Random(1)),
            Sampler(logged, random=Random(2)),
            now_ns=self.service.now_ns,
            random=Random(3),
            is_off=self.service.is_off,
        )
        self.witness.leave_at(spans=self.spans, log=self.log)
        match = hot_routes(self.service, {})
        self.protocol, self.line, _ = connect(match, exchange=exchanges(self.witness))

    def ask(self, *headers, url=URL, identity="", body=None):
        document = {
            "id": identity,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}],
        }
        self.protocol.data_received(post(url, body or orjson.dumps(document), *headers))

    def answer(self):
        self.service.time_ns = 7 * MS
        outputs = self.service.echo(self.service.calls[0]).outputs
        ran = Ran(1, 0.0, 2 * MS, 6 * MS, 20_000, 10_000, EVENT)
        self.service.answer(Answer(outputs, 2 * MS, ran, request_id=7))
        (response,) = responses(self.line.take())
        return response


def test_a_followed_request_is_seen_from_its_head_to_its_answer():
    street = Street(traced=1.0)
    street.service.time_ns = MS
    street.ask("user-agent: me", identity="mine", url=URL + "?key=secret")
    assert street.answer().status == 200
    membership, sighting = street.spans
    assert isinstance(membership, Membership)
    assert (membership.sighting, membership.event, membership.request_id) == (sighting, EVENT, 7)
    assert (sighting.door, sighting.place) == ("http", URL), "a query may hold a key"
    assert (sighting.model, sighting.identity, sighting.status) == ("echo", "mine", 200)
    assert (sighting.begun_ns, sighting.submitted_ns, sighting.end_ns) == (MS, MS, 7 * MS)
    assert sighting.runs == [(EVENT, 7)]
    assert sighting.received_bytes > 0
    assert sighting.sent_bytes > 0
    assert street.log == []


def test_nobody_else_is_followed():
    street = Street(traced=0.0)
    street.ask()
    assert street.answer().status == 200
    street.ask(UNSAMPLED)
    assert street.answer().status == 200
    assert street.spans == street.log == []
    make = exchanges(street.witness)
    assert type(make(None, b"/", {})) is Exchange


def test_whoever_calls_decides_for_the_whole_trace():
    street = Street(traced=0.0)
    street.ask(PARENT, "tracestate: vendor=1")
    street.answer()
    context = street.spans[-1].context
    assert (context.trace_id.hex(), context.parent_id.hex()) == (TRACE, SPAN)
    assert context.state == "vendor=1"
    street = Street(traced=1.0)
    street.ask(UNSAMPLED)
    street.answer()
    assert street.spans == []


def test_the_log_and_the_traces_have_lots_of_their_own():
    street = Street(logged=1.0)
    street.ask("x-request-id: abc")
    street.answer()
    (sighting,) = street.log
    assert (sighting.is_logged, sighting.context) == (True, None)
    assert street.spans == []


def test_a_request_that_is_not_taken_in_is_seen_too():
    street = Street(traced=1.0)
    street.service.refusal = TooBusy("full", retry_after_ns=1)
    street.ask()
    street.ask(body=b"{")
    statuses = [sighting.status for sighting in street.spans]
    assert statuses == [429, 400]
    assert all(not sighting.runs for sighting in street.spans)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_client_that_goes_away_ends_what_is_seen_of_it(is_told):
    street = Street(traced=1.0)
    street.ask()
    if not is_told:  # it runs already: its answer will be dropped
        street.service.tickets[0].is_cancelled = True
    street.protocol.connection_lost(None)
    (sighting,) = street.spans
    assert sighting.status == GONE
    assert isinstance(sighting, Sighting)


def test_overload_switches_either_off():
    street = Street(traced=1.0, logged=1.0)
    street.service.off = {Function.TRACING}
    street.ask()
    street.answer()
    assert (len(street.spans), len(street.log)) == (0, 1)
    street.service.off = {Function.TRACING, Function.REQUEST_LOGS}
    street.ask(PARENT)
    street.answer()
    assert (len(street.spans), len(street.log)) == (0, 1)


def test_operators_turn_tracing_while_requests_come():
    street = Street(traced=0.0)
    street.witness.turn(ratio=1.0, is_on=True, count=1)
    for _ in range(3):
        street.ask()
        street.answer()
    assert len(street.spans) == 2, "one request was to be traced: a run and a span"
    street.witness.turn(ratio=1.0, is_on=True, count=-1)
    street.witness.is_muted = lambda model: model == "echo"
    street.ask()
    street.answer()
    street.witness.is_muted = lambda model: model != "echo"
    street.ask()
    street.answer()
    assert len(street.spans) == 4
    street.witness.turn(ratio=1.0, is_on=False, count=-1)
    street.ask(PARENT)
    street.answer()
    assert len(street.spans) == 4


def test_each_text_of_a_request_is_in_a_run():
    street = Street(traced=1.0)
    match = hot_routes(street.service, {"echo": PuppetText()})
    protocol, _, _ = connect(match, exchange=exchanges(street.witness))
    body = orjson.dumps({"model": "echo", "input": ["a", "b"]})
    protocol.data_received(post("/v1/embeddings", body))
    assert len(street.service.calls) == 2


def test_two_lots_are_counted_by_one_counter():
    """Each of the two is followed as often as if it were alone, whatever callers ask between."""
    street = Street(traced=0.2, logged=0.3)
    make, count = exchanges(street.witness), 20_000
    seen = []
    for number in range(count):
        headers = {b"traceparent": UNSAMPLED.partition(": ")[2].encode()} if number % 7 == 0 else {}
        exchange = make(None, b"/", headers)
        if exchange.is_followed:
            seen.append(exchange.sighting)
    assert sum(each.is_logged for each in seen) / count == pytest.approx(0.3, abs=0.02)
    traced = sum(each.context is not None for each in seen) / count
    assert traced == pytest.approx(0.2 * 6 / 7, abs=0.02), "callers' words go before lots"
