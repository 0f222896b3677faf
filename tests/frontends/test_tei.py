"""The routes of Text Embeddings Inference, with a puppet behind them."""

import asyncio

import numpy as np
import orjson
import pytest
from tests.frontends.puppets import (
    PuppetService,
    PuppetText,
    answer_of,
    connect,
    echo_model,
    embed,
    post,
    responses,
)

from xirang.errors import Expired, ModelFailed, NotReady, TooBusy
from xirang.frontends.exchange import Exchange
from xirang.frontends.headers import Headers
from xirang.frontends.routes import hot_routes
from xirang.frontends.texts.desk import TextDesk
from xirang.frontends.texts.tei import ACTS, TeiRoute
from xirang.tensors.tensor import to_array
from xirang.text.task import Task

LABELS = ("bad", "good", "odd")


class Desk:
    """A server with one model for each task, each of which answers what its test wants."""

    def __init__(self):
        self.texts = {
            "dense": PuppetText(prompts={"query": "q: "}),
            "words": PuppetText(Task.SPARSE),
            "classes": PuppetText(Task.CLASSIFY, LABELS),
            "score": PuppetText(Task.RERANK, ("LABEL_0",)),
        }
        self.service = PuppetService(*map(echo_model, self.texts))
        self.match = hot_routes(self.service, self.texts)
        self.exchange = None

    def ask(self, path, **body):
        return self.send(path, orjson.dumps(body))

    def send(self, path, body):
        self.exchange = Exchange(None, path.encode(), Headers())
        self.exchange.body = body
        self.match(path.encode())(self.exchange)
        return self

    def answer(self, *rows):
        """Answer the calls, one row each; the embedding of their tokens by default."""
        calls = list(self.service.calls)
        for call, row in zip(calls, rows or [None] * len(calls), strict=True):
            (name,) = call.outputs
            result = embed(call)
            if row is not None:
                result = answer_of({name: np.array([row], np.float32)})
            self.service.answer(result)
        return self.result()

    def result(self):
        return self.exchange.status, orjson.loads(self.exchange.response_body)

    def headers(self):
        lines = self.exchange.response_headers.decode().split("\r\n")
        return dict(line.split(": ", 1) for line in lines if line)

    def ids(self):
        calls = self.service.calls
        return [to_array(call.inputs["input_ids"])[0].tolist() for call in calls]


@pytest.fixture
def desk():
    return Desk()


# ---------------------------------------------------------------------- vectors


def test_one_text_is_a_list_of_one_vector_of_length_one(desk):
    status, body = desk.ask("/embed", inputs="ab").answer((3, 0, 4, 0))
    assert (status, body) == (200, [[pytest.approx(0.6), 0, pytest.approx(0.8), 0]])


@pytest.mark.parametrize(
    ("inputs", "ids"),
    [
        ("ab", [[97, 98]]),
        (["a", "bc"], [[97], [98, 99]]),
        ([5, 6], [[5, 6]]),
        ([[5, 6], "a"], [[5, 6], [97]]),
    ],
)
def test_each_text_is_a_call_of_its_own(desk, inputs, ids):
    desk.ask("/embed", inputs=inputs, normalize=False)
    assert desk.ids() == ids
    assert {(call.model, call.outputs) for call in desk.service.calls} == {("dense", ("sentence",))}
    assert [row[0] for row in desk.answer()[1]] == [float(sum(row)) for row in ids]


def test_a_vector_may_be_left_as_long_as_it_is(desk):
    assert desk.ask("/embed", inputs="a", normalize=False).answer((3, 0, 4, 0))[1] == [[3, 0, 4, 0]]


def test_of_a_model_that_scales_itself_the_states_are_pooled_instead(desk):
    desk.texts["dense"].folder = PuppetText().folder.__class__(None, is_normalised=True)
    desk.ask("/embed", inputs="a", normalize=False)
    assert desk.service.calls[0].outputs == ("states",)
    assert desk.answer(((1, 2), (3, 4)))[1] == [[4, 6]]
    desk.ask("/embed", inputs="a")
    assert desk.service.calls[0].outputs == ("sentence",)
    assert desk.answer((3, 4))[1] == [[3, 4]]  # believed


