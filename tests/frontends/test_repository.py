"""Loading and unloading over HTTP: what is taken, what is refused, and by whom."""

import asyncio
import base64
import hashlib

import orjson
import pytest
from tests.frontends.puppets import PuppetService
from tests.frontends.test_cold import exchange

from xirang.errors import InvalidRequest, NotReady
from xirang.frontends.cold import admin_app, cold_app
from xirang.frontends.keys import Grant, Keys
from xirang.frontends.v2.repository import decode, managing_routes

LOAD, UNLOAD = "/v2/repository/models/m/load", "/v2/repository/models/m/unload"


class PuppetRepository:
    """Notes what is wished, and refuses if it is told to."""

    def __init__(self):
        self.wishes = []
        self.refusal = None

    async def load(self, name, parameters):
        if self.refusal is not None:
            raise self.refusal
        self.wishes.append((name, parameters))

    async def unload(self, name):
        self.wishes.append(name)


@pytest.fixture
def repository():
    return PuppetRepository()


def ask(repository, verb, path, body=b""):
    app = cold_app(PuppetService(), {}, None, managing_routes(repository))
    return asyncio.run(exchange(app, verb, path, body))


def test_a_model_is_loaded_with_what_comes_along(repository):
    answer = ask(repository, "POST", LOAD)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-type"] == "application/json"
    sent = {"config": "{}", "file:1/model.onnx": base64.b64encode(b"abc").decode()}
    assert ask(repository, "POST", LOAD, orjson.dumps({"parameters": sent})).status == 200
    assert repository.wishes == [("m", {}), ("m", {"config": "{}", "file:1/model.onnx": b"abc"})]


def test_a_model_is_unloaded(repository):
    body = b'{"parameters":{"unload_dependents":true}}'
    assert ask(repository, "POST", UNLOAD, body).status == 200
    assert repository.wishes == ["m"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "failed to parse the request JSON"),
        (b"[]", "whose 'parameters' are an object"),
        (b'{"parameters":[]}', "whose 'parameters' are an object"),
        (b'{"parameters":{"config":3}}', "parameter 'config' must be a string"),
        (b'{"parameters":{"file:1/x":"!!"}}', "parameter 'file:1/x' must be a file in base64"),
        ('{"parameters":{"file:1/x":"é"}}'.encode(), "must be a file in base64"),
    ],
)
def test_what_is_not_in_that_form_is_refused(repository, body, message):
    answer = ask(repository, "POST", LOAD, body)
    assert answer.status == 400
    assert message in orjson.loads(answer.body)["error"]
    with pytest.raises(InvalidRequest):
        decode(body)
    assert repository.wishes == []


def test_a_refusal_is_told(repository):
    repository.refusal = NotReady("explicit model load / unload is not allowed")
    answer = ask(repository, "POST", LOAD)
    assert (answer.status, answer.body) == (
        503,
        b'{"error":"explicit model load / unload is not allowed"}',
    )


def test_verbs_and_named_repositories_are_answered_as_by_triton(repository):
    assert ask(repository, "GET", LOAD).status == 405
    answer = ask(repository, "POST", "/v2/repository/foo/models/m/load")
    assert (answer.status, answer.body) == (
        501,
        b'{"error":"\'repository_name\' specification is not supported"}',
    )
    assert ask(repository, "POST", "/v2/repository/foo/index").status == 200
    assert repository.wishes == []


def keys():
    def grant(key, *, admin):
        digest = hashlib.sha256(key).hexdigest()
        return Grant(digest, admin=admin, name=key.decode())

    return Keys({"user": grant(b"user", admin=False), "boss": grant(b"boss", admin=True)})


@pytest.mark.parametrize("make", [cold_app, admin_app])
@pytest.mark.parametrize(("key", "status"), [(None, 401), (b"user", 403), (b"boss", 200)])
def test_with_keys_only_an_admins_key_manages(repository, make, key, status):
    texts = () if make is admin_app else ({},)
    app = make(PuppetService(), *texts, keys(), managing_routes(repository))
    headers = [] if key is None else [(b"authorization", b"Bearer " + key)]

    async def with_headers(scope, receive, send):
        await app(scope | {"headers": headers}, receive, send)

    for path in (LOAD, UNLOAD, "/v2/repository/foo/models/m/load"):
        found = asyncio.run(exchange(with_headers, "POST", path))
        assert found.status == (501 if status == 200 and "foo" in path else status)
    assert bool(repository.wishes) == (status == 200)
