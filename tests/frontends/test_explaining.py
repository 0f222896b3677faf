"""An explanation goes to who asks for it, as a header or as a parameter; to nobody else."""

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

from xirang.core.event import RunEnded
from xirang.core.request import Request
from xirang.core.run import Done, Run, Trigger
from xirang.engine.call import Answer, Ran
from xirang.frontends.exchange import Exchange
from xirang.frontends.headers import Headers
from xirang.frontends.routes import hot_routes
from xirang.frontends.texts.desk import TextDesk
from xirang.frontends.texts.openai import EmbeddingsRoute
from xirang.observe.explain import explain

MS = 1_000_000
URL = "/v2/models/echo/infer"
HEADER = "x-xirang-explain"

MEMBERS = (Request(7, "echo", 0, 50 * MS, length=3), Request(8, "écho", MS, 90 * MS, length=4))
EVENT = RunEnded(
    Run(3, "écho", 0, MEMBERS, 2, 4, Trigger.WINDOW, 2 * MS, 5 * MS, 2 * MS, 1),
    Done(4 * MS, 20_000, 10_000),
    6 * MS,
)
TOLD = explain(EVENT, MEMBERS[0]).as_json()


def answered(*headers, event=EVENT, **parameters):
    """The response to a request that shared a run, asked for with these."""
    service = PuppetService(echo_model())
    protocol, line, _ = connect(hot_routes(service, {}))
    document = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}],
        "parameters": parameters,
    }
    protocol.data_received(post(URL, orjson.dumps(document), *headers))
    outputs = service.echo(service.calls[0]).outputs
    ran = Ran(2, 0.1, 2 * MS, 6 * MS, 20_000, 10_000, event)
    service.answer(Answer(outputs, 2 * MS, ran, request_id=7))
    (response,) = responses(line.take())
    assert response.status == 200
    return response, orjson.loads(response.body)


def test_nobody_who_does_not_ask_is_told():
    response, document = answered()
    assert HEADER not in response.headers
    assert "parameters" not in document
    response, document = answered("X-Xirang-Explain: 0", xirang_explain=False)
    assert HEADER not in response.headers
    assert "parameters" not in document


def test_by_header():
    response, document = answered("X-Xirang-Explain: 1")
    assert orjson.loads(response.headers[HEADER]) == TOLD
    assert response.headers[HEADER].isascii()
    assert len(response.headers[HEADER]) < 1000
    assert "parameters" not in document


def test_by_parameter():
    response, document = answered(xirang_explain=True)
    assert orjson.loads(document["parameters"]["xirang_explain"]) == TOLD
    assert HEADER not in response.headers


def test_beside_the_times():
    _, document = answered(xirang_explain=True, xirang_timing=True)
    assert set(document["parameters"]) > {"xirang_explain", "queue_ms"}


@pytest.mark.parametrize("event", [None, RunEnded(EVENT.run, EVENT.outcome, 6 * MS)])
def test_what_is_not_known_is_not_told(event):
    response, _ = answered("X-Xirang-Explain: 1", event=event)
    assert (HEADER in response.headers) == (event is not None)


def test_a_parameter_that_is_no_boolean_is_refused():
    service = PuppetService(echo_model())
    protocol, line, _ = connect(hot_routes(service, {}))
    document = {"inputs": [], "parameters": {"xirang_explain": "yes"}}
    protocol.data_received(post(URL, orjson.dumps(document)))
    (response,) = responses(line.take())
    assert response.status == 400
    assert b"xirang_explain" in response.body


@pytest.mark.parametrize("asked", [True, False])
def test_the_texts_of_a_request_are_explained_by_the_last_one(asked):
    service = PuppetService(echo_model("m"))
    route = EmbeddingsRoute(TextDesk(service, {"m": PuppetText()}))
    exchange = Exchange(
        None, b"/v1/embeddings", Headers([(b"x-xirang-explain", b"1")] if asked else [])
    )
    exchange.body = orjson.dumps({"model": "m", "input": ["a", "b"]})
    route(exchange)
    for number in (8, 7):
        ran = Ran(2, 0.1, 2 * MS, 6 * MS, 20_000, 10_000, EVENT)
        answer = embed(service.calls[0])
        service.answer(Answer(answer.outputs, 2 * MS, ran, request_id=number))
    lines = dict(
        line.split(b": ", 1) for line in exchange.response_headers.split(b"\r\n") if b": " in line
    )
    told = lines.get(b"x-xirang-explain")
    assert (orjson.loads(told) == TOLD) if asked else told is None