def test_fewer_dimensions_are_scaled_again(desk):
    desk.ask("/embed", inputs="a", dimensions=2)
    assert desk.answer((3, 4, 9, 9))[1] == [[pytest.approx(0.6), pytest.approx(0.8)]]
    assert desk.ask("/embed", inputs="a", dimensions=5).result()[0] == 422


def test_a_prompt_by_its_name(desk):
    desk.ask("/embed", inputs="a", prompt_name="query")
    assert desk.ids() == [[*map(ord, "q: a")]]
    status, body = desk.ask("/embed", inputs="a", prompt_name="no").result()
    assert (status, body["error_type"]) == (422, "Validation")


@pytest.mark.parametrize(
    ("members", "kept"),
    [
        ({}, "a" * 9000),
        ({"truncate": True}, "a" * 9000),
        ({"truncation_direction": "Left"}, "a" * 8997 + "end"),
        ({"truncate": None, "truncation_direction": "left"}, "a" * 8997 + "end"),
    ],
)
def test_a_text_that_is_too_long_is_cut_where_it_is_wished(desk, members, kept):
    ids = asyncio.run(ids_of_a_long_text(desk, members))
    assert ids == [[*map(ord, kept)]]


async def ids_of_a_long_text(desk, members):
    desk.ask("/embed", inputs="a" * 9000 + "end", **members)
    await until(lambda: desk.service.calls or desk.exchange.status)
    return desk.ids()


async def until(is_done):
    for _ in range(10_000):
        if is_done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


def test_or_refused_with_both_lengths(desk):
    asyncio.run(ids_of_a_long_text(desk, {"truncate": False}))
    status, body = desk.result()
    assert (status, body["error_type"]) == (413, "Validation")
    assert "has 9003 tokens; expected 9000" in body["error"]


def test_one_vector_a_token(desk):
    desk.ask("/embed_all", inputs=["ab", "c"])
    assert {call.outputs for call in desk.service.calls} == {("states",)}
    body = desk.answer(((1, 2), (3, 4)), ((5, 6),))[1]
    assert body == [[[1, 2], [3, 4]], [[5, 6]]]


def test_words_that_have_a_weight(desk):
    desk.ask("/embed_sparse", inputs="a")
    assert desk.service.calls[0].model == "words"
    body = desk.answer((0, 0.1, 0, 2))[1]
    assert body == [[{"index": 1, "value": 0.1}, {"index": 3, "value": 2.0}]]


def test_how_near_sentences_are(desk):
    sentences = {"source_sentence": "a", "sentences": ["b", "c", "d"]}
    desk.ask("/similarity", inputs=sentences, parameters={"prompt_name": "query"})
    assert len(desk.ids()[0]) == 4
    _, body = desk.answer((2, 0), (3, 0), (0, 4), (-1, 0))
    assert body == [1, 0, -1]


# ---------------------------------------------------------------------- scores


def test_classes_by_their_likelihood(desk):
    status, body = desk.ask("/predict", inputs="a").answer((0, 2, 1))
    assert status == 200
    assert [each["label"] for each in body] == ["good", "odd", "bad"]
    powers = np.exp([2, 1, 0])
    assert [each["score"] for each in body] == pytest.approx((powers / powers.sum()).tolist())


def test_raw_scores(desk):
    body = desk.ask("/predict", inputs="a", raw_scores=True).answer((0, -2, 900))[1]
    assert [(each["label"], each["score"]) for each in body] == [
        ("odd", 900), ("bad", 0), ("good", -2),
    ]  # fmt: skip


