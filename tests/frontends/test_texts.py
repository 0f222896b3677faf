"""Texts are read by the tokenizer of the model that runs them, also where that one changes."""

import asyncio

import orjson
import pytest
from tests.frontends.puppets import PuppetService, PuppetText, echo_model, embed

from xirang.frontends.exchange import Exchange
from xirang.frontends.headers import Headers
from xirang.frontends.texts.desk import INLINE_CHARACTERS_MAX, TextDesk
from xirang.frontends.texts.openai import EmbeddingsRoute
from xirang.tensors.tensor import to_array
from xirang.text.task import Task

LONG = INLINE_CHARACTERS_MAX + 1


class Server:
    """A model `m` whose text may be replaced while somebody's texts are read on a thread."""

    def __init__(self, text=None):
        self.texts = {"m": text or PuppetText()}
        self.service = PuppetService(echo_model("m"))
        self.route = EmbeddingsRoute(TextDesk(self.service, self.texts))

    def ask(self, item):
        exchange = Exchange(None, b"/v1/embeddings", Headers())
        exchange.body = orjson.dumps({"model": "m", "input": item})
        self.route(exchange)
        return exchange

    def ids(self):
        return [to_array(call.inputs["input_ids"])[0].tolist() for call in self.service.calls]


async def until(is_done):
    for _ in range(100_000):
        if is_done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


def replaced(item, *successors, text=None):
    """Ask; while the texts are read the successors come, each in the place of the one before."""
    server = Server(text)

    async def run():
        exchange = server.ask(item)
        assert not server.service.calls
        for successor in successors:
            if successor is None:
                del server.texts["m"]
            else:
                server.texts["m"] = successor
        await until(lambda: server.service.calls or exchange.status)
        while server.service.calls and not exchange.status:
            server.seen = server.ids()
            for _ in range(len(server.service.calls)):
                server.service.answer(embed(server.service.calls[0]))
        return exchange

    exchange = asyncio.run(run())
    return server, exchange.status, orjson.loads(exchange.response_body)


def test_texts_of_a_model_that_is_replaced_are_read_again_by_its_successor():
    server, status, body = replaced(["a" * LONG, "b"], PuppetText(shift=5))
    assert status == 200
    assert server.seen == [[ord("f")] * LONG, [ord("g")]]
    assert body["usage"]["prompt_tokens"] == LONG + 1


def test_a_successors_bound_on_lengths_holds():
    short = PuppetText()
    short.length_max = 7
    server, status, _ = replaced("a" * LONG, PuppetText(shift=1), short)
    assert status == 200
    assert server.seen == [[ord("a")] * 7]


def test_a_successors_other_prompt_and_other_output_hold():
    other = PuppetText(prompts={"p": "!"}, default_prompt="p")
    other.output = "vectors"
    server = Server()

    async def run():
        server.ask("a" * LONG)
        server.texts["m"] = other
        await until(lambda: server.service.calls)

    asyncio.run(run())
    assert server.service.calls[0].outputs == ("vectors",)
    assert server.ids() == [[ord("!"), *[ord("a")] * LONG]]


def test_token_ids_are_held_against_the_successor():
    small = PuppetText()
    small.vocabulary_size = 50
    _, status, body = replaced([97] * LONG, small)
    assert (status, body["error"]["param"]) == (400, "input")
    assert "outside 0 to 49" in body["error"]["message"]


@pytest.mark.parametrize("successor", [None, PuppetText(Task.SPARSE)])
def test_a_model_that_went_or_is_for_something_else_now_is_404(successor):
    _, status, body = replaced("a" * LONG, successor)
    assert (status, body["error"]["code"]) == (404, "model_not_found")


def test_who_has_gone_meanwhile_is_not_read_again():
    server, read = Server(), []
    successor = PuppetText()
    successor.encode = lambda *_: read.append(1)

    async def run():
        exchange = server.ask("a" * LONG)
        server.texts["m"] = successor
        exchange.abandon()
        await until(lambda: not server.route._desk._tokenising)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert not read
    assert not server.service.calls
