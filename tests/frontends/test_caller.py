"""Who asks, and how important it may be."""

import hashlib

import orjson
import pytest
from tests.frontends.puppets import (
    PuppetService,
    PuppetText,
    connect,
    embed,
    get,
    post,
    responses,
)

from xirang.frontends.cold import cold_app
from xirang.frontends.keys import Grant, Keys
from xirang.frontends.routes import hot_routes

INFER = orjson.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}]}
)
EMBEDDINGS = orjson.dumps({"model": "text", "input": "ab"})


def keys_of(**grants):
    return Keys(
        {
            name: Grant(hashlib.sha256(name.encode()).hexdigest(), name=name, **fields)
            for name, fields in grants.items()
        }
    )


@pytest.fixture
def service():
    return PuppetService()


def door(service, keys=None):
    texts = {"text": PuppetText()}
    app = cold_app(service, texts, keys)
    service.models["text"] = service.models["echo"]
    return connect(hot_routes(service, texts, keys), app=app)


def ask(connection, data):
    protocol, line, loop = connection
    protocol.data_received(data)
    for _ in range(5):
        loop.run_tasks()
    return responses(line.take())


def infer(*headers, body=INFER):
    return post("/v2/models/echo/infer", body, *headers)


def test_without_keys_a_connection_is_a_client_and_a_session_is_the_same_on_all(service):
    first, second = door(service), door(service)
    for connection in (first, first, second):
        ask(connection, infer())
    for connection in (first, second):
        ask(connection, infer("X-Session-Id: nine"))
    clients = [call.client for call in service.calls]
    assert clients[0] == clients[1] != clients[2]
    assert clients[3] == clients[4]
    assert {call.tenant for call in service.calls} == {""}
    assert {call.fast for call in service.calls} == {None}


@pytest.mark.parametrize(
    ("header", "parameter", "priority"),
    [(None, None, 0), ("1", None, 1), ("3", 2, 2), ("3", None, 3), ("0", None, 0)],
)
def test_a_priority_may_stand_in_a_header_but_the_request_itself_goes_first(
    service, header, parameter, priority
):
    body = orjson.loads(INFER)
    if parameter is not None:
        body["parameters"] = {"priority": parameter}
    lines = [] if header is None else [f"X-Request-Priority: {header}"]
    ask(door(service), infer(*lines, body=orjson.dumps(body)))
    assert service.calls[0].priority == priority


@pytest.mark.parametrize("value", ["high", "-1", "1.5", "99999999999999", ""])
def test_a_priority_that_is_no_number_is_refused(service, value):
    (response,) = ask(door(service), infer(f"X-Request-Priority: {value}"))
    assert response.status == 400
    assert b"x-request-priority" in response.body


def test_embeddings_go_by_the_same_rules(service):
    keys = keys_of(shop={"priority": 2, "fast": True})
    data = post("/v1/embeddings", EMBEDDINGS, "Authorization: Bearer shop", "X-Request-Priority: 1")
    ask(door(service, keys), data)
    call = service.calls[0]
    assert (call.priority, call.tenant, call.fast) == (2, "shop", True)
    call.reply(embed(call))


def test_with_keys_nobody_promotes_itself_and_silence_is_no_promotion_either(service):
    keys = keys_of(low={"priority": 3}, high={"priority": 1})
    for key in ("low", "high"):
        for lines in ([], ["X-Request-Priority: 1"]):
            ask(door(service, keys), infer(f"X-API-Key: {key}", *lines))
    assert [call.priority for call in service.calls] == [3, 3, 2, 1]
    assert [call.fast for call in service.calls] == [False] * 4


ASKED = {
    "infer": infer(),
    "infer, nonsense": infer(body=b"{"),
    "embeddings": post("/v1/embeddings", EMBEDDINGS),
    "embeddings, nonsense": post("/v1/embeddings", b"{"),
    "metadata": get("/v2/models/echo"),
    "statistics": get("/v2/models/stats"),
    "models": get("/v1/models"),
    "index": post("/v2/repository/index"),
}