def test_likelihoods_of_great_logits_do_not_overflow(desk):
    body = desk.ask("/predict", inputs="a").answer((0, -1e30, 1e30))[1]
    assert [each["score"] for each in body] == [1, 0, 0]
    body = desk.ask("/rerank", query="a", texts=["b", "c"]).answer((-1e30,), (1e30,))[1]
    assert [each["score"] for each in body] == [1, 0]


def test_labels_that_may_hold_together_are_judged_apart(desk):
    desk.texts["classes"] = PuppetText(Task.CLASSIFY, LABELS, has_many_labels=True)
    body = desk.ask("/predict", inputs="a").answer((0, 0, 0))[1]
    assert [each["score"] for each in body] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("inputs", "ids", "is_batch"),
    [
        ("a", [[97]], False),
        (["a"], [[97]], False),
        (["a", "bc"], [[97, 98, 99]], False),
        ([["a"]], [[97]], True),
        ([["a"], ["b", "c"]], [[97], [98, 99]], True),
    ],
)
def test_texts_and_pairs_of_predict(desk, inputs, ids, is_batch):
    desk.ask("/predict", inputs=inputs)
    assert desk.ids() == ids
    body = desk.answer(*[(1, 2, 3)] * len(ids))[1]
    assert type(body[0]) is (list if is_batch else dict)


def test_a_score_is_a_prediction_too(desk):
    body = desk.ask("/tei/score/predict", inputs=["a", "b"]).answer((0,))[1]
    assert body == [{"score": 0.5, "label": "LABEL_0"}]


def test_texts_by_how_well_they_answer(desk):
    desk.ask("/rerank", query="q", texts=["a", "b", "c"], return_text=True)
    assert desk.ids() == [[ord("q"), ord(letter)] for letter in "abc"]
    body = desk.answer((-1,), (1,), (0,))[1]
    assert [(each["index"], each["text"]) for each in body] == [(1, "b"), (2, "c"), (0, "a")]
    assert body[1]["score"] == 0.5
    body = desk.ask("/rerank", query="q", texts=["a", "b"], raw_scores=True).answer((-1,), (3,))[1]
    assert body == [{"index": 1, "score": 3}, {"index": 0, "score": -1}]


def test_a_score_that_is_none_is_said(desk):
    status, body = desk.ask("/rerank", query="q", texts=["a"]).answer((np.nan,))
    assert (status, body) == (424, {"error": "score is NaN", "error_type": "Backend"})


# ---------------------------------------------------------------------- tokens


def test_tokens_and_back(desk):
    status, body = desk.ask("/tei/dense/tokenize", inputs=["ab", "c"]).result()
    assert status == 200
    assert [[piece["id"] for piece in text] for text in body] == [[97, 98], [99]]
    assert body[0][0]["special"]
    body = desk.ask("/tei/dense/tokenize", inputs="a", add_special_tokens=False).result()[1]
    assert body == [[{"id": 97, "special": False}]]
    body = desk.ask("/tei/dense/tokenize", inputs="a", prompt_name="query").result()[1]
    assert len(body[0]) == 4
    assert desk.ask("/tei/dense/decode", ids=[97, 98]).result() == (200, ["ab"])
    body = desk.ask("/tei/dense/decode", ids=[[97], [98]], skip_special_tokens=False).result()[1]
    assert body == ["a!", "b!"]
    assert desk.ask("/tei/dense/decode", ids=[128]).result()[0] == 422
    assert desk.ask("/tei/dense/decode", ids=[-1]).result()[0] == 422


# ---------------------------------------------------------------------- which model


def test_a_route_takes_the_only_model_that_will_do(desk):
    for path, model in (
        ("/embed", "dense"),
        ("/embed_sparse", "words"),
        ("/predict", "classes"),
    ):
        desk.ask(path, inputs="a")
        assert desk.service.calls.pop().model == model


