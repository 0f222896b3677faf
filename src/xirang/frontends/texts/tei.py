"""POST /embed and its like: the routes of Text Embeddings Inference, for all text models.

That server has one model. Where we have several, a route takes the only one that is made for it;
`/tei/{model}/embed` names another, and `/tei/{model}` is the base URL that a client is given.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from xirang.errors import InvalidRequest
from xirang.frontends.errors import JSON_TYPE
from xirang.frontends.exchange import Exchange
from xirang.frontends.service import TextModel
from xirang.frontends.texts import tei_answers as answers
from xirang.frontends.texts.desk import TextDesk, text_of
from xirang.frontends.texts.gathering import Gathering, Item, TextRequest
from xirang.frontends.texts.openai import check_dimensions
from xirang.frontends.texts.tei_errors import WrongTask, error_response
from xirang.frontends.texts.tei_requests import (
    Cut,
    DecodeBody,
    EmbedBody,
    PredictBody,
    RerankBody,
    SimilarityBody,
    TokenizeBody,
    check_count,
    decode,
    ids_of,
    items_of,
    pairs_of,
    sequences_of,
    texts_of,
)
from xirang.text.task import Task
from xirang.text.tokenizer import Manner

EMBEDDERS = (Task.EMBED,)
SPARSE = (Task.SPARSE,)
CLASSIFIERS = (Task.CLASSIFY, Task.RERANK)
RERANKERS = (Task.RERANK,)
ANY = tuple(Task)

_WORDS = {
    EMBEDDERS: "Model is not an embedding model",
    SPARSE: "Model is not an embedding model with SPLADE pooling",
    CLASSIFIERS: "Model is not a classifier model",
    RERANKERS: "model is not a re-ranker model",
    ANY: "no model here reads texts",
}
"""What is said of a model that is for something else; in that server's words."""


class TeiRoute:
    """Answers one of the routes, for one model or for the only one that will do."""

    refusal = staticmethod(error_response)

    def __init__(self, desk: TextDesk, act: "Act", model: str | None = None) -> None:
        self._desk = desk
        self._act = act
        self._model = model

    def welcome(self, exchange: Exchange) -> None:
        """Look at a head, before its body has come."""
        self._desk.check_key(exchange)

    def __call__(self, exchange: Exchange) -> None:
        """Take one request in."""
        try:
            self._desk.check_key(exchange)
            self._act(self, exchange)
        except Exception as error:
            exchange.respond(*error_response(error))

    def root(self, exchange: Exchange) -> None:
        """The base URL: what the model is for."""
        act = _ACTS_BY_TASK[self._desk.texts[self._chosen(ANY)].task]
        if act is TeiRoute.embed and b'"source_sentence"' in exchange.body:
            act = TeiRoute.similarity  # Hugging Face's client knows no other URL for it
        act(self, exchange)

    def embed(self, exchange: Exchange) -> None:
        """One vector a text."""
        body = decode(exchange.body, EmbedBody)
        self._take(
            exchange,
            EMBEDDERS,
            items_of(body.inputs),
            body.manner,
            output=partial(_vector_output, body),
            encode=partial(answers.vectors, body),
        )

    def embed_all(self, exchange: Exchange) -> None:
        """One vector a token."""
        body = decode(exchange.body, EmbedBody)
        items, encode = items_of(body.inputs), answers.states
        self._take(exchange, EMBEDDERS, items, body.manner, output=_hidden_output, encode=encode)

    def embed_sparse(self, exchange: Exchange) -> None:
        """The words of the vocabulary that have a weight."""
        body = decode(exchange.body, EmbedBody)
        items = items_of(body.inputs)
        self._take(exchange, SPARSE, items, body.manner, encode=answers.weights)

    def predict(self, exchange: Exchange) -> None:
        """Classes by their scores."""
        body = decode(exchange.body, PredictBody)
        items, is_batch = sequences_of(body.inputs)
        encode = partial(answers.predictions, is_raw=body.raw_scores, is_batch=is_batch)
        self._take(exchange, CLASSIFIERS, items, body.manner, encode=encode)

    def rerank(self, exchange: Exchange) -> None:
        """Texts by how well they answer a query."""
        body = decode(exchange.body, RerankBody)
        encode = partial(answers.ranks, body)
        self._take(exchange, RERANKERS, pairs_of(body), body.manner, encode=encode)

    def similarity(self, exchange: Exchange) -> None:
        """How near texts are to one text."""
        body = decode(exchange.body, SimilarityBody)
        sentences = body.inputs.sentences
        check_count(sentences, "sentences")
        items = items_of([body.inputs.source_sentence, *sentences])
        manner = (body.parameters or Cut()).manner
        self._take(exchange, EMBEDDERS, items, manner, encode=answers.similarities)

    def tokenize(self, exchange: Exchange) -> None:
        """The tokens of texts, without any model."""
        body = decode(exchange.body, TokenizeBody)
        text, texts = self._reader(exchange), texts_of(body.inputs)
        prompt = text.prompt(body.prompt_name) if body.prompt_name else ""

        def work() -> list[Any]:
            return [text.pieces(prompt + e, has_specials=body.add_special_tokens) for e in texts]

        self._tell(exchange, texts, work)

    def decode(self, exchange: Exchange) -> None:
        """The texts of token ids, without any model."""
        body = decode(exchange.body, DecodeBody)
        text, rows = self._reader(exchange), ids_of(body.ids)
        size = text.vocabulary_size
        if any(not 0 <= number < size for row in rows for number in row):
            raise InvalidRequest(f"a token id is outside 0 to {size - 1}")

        def work() -> list[Any]:
            return [text.decode(row, has_specials=not body.skip_special_tokens) for row in rows]

        self._tell(exchange, rows, work)

    def _tell(
        self, exchange: Exchange, items: Sequence[Item], work: Callable[[], list[Any]]
    ) -> None:
        """Answer with what some work gives, unless the client has gone meanwhile."""

        def then(document: list[Any]) -> None:
            exchange.respond(200, JSON_TYPE, orjson.dumps(document))

        def fail(error: BaseException) -> None:
            exchange.respond(*error_response(error))

        self._desk.aside(items, work, then, fail)

    def _reader(self, exchange: Exchange) -> TextModel:
        return self._desk.check_model(exchange, self._chosen(ANY))

    def _take(
        self,
        exchange: Exchange,
        tasks: tuple[Task, ...],
        items: Sequence[Item],
        manner: Manner,
        *,
        output: Callable[[TextModel], str] | None = None,
        encode: Callable[[Gathering], Any],
    ) -> None:
        """Have texts run by a model of one of these tasks.

        Args:
            exchange: The request.
            tasks: The model must be for one of them.
            items: The texts.
            manner: How they are read.
            output: Which output of the model is wanted; None for that of its task.
            encode: From all that was gathered to the document that is answered.
        """

        def checked(text: TextModel) -> str:
            if text.task not in tasks:
                raise WrongTask(_WORDS[tasks])
            return text.output if output is None else output(text)

        answer = partial(answers.answer, encode, self._desk.now_ns)
        request = TextRequest(self._chosen(tasks), items, checked, answer, error_response, manner)
        self._desk.take(exchange, request)

    def _chosen(self, tasks: tuple[Task, ...]) -> str:
        """Name of the model that is meant: the one in the URL, or the only one that will do."""
        texts = self._desk.texts
        if self._model is None:
            return only_one(texts, tasks)
        text_of(texts, self._model)
        return self._model


