"""The embeddings route, with a puppet behind it: forms of input, of vectors, and of errors."""

import asyncio
import base64
from types import SimpleNamespace

import numpy as np
import orjson
import pytest
from tests.frontends.puppets import PuppetService, PuppetText, echo_model, embed

from xirang.errors import Expired, InvalidRequest, NotReady, TooBusy
from xirang.frontends.exchange import Exchange
from xirang.frontends.headers import Headers
from xirang.frontends.texts import desk as texts
from xirang.frontends.texts.desk import TextDesk
from xirang.frontends.texts.openai import EmbeddingsRoute
from xirang.tensors.tensor import to_array


class Desk:
    """A route, its puppet service, and the exchange that went last."""

    def __init__(self):
        self.service = PuppetService(echo_model("m"))
        self.desk = TextDesk(self.service, {"m": PuppetText()})
        self.route = EmbeddingsRoute(self.desk)
        self.exchange = None

    def ask(self, headers=(), **members):
        members = {"model": "m", "input": "ab"} | members
        return self.send(orjson.dumps(members), headers)

    def send(self, body, headers=()):
        self.exchange = Exchange(None, b"/v1/embeddings", Headers(dict(headers).items()))
        self.exchange.body = body
        self.route(self.exchange)
        return self

    async def ask_and_wait(self, meanwhile=lambda _: None, **members):
        """Ask what is tokenised on a thread; returns when the loop has its ids, or an answer."""
        arrived = asyncio.Event()
        submit = self.desk._submit

        def submit_and_tell(*arguments):
            submit(*arguments)
            arrived.set()

        self.desk._submit = submit_and_tell
        self.ask(**members)
        assert not self.service.calls
        self.exchange.wire = SimpleNamespace(answered=lambda _: arrived.set())
        meanwhile(self.exchange)
        await asyncio.wait_for(arrived.wait(), 10)

    def answer_all(self):
        while self.service.calls:
            self.service.answer(embed(self.service.calls[0]))
        return self.result()

    def result(self):
        return self.exchange.status, orjson.loads(self.exchange.response_body)


@pytest.fixture
def desk():
    return Desk()


def test_one_text(desk):
    status, body = desk.ask(input="ab", user="u").answer_all()
    assert status == 200
    assert body == {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [195.0, 0.0, 3.0, 4.0]}],
        "model": "m",
        "usage": {"prompt_tokens": 2, "total_tokens": 2},
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a", "bc"], [[97], [98, 99]]),
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5], [6, 7]], [[5], [6, 7]]),
    ],
)
def test_each_item_is_a_call_of_its_own_and_keeps_its_place(desk, given, expected):
    desk.ask(input=given)
    calls = list(desk.service.calls)
    assert [to_array(call.inputs["input_ids"]).tolist() for call in calls] == [
        [ids] for ids in expected
    ]
    assert {call.outputs for call in calls} == {("sentence",)}
    for call in reversed(calls):
        assert not desk.exchange.status
        call.reply(embed(call))
    _, body = desk.result()
    assert [item["index"] for item in body["data"]] == list(range(len(expected)))
    assert [item["embedding"][0] for item in body["data"]] == [sum(ids) for ids in expected]
    assert body["usage"]["total_tokens"] == sum(map(len, expected))


def test_base64_is_little_endian_float32(desk):
    _, body = desk.ask(encoding_format="base64").answer_all()
    raw = base64.b64decode(body["data"][0]["embedding"])
    assert np.frombuffer(raw, "<f4").tolist() == [195.0, 0.0, 3.0, 4.0]


def test_fewer_dimensions_are_of_length_one_again(desk):
    _, body = desk.ask(dimensions=2).answer_all()
    assert body["data"][0]["embedding"] == [1.0, 0.0]
    _, body = desk.ask(dimensions=4).answer_all()
    assert body["data"][0]["embedding"] == [195.0, 0.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("headers", "budget_ns"),
    [
        ({}, None),
        ({b"x-stainless-read-timeout": b"600"}, 600 * 10**9),
        ({b"x-stainless-read-timeout": b"600", b"x-request-timeout-ms": b"20"}, 20 * 10**6),
    ],
)
def test_budget(desk, headers, budget_ns):
    desk.ask(headers)
    assert desk.service.calls[0].budget_ns == budget_ns