def test_of_several_one_must_be_named(desk):
    desk.texts["other"] = PuppetText()
    desk.service.models["other"] = echo_model("other")
    status, body = desk.ask("/embed", inputs="a").result()
    assert status == 422
    assert "name one, as /tei/dense/" in body["error"]
    desk.ask("/tei/other/embed", inputs="a")
    assert desk.service.calls.pop().model == "other"
    assert desk.ask("/tokenize", inputs="a").result()[0] == 422


@pytest.mark.parametrize(
    ("model", "member", "calls"),
    [
        ("dense", {"inputs": "a"}, 1),
        ("dense", {"inputs": '"source_sentence"'}, 1),
        ("dense", {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}, 3),
        ("words", {"inputs": "a"}, 1),
        ("classes", {"inputs": ["a", "b"]}, 1),
        ("score", {"query": "q", "texts": ["a", "b"]}, 2),
    ],
)
def test_the_base_url_does_what_the_model_is_for(desk, model, member, calls):
    desk.ask(f"/tei/{model}", **member)
    assert len(desk.service.calls) == calls
    assert desk.match(f"/tei/{model}/".encode())
    texts = {model: desk.texts[model]}
    exchange = Exchange(None, b"/", Headers())
    exchange.body = orjson.dumps(member)
    hot_routes(desk.service, texts)(b"/")(exchange)
    assert len(desk.service.calls) == 2 * calls


WRONG = {
    ("embed", "classes"): "Model is not an embedding model",
    ("embed_all", "score"): "Model is not an embedding model",
    ("similarity", "words"): "Model is not an embedding model",
    ("embed_sparse", "dense"): "Model is not an embedding model with SPLADE pooling",
    ("predict", "dense"): "Model is not a classifier model",
    ("rerank", "classes"): "model is not a re-ranker model",
}


@pytest.mark.parametrize(("act", "model"), WRONG)
def test_a_model_for_something_else_is_424(desk, act, model):
    body = {"inputs": "a"}
    if act == "rerank":
        body = {"query": "q", "texts": ["a"]}
    if act == "similarity":
        body = {"inputs": {"source_sentence": "a", "sentences": ["b"]}}
    status, found = desk.ask(f"/tei/{model}/{act}", **body).result()
    assert (status, found) == (424, {"error": WRONG[act, model], "error_type": "Backend"})
    texts = {model: desk.texts[model]}
    exchange = Exchange(None, b"", Headers())
    exchange.body = orjson.dumps(body)
    TeiRoute(TextDesk(desk.service, texts), ACTS[act])(exchange)
    assert exchange.status == 424


def test_without_states_there_is_no_vector_a_token(desk):
    desk.texts["dense"].hidden = ""
    assert desk.ask("/embed_all", inputs="a").result()[0] == 424


def test_unknown_models_and_acts(desk):
    assert desk.ask("/tei/none/embed", inputs="a").result()[0] == 404
    assert desk.ask("/tei/none/tokenize", inputs="a").result()[0] == 404
    assert desk.match(b"/tei/dense/nothing") is None


# ---------------------------------------------------------------------- what is wrong

