"""Where the time went: told to those who ask, from the head of a request to its answer."""

import orjson
import pytest
from tests.frontends.puppets import (
    PuppetService,
    PuppetText,
    connect,
    echo_model,
    embed,
    post,
    responses,
)

from xirang.core.event import Function
from xirang.engine.call import Answer, Ran
from xirang.errors import Expired
from xirang.frontends.routes import hot_routes

US = 1000
URL = "/v2/models/echo/infer"
ASKED = "X-Xirang-Timing: 1"
HEADER = "x-xirang-timing"
ALL = "receive=0.03, queue=1.2, assemble=0.01, run=8.1, split=0.02, send=0.05"


class Door:
    """A connection to a service whose clock moves only when told."""

    def __init__(self):
        self.service = PuppetService(echo_model(), echo_model("text", "INT64"))
        match = hot_routes(self.service, {"text": PuppetText()})
        self.protocol, self.line, _ = connect(match, now_ns=self.service.now_ns)
        self.service.time_ns = 5_000 * US

    def ask(self, url=URL, document=None, *headers, receive_us=30):
        """All but the last byte, and that later."""
        request = post(url, orjson.dumps(document or infer()), *headers)
        self.protocol.data_received(request[:-1])
        self.service.time_ns += receive_us * US
        self.protocol.data_received(request[-1:])

    def answer(self, outputs=None):
        """Queued for 1.2 ms; 10 µs to assemble, 8.1 ms to run, 20 µs to split, 50 µs to send."""
        call = self.service.calls[0]
        start_ns = self.service.time_ns + 1200 * US
        end_ns = start_ns + 8130 * US
        self.service.time_ns = end_ns + 50 * US
        found = self.service.echo(call) if outputs is None else outputs
        ran = Ran(1, 0.0, start_ns, end_ns, 10 * US, 20 * US)
        self.service.answer(Answer(found.outputs, 0, ran))
        (response,) = responses(self.line.take())
        return response


@pytest.fixture
def door():
    return Door()


def infer(**parameters):
    row = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
    return {"inputs": [row], "parameters": parameters}


def test_each_stage_is_told_in_a_header_to_whoever_asks(door):
    door.ask(URL, infer(timeout=250_000), ASKED)
    assert door.answer().headers[HEADER] == f"{ALL}, budget=250"


def test_the_models_own_budget_is_told_where_the_request_brings_none(door):
    door.ask(URL, None, ASKED)
    assert door.answer().headers[HEADER].endswith("budget=10000")


def test_the_tightest_budget_is_the_one_that_is_told(door):
    door.ask(URL, infer(timeout=250_000), ASKED, "X-Request-Timeout-Ms: 90")
    assert door.answer().headers[HEADER].endswith("budget=90")


def test_a_request_parameter_asks_for_response_parameters(door):
    door.ask(URL, infer(xirang_timing=True))
    response = door.answer()
    assert orjson.loads(response.body)["parameters"] == {
        "receive_ms": 0.03,
        "queue_ms": 1.2,
        "assemble_ms": 0.01,
        "run_ms": 8.1,
        "split_ms": 0.02,
        "budget_ms": 10_000,
    }
    assert response.headers[HEADER].startswith(ALL)


def test_a_binary_answer_has_them_in_its_head(door):
    door.ask(URL, infer(xirang_timing=True, binary_data_output=True))
    response = door.answer()
    head = response.body[: int(response.headers["inference-header-content-length"])]
    assert orjson.loads(head)["parameters"]["queue_ms"] == 1.2


@pytest.mark.parametrize("headers", [(), ("X-Xirang-Timing: 0",), ("X-Xirang-Timing: false",)])
def test_nobody_else_is_told_and_no_clock_is_read_for_them(door, headers, monkeypatch):
    door.ask(URL, infer(xirang_timing=False), *headers)
    monkeypatch.setattr(door.service, "now_ns", None)
    response = door.answer()
    assert HEADER not in response.headers
    assert "parameters" not in orjson.loads(response.body)


def test_an_error_tells_the_budget_and_how_long_the_request_took_to_come(door):
    door.ask(URL, infer(timeout=60_000), ASKED)
    door.service.answer(Expired("too late"))
    (response,) = responses(door.line.take())
    assert (response.status, response.headers[HEADER]) == (504, "receive=0.03, budget=60")


def test_embeddings_are_timed_too(door):
    door.ask("/v1/embeddings", {"model": "text", "input": "ab"}, ASKED)
    call = door.service.calls[0]
    assert call.arrival_ns == 5_000 * US
    assert door.answer(embed(call)).headers[HEADER] == f"{ALL}, budget=10000"


def test_embeddings_that_fail_tell_the_budget(door):
    headers = (ASKED, "X-Stainless-Read-Timeout: 2")
    door.ask("/v1/embeddings", {"model": "text", "input": "ab"}, *headers)
    door.service.answer(Expired("too late"))
    (response,) = responses(door.line.take())
    assert (response.status, response.headers[HEADER]) == (504, "receive=0.03, budget=2000")


def test_a_budget_runs_from_the_head_of_the_request(door):
    """However slowly the body comes: the time is gone for the client as well."""
    door.ask(URL, None, receive_us=700_000)
    assert door.service.calls[0].arrival_ns == 5_000 * US


def test_under_overload_nobody_is_told_where_the_time_went(door):
    door.service.off.add(Function.TIMING)
    door.ask(URL, infer(xirang_timing=True), ASKED, "X-Xirang-Explain: 1")
    response = door.answer()
    assert response.status == 200
    assert HEADER not in response.headers
    assert "x-xirang-explain" not in response.headers
    assert "parameters" not in orjson.loads(response.body)


def test_an_answer_of_a_stand_in_names_it(door):
    door.ask()
    call = door.service.calls[0]
    found = door.service.echo(call).outputs
    door.service.answer(
        Answer(found, 0, Ran(1, 0.0, 0, 0), 0, "3", stand_in="cheap", lacks="cheap")
    )
    (response,) = responses(door.line.take())
    assert response.headers["x-xirang-degraded"] == "cheap"
    body = orjson.loads(response.body)
    assert (body["model_name"], body["model_version"]) == ("cheap", "3")