REFUSED = {
    "no input": ({"input": None}, "input", "'input' must be a string"),
    "number": ({"input": 5}, "input", "'input' must be a string"),
    "object": ({"input": {"a": 1}}, "input", "'input' must be a string"),
    "empty text": ({"input": ""}, "input", "must not hold an empty string"),
    "empty list": ({"input": []}, "input", "1 to 2048 items, got 0"),
    "empty item": ({"input": ["a", ""]}, "input", "must not hold an empty string"),
    "empty ids": ({"input": [[]]}, "input", "must not hold an empty string"),
    "too many": ({"input": ["a"] * 2049}, "input", "1 to 2048 items, got 2049"),
    "mixed": ({"input": ["a", 5]}, "input", "'input' must be a string"),
    "mixed lists": ({"input": ["a", [5]]}, "input", "'input' must be a string"),
    "bool ids": ({"input": [True]}, "input", "'input' must be a string"),
    "fraction": ({"input": [[1.5]]}, "input", "'input' must be a string"),
    "deep": ({"input": [[[1]]]}, "input", "'input' must be a string"),
    "negative id": ({"input": [-1]}, "input", "outside 0 to 127"),
    "unknown id": ({"input": [128]}, "input", "outside 0 to 127"),
    "huge id": ({"input": [2**63]}, "input", "outside 0 to 127"),
    "too long": ({"input": [1] * 9001}, "input", "expected at most 9000"),
    "model": ({"model": 5}, "model", "'model' must be a string"),
    "format": ({"encoding_format": "hex"}, "encoding_format", "'float' or 'base64'"),
    "format list": ({"encoding_format": [1]}, "encoding_format", "'float' or 'base64'"),
    "dimensions": ({"dimensions": 5}, "dimensions", "but the model has 4"),
    "no dimensions": ({"dimensions": 0}, "dimensions", "positive integer"),
    "dimensions bool": ({"dimensions": True}, "dimensions", "positive integer"),
    "user": ({"user": 3}, "user", "'user' must be a string"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_openai_form(desk, name):
    members, field, message = REFUSED[name]
    if name == "too long":  # on a thread
        return asyncio.run(refused_on_a_thread(members, message))
    status, body = desk.ask(**members).result()
    assert status == 400
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["param"] == field
    assert body["error"]["type"] == "invalid_request_error"
    assert message in body["error"]["message"]
    assert not desk.service.calls
    return None


async def refused_on_a_thread(members, message):
    desk = Desk()
    await desk.ask_and_wait(**members)
    assert desk.result()[0] == 400
    assert message in desk.result()[1]["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_what_is_not_an_object_is_refused(desk, body):
    assert desk.send(body).result()[0] == 400


def test_unknown_model(desk):
    status, body = desk.ask(model="nope").result()
    assert status == 404
    assert body["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (TooBusy("full", retry_after_ns=10**7), 429, "rate_limit_error", "rate_limit_exceeded"),
        (NotReady("draining"), 503, "server_error", None),
        (Expired("late"), 504, "timeout_error", "timeout"),
    ],
)
def test_first_error_answers_and_takes_the_others_back(desk, error, status, kind, code):
    desk.ask(input=["a", "b", "c"])
    calls = list(desk.service.calls)
    calls[1].reply(error)
    found, body = desk.result()
    assert found == status
    assert body["error"]["type"] == kind
    assert body["error"]["code"] == code
    assert all(ticket.is_cancelled for ticket in desk.service.tickets)
    calls[0].reply(embed(calls[0]))
    assert (b"retry-after-ms" in desk.exchange.response_headers) is (status in {429, 503})


def test_refusal_in_the_middle_takes_the_others_back(desk):
    submit = desk.service.submit

    def refuse_the_third(call):
        if len(desk.service.tickets) == 2:
            raise TooBusy("full")
        return submit(call)

    desk.service.submit = refuse_the_third
    desk.ask(input=["a", "b", "c", "d"])
    assert desk.result()[0] == 429
    assert [ticket.is_cancelled for ticket in desk.service.tickets] == [True, True]


def test_answers_before_submit_returns(desk):
    submit = desk.service.submit

    def prompt(call):
        ticket = submit(call)
        desk.service.answer(embed(call))
        return ticket

    desk.service.submit = prompt
    assert desk.ask(input=["a", "b"]).result()[0] == 200


def test_client_that_vanishes_takes_every_item_with_it(desk):
    desk.ask(input=["a", "b"])
    desk.exchange.abandon()
    assert all(ticket.is_cancelled for ticket in desk.service.tickets)
    assert not desk.exchange.status


def test_unexpected_fault_is_not_told(desk, caplog):
    desk.ask()
    desk.service.answer(object())
    status, body = desk.result()
    assert status == 500
    assert "AttributeError" not in body["error"]["message"]
    assert "AttributeError" in caplog.text


def test_long_texts_are_tokenised_off_the_loop_in_one_hop(desk):
    async def run():
        await desk.ask_and_wait(input=["a" * 3000, "b" * 3000])
        assert len(desk.service.calls) == 2
        return desk.answer_all()

    status, body = asyncio.run(run())
    assert status == 200
    assert body["usage"]["prompt_tokens"] == 6000


def test_client_that_vanishes_while_its_text_is_tokenised(desk):
    async def run():
        await desk.ask_and_wait(Exchange.abandon, input="a" * 5000)

    asyncio.run(run())
    assert not desk.service.calls


def test_tokenising_is_bounded(desk, monkeypatch):
    monkeypatch.setattr(texts, "TOKENISING_MAX", 0)
    assert desk.ask(input="a" * 5000).result()[0] == 429


def test_text_that_the_tokenizer_refuses(desk, monkeypatch):
    def refuse(self, text, manner):
        raise InvalidRequest("too long")

    monkeypatch.setattr(PuppetText, "encode", refuse)
    status, body = desk.ask().result()
    assert status == 400
    assert body["error"]["message"] == "too long"