REFUSED = {
    "no body": ("/embed", b"", 422),
    "no JSON": ("/embed", b"{", 422),
    "no UTF-8": ("/embed", b'{"inputs":"\xff"}', 422),
    "deep": ("/embed", b'{"inputs":' + b"[" * 5000 + b"]" * 5000 + b"}", 422),
    "no object": ("/embed", b"[]", 422),
    "nothing": ("/embed", b"{}", 422),
    "number": ("/embed", b'{"inputs":3}', 422),
    "mixed": ("/embed", b'{"inputs":["a",3]}', 422),
    "fraction": ("/embed", b'{"inputs":[1.5]}', 422),
    "empty text": ("/embed", b'{"inputs":""}', 422),
    "an empty text": ("/embed", b'{"inputs":["a",""]}', 422),
    "unknown id": ("/embed", b'{"inputs":[128]}', 422),
    "negative id": ("/embed", b'{"inputs":[[-1]]}', 422),
    "no texts": ("/embed", b'{"inputs":[]}', 400),
    "too many": ("/embed", orjson.dumps({"inputs": ["a"] * 2049}), 413),
    "truncate": ("/embed", b'{"inputs":"a","truncate":3}', 422),
    "direction": ("/embed", b'{"inputs":"a","truncation_direction":"Up"}', 422),
    "normalize": ("/embed", b'{"inputs":"a","normalize":null}', 422),
    "three": ("/predict", b'{"inputs":["a","b","c"]}', 422),
    "three in a batch": ("/predict", b'{"inputs":[["a","b","c"]]}', 422),
    "uneven": ("/predict", b'{"inputs":[["a"],"b"]}', 422),
    "no sequence": ("/predict", b'{"inputs":[]}', 400),
    "an empty sequence": ("/predict", b'{"inputs":[[]]}', 422),
    "no query": ("/rerank", b'{"texts":["a"]}', 422),
    "no ranked": ("/rerank", b'{"query":"q","texts":[]}', 400),
    "too much": (
        "/rerank",
        orjson.dumps({"query": "q" * (1 << 14), "texts": ["a"] * 1025}),
        413,
    ),
    "no sentences": ("/similarity", b'{"inputs":{"source_sentence":"a","sentences":[]}}', 400),
    "no tokens": ("/tei/dense/tokenize", b'{"inputs":[]}', 400),
    "no ids": ("/tei/dense/decode", b'{"ids":[]}', 400),
    "mixed ids": ("/tei/dense/decode", b'{"ids":[1,[2]]}', 422),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_its_form(desk, name):
    path, body, expected = REFUSED[name]
    status, found = desk.send(path, body).result()
    assert status == expected, found
    assert found.keys() == {"error", "error_type"}
    assert found["error_type"] == ("Empty" if expected == 400 else "Validation")
    assert not desk.service.calls


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (TooBusy("full"), 429, "Overloaded"),
        (ModelFailed("no"), 424, "Backend"),
        (NotReady("draining"), 503, "Unhealthy"),
        (Expired("late"), 504, "Backend"),
    ],
)
def test_what_goes_wrong_later(desk, error, status, kind):
    desk.ask("/embed", inputs=["a", "b"])
    desk.service.calls[1].reply(error)
    assert desk.result()[0] == status
    assert desk.result()[1]["error_type"] == kind
    assert all(ticket.is_cancelled for ticket in desk.service.tickets)


def test_a_fault_of_ours_is_not_told(desk, caplog):
    desk.ask("/embed", inputs="a")
    desk.service.answer(object())
    status, body = desk.result()
    assert status == 500
    assert "AttributeError" not in body["error"]
    assert "AttributeError" in caplog.text


# ---------------------------------------------------------------------- headers


def test_how_much_it_was_and_how_long_it_took(desk):
    desk.exchange = None
    desk.ask("/rerank", query="qq", texts=["a", "bcd"])
    desk.service.time_ns = 5_999_999
    desk.answer((1,), (2,))
    headers = desk.headers()
    assert headers["content-type"] == "application/json"
    assert {name: value for name, value in headers.items() if name[:2] == "x-"} == {
        "x-compute-type": "cpu",
        "x-compute-time": "5",
        "x-compute-characters": "8",
        "x-compute-tokens": "8",
        "x-total-time": "5",
        "x-tokenization-time": "0",
        "x-queue-time": "0",
        "x-inference-time": "0",
    }


def test_a_body_that_is_too_large_is_refused_in_the_form_of_its_route(desk):
    for path, keys in (("/embed", {"error", "error_type"}), ("/v1/embeddings", {"error"})):
        protocol, line, _ = connect(desk.match, body_bytes_max=10)
        protocol.data_received(post(path, b"x" * 11))
        (response,) = responses(line.take())
        assert response.status == 413
        found = orjson.loads(response.body)
        assert found.keys() == keys
        if path != "/embed":
            assert found["error"]["type"] == "invalid_request_error"