Act = Callable[[TeiRoute, Exchange], None]

ACTS: dict[str, Act] = {
    "": TeiRoute.root,
    "embed": TeiRoute.embed,
    "embed_all": TeiRoute.embed_all,
    "embed_sparse": TeiRoute.embed_sparse,
    "predict": TeiRoute.predict,
    "rerank": TeiRoute.rerank,
    "similarity": TeiRoute.similarity,
    "tokenize": TeiRoute.tokenize,
    "decode": TeiRoute.decode,
}
"""By the last part of the URL."""

_ACTS_BY_TASK: dict[Task, Act] = {
    Task.EMBED: TeiRoute.embed,
    Task.SPARSE: TeiRoute.embed_sparse,
    Task.CLASSIFY: TeiRoute.predict,
    Task.RERANK: TeiRoute.rerank,
}


def only_one(texts: Mapping[str, TextModel], tasks: tuple[Task, ...]) -> str:
    """The only model that does the first of these tasks that any does.

    Raises:
        WrongTask: There is none.
        InvalidRequest: There are several.
    """
    groups = [tasks] if tasks == ANY else [(task,) for task in tasks]
    for group in groups:
        names = [name for name, text in texts.items() if text.task in group]
        if len(names) > 1:
            raise InvalidRequest(
                f"several models would do: {names}; name one, as /tei/{names[0]}/…"
            )
        if names:
            return names[0]
    raise WrongTask(_WORDS[tasks])


def _vector_output(body: EmbedBody, text: TextModel) -> str:
    check_dimensions(body.dimensions, text)
    if not body.normalize and text.folder.is_normalised and text.hidden:
        return text.hidden  # what the model gives has length one already
    return text.output


def _hidden_output(text: TextModel) -> str:
    if not text.hidden:
        raise WrongTask("Model has no output with one vector a token")
    return text.hidden
