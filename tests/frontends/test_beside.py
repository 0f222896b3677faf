"""What stands beside /v2: lists of models for OpenAI's and KServe's clients, health and info."""

import asyncio

import orjson
import pytest
from tests.frontends.puppets import PuppetModel, PuppetService, PuppetText
from tests.frontends.test_cold import exchange

from xirang.frontends.cold import cold_app
from xirang.frontends.keys import Keys
from xirang.frontends.routes import hot_routes
from xirang.text.task import Task

CARD = {"id": "org/text", "object": "model", "created": 0, "owned_by": "xirang"}
XIRANG = {"depth_max": 4096, "elements_max": 900}


class Server:
    """Three models, of which one reads texts and one is not ready."""

    def __init__(self):
        config = {"max_batch_size": 32, "xirang": XIRANG}
        models = [PuppetModel(name, (), (), config=config) for name in ("echo", "org/text")]
        self.service = PuppetService(*models, PuppetModel("slow", (), (), is_ready=False))
        self.texts = {"org/text": PuppetText()}
        self.app = cold_app(self.service, self.texts)

    def ask(self, path, verb="GET"):
        response = asyncio.run(exchange(self.app, verb, path))
        return response.status, orjson.loads(response.body or b"null")


@pytest.fixture
def server():
    return Server()


def test_one_list_for_both_clients(server):
    assert server.ask("/v1/models") == (
        200,
        {"object": "list", "data": [CARD], "models": ["echo", "org/text", "slow"]},
    )


def test_a_model_has_a_card_where_it_reads_texts_and_a_state(server):
    text = CARD | {"name": "org/text", "ready": True}
    assert server.ask("/v1/models/org/text") == (200, text)
    assert server.ask("/v1/models/echo") == (200, {"name": "echo", "ready": True})
    status, body = server.ask("/v1/models/slow")
    assert (status, body["error"]["message"]) == (503, "Model with name slow is not ready.")
    status, body = server.ask("/v1/models/nope")
    assert (status, body["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "/v1/models/echo:predict",
        "/v1/models/org/text:predict",
        "/embed",
        "/tei/echo/rerank",
        "/v2/models/echo/generate",
        "/v2/models/echo/versions/1/generate_stream",
    ],
)
def test_what_takes_a_post_says_so(server, path):
    assert server.ask(path) == (405, {"error": "Method Not Allowed"})


@pytest.mark.parametrize("path", ["/health", "/ping", "/tei/org%2Ftext/health"])
def test_health(server, path):
    unhealthy = {"error": "unhealthy", "error_type": "Unhealthy"}
    assert server.ask(path) == (503, unhealthy)
    del server.service.models["slow"]
    assert server.ask(path) == (200, None)


def test_info_of_the_only_text_model(server):
    status, told = server.ask("/info")
    assert status == 200
    assert told["model_id"] == "org/text"
    assert told["model_type"] == {"embedding": {"pooling": "mean"}}
    assert (told["max_input_length"], told["max_client_batch_size"]) == (9000, 2048)
    assert (told["max_concurrent_requests"], told["max_batch_tokens"]) == (4096, 900)
    assert told["max_batch_requests"] == 32
    assert told["auto_truncate"] is True


def test_info_of_one_of_several(server):
    server.texts["echo"] = PuppetText(Task.CLASSIFY, ("no", "yes"))
    status, told = server.ask("/info")
    assert (status, told["error_type"]) == (422, "Validation")
    classes = {"id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}}
    assert server.ask("/tei/echo/info")[1]["model_type"] == {"classifier": classes}
    server.texts["echo"] = PuppetText(Task.SPARSE)
    assert server.ask("/tei/echo/info")[1]["model_type"] == {"embedding": {"pooling": "splade"}}
    server.texts["echo"] = PuppetText(Task.RERANK, ("LABEL_0",))
    assert "reranker" in server.ask("/tei/echo/info")[1]["model_type"]
    assert server.ask("/tei/none/info")[0] == 404


@pytest.mark.parametrize(
    ("url", "is_hot"),
    [
        (b"/", True),
        (b"/embed?x=1", True),
        (b"/tei/a%2Fb/embed", True),
        (b"/tei/a", True),
        (b"/tei/%ff/embed", False),
        (b"/tei/a/b/embed", False),
        (b"/tei//embed", False),
        (b"/embed/", False),
        (b"/v1/models/a:predict", True),
        (b"/v1/models/%ff:predict", False),
        (b"/v1/models/a:explain", False),
        (b"/v2/models/a/generate", True),
    ],
)
def test_which_urls_are_hot(server, url, is_hot):
    match = hot_routes(server.service, server.texts)
    assert (match(url) is not None) is is_hot


def test_without_a_key_openais_clients_are_told_in_their_form():
    app = cold_app(PuppetService(), {}, Keys({}))
    response = asyncio.run(exchange(app, "GET", "/v1/models"))
    assert response.status == 401
    error = orjson.loads(response.body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == "invalid_api_key"
    assert asyncio.run(exchange(app, "GET", "/health")).status == 200