@pytest.mark.parametrize("name", ASKED)
def test_with_keys_whoever_has_none_gets_a_401_and_nothing_else(service, name):
    (response,) = ask(door(service, keys_of(shop={})), ASKED[name])
    assert response.status == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert b"API key" in response.body
    assert not service.calls


HOT = {
    "infer": "/v2/models/echo/infer",
    "generate": "/v2/models/echo/generate",
    "predict": "/v1/models/echo:predict",
    "embeddings": "/v1/embeddings",
    "texts": "/embed",
}


@pytest.mark.parametrize("name", HOT)
def test_a_key_is_asked_for_before_the_body_comes(service, name):
    connection = door(service, keys_of(shop={}))
    data = post(HOT[name], b"x" * 3000)
    (response,) = ask(connection, data[:-2000])
    assert response.status == 401
    assert response.headers.get("connection") != "close"
    assert ask(connection, data[-2000:-1]) == []
    (response,) = ask(connection, data[-1:] + infer("X-API-Key: nobody"))
    assert response.status == 401, "the rest was dropped and the connection goes on"
    assert not service.calls


LONG = {
    "announced": post("/v2/models/echo/infer", b"", "x: y").replace(b": 0\r", b": 9999999\r"),
    "chunked": b"POST /v2/models/echo/infer HTTP/1.1\r\nhost: x\r\n"
    b"transfer-encoding: chunked\r\n\r\n",
    "asked first": post("/v2/models/echo/infer", INFER, "Expect: 100-continue")[: -len(INFER)],
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_body_of_somebody_without_a_key_is_not_waited_for(service, name):
    connection = door(service, keys_of(shop={}))
    (response,) = ask(connection, LONG[name])
    assert (response.status, response.headers["connection"]) == (401, "close")
    protocol, line, _ = connection
    assert line.has_sent_eof
    assert protocol.memory.held_bytes == 0


def test_a_key_for_another_model_is_refused_before_the_body_comes(service):
    connection = door(service, keys_of(shop={"models": frozenset({"other"})}))
    (response,) = ask(connection, infer("X-API-Key: shop")[: -len(INFER)])
    assert response.status == 403


def test_who_dawdles_with_a_body_that_nobody_wants_is_let_go_without_a_second_answer(service):
    connection = door(service, keys_of(shop={}))
    assert len(ask(connection, infer()[:-3])) == 1
    protocol, line, _ = connection
    protocol.refuse_dawdler()
    assert line.closed
    assert line.take() == b""


def test_a_key_is_looked_up_once_for_a_connection_that_shows_it_again_and_again(service):
    keys = keys_of(shop={})
    looked_up = []
    keys.of = lambda headers, of=keys.of: looked_up.append(1) or of(headers)
    connection = door(service, keys)
    for body in (INFER, INFER + b" ", INFER + b"  "):
        ask(connection, infer("X-API-Key: shop", body=body))
    assert (len(service.calls), len(looked_up)) == (3, 1)
    ask(connection, infer("X-API-Key: other"))
    ask(connection, infer("X-API-Key: shop"))
    assert (len(service.calls), len(looked_up)) == (4, 3)


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready", "/metrics", "/"])
def test_probes_and_scrapers_need_no_key(service, path):
    (response,) = ask(door(service, keys_of(shop={})), get(path))
    assert response.status == 200


def test_a_key_for_another_model_is_a_403(service):
    connection = door(service, keys_of(shop={"models": frozenset({"other"})}))
    (response,) = ask(connection, infer("X-API-Key: shop"))
    assert response.status == 403
    assert b"'shop' is not for model 'echo'" in response.body
    assert not service.calls


def test_a_known_key_opens_the_cold_routes(service):
    (response,) = ask(door(service, keys_of(shop={})), get("/v2/models/echo", "X-API-Key: shop"))
    assert response.status == 200
