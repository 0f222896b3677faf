"""Requests of texts, whichever door they come through: read, a call for each text, gathered.

A text's tokens are made by the tokenizer of the model that runs them: where a model is replaced
while its texts are read on a thread, they are read again for the one that has come.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from xirang.core.event import Function
from xirang.engine.call import Call
from xirang.errors import TooBusy, UnknownModel, XirangError
from xirang.frontends import explaining
from xirang.frontends.caller import caller_of
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Keys
from xirang.frontends.service import Service, TextModel
from xirang.frontends.texts.gathering import Gathering, InvalidField, Item, TextRequest
from xirang.frontends.timing import Stopwatch, is_asked
from xirang.text.tokenizer import Manner, TextTooLong, Tokens

ITEMS_MAX = 2048
"""Of OpenAI's specification; the other doors have the same."""
INLINE_CHARACTERS_MAX = 4096
"""Up to here a request is tokenised on the loop, about a millisecond; longer ones on a thread."""
TOKENISING_THREADS = 2
TOKENISING_MAX = 256
"""Requests that wait for such a thread."""

_T = TypeVar("_T")


class TextDesk:
    """Takes the requests of all doors for texts.

    Attributes:
        texts: Name to text model; changes while we serve.
    """

    def __init__(
        self, service: Service, texts: Mapping[str, TextModel], keys: Keys | None = None
    ) -> None:
        self.texts = texts
        self._service = service
        self._keys = keys
        self._tokenising = 0
        self._threads = ThreadPoolExecutor(TOKENISING_THREADS, thread_name_prefix="tokenise")

    def check_key(self, exchange: Exchange) -> None:
        """Turn away who has no key, before the body is looked at.

        Raises:
            Unauthorized: It needs a key, and brings none that is known.
        """
        if self._keys is not None:
            self._keys.of(exchange.headers)

    def check_model(self, exchange: Exchange, name: str) -> TextModel:
        """The text model of that name, for who may use it.

        Raises:
            Forbidden: The key is not for this model.
            UnknownModel: It does not exist, or is for no texts.
        """
        caller_of(exchange, self._keys, name)
        return text_of(self.texts, name)

    def now_ns(self) -> int:
        """The time, on the clock that budgets are kept by."""
        return self._service.now_ns()

    def take(self, exchange: Exchange, request: TextRequest) -> None:
        """Take one request in; every item of it becomes a call of its own.

        Raises:
            XirangError: It cannot be served, and why.
        """
        text_of(self.texts, request.model)
        caller = caller_of(exchange, self._keys, request.model)
        gathering = Gathering(exchange, request, caller.terms(exchange))
        exchange.on_disconnect = gathering.stop
        try:
            self._read(gathering)
        except Exception as error:
            gathering.fail(error)

    def aside(
        self,
        items: Sequence[Item],
        work: Callable[[], _T],
        then: Callable[[_T], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        """Do what takes as long as its texts: here and now, or on a thread where they are long.

        Raises:
            TooBusy: Too many wait for a thread.
            Exception: What `work` or `then` raised here and now; what is raised later `fail` gets.
        """
        if sum(map(size_of, items)) <= INLINE_CHARACTERS_MAX:
            then(work())
            return
        if self._tokenising >= TOKENISING_MAX:
            raise TooBusy("too many long texts are waiting to be tokenised")
        self._tokenising += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)

        def finish(done: "asyncio.Future[_T]") -> None:
            self._tokenising -= 1
            try:
                then(done.result())
            except Exception as error:
                fail(error)

        future.add_done_callback(finish)

    def _read(self, gathering: Gathering) -> None:
        request = gathering.request
        text = text_of(self.texts, request.model)
        gathering.text, gathering.output = text, request.output(text)
        work = partial(read, request.items, text, request.manner)
        self.aside(request.items, work, partial(self._submit, gathering), gathering.fail)

    def _submit(self, gathering: Gathering, rows: list[Tokens]) -> None:
        text, model = gathering.text, gathering.request.model
        if not gathering.is_over and self.texts.get(model) is not text:
            self._read(gathering)  # another has come meanwhile: these are not its tokens
            return
        gathering.begin(rows, self._service.now_ns())
        if not self._service.is_off(Function.TIMING):
            self._watch(gathering, model)
        wanted = (gathering.output,)
        for index, tokens in enumerate(rows):
            if gathering.is_over:
                return
            reply = gathering.exchange.follow(partial(gathering.take, index), model)
            call = Call(model, text.inputs(tokens), reply, None, wanted, *gathering.terms)
            try:
                gathering.tickets.append(self._service.submit(call))
            except XirangError as error:
                gathering.fail(error)

    def _watch(self, gathering: Gathering, model: str) -> None:
        """Note what is asked about the request's way."""
        gathering.is_explained = explaining.is_asked(gathering.exchange)
        if is_asked(gathering.exchange):
            terms = gathering.terms
            budget_ns = terms.budget_ns or self._service.model(model).budget_ns
            gathering.stopwatch = Stopwatch(terms.arrival_ns, budget_ns, self._service.now_ns)


def text_of(texts: Mapping[str, TextModel], name: str) -> TextModel:
    """The text model of a name.

    Raises:
        UnknownModel: There is none.
    """
    text = texts.get(name)
    if text is None:
        raise UnknownModel(f"The model '{name}' does not exist or takes no texts")
    return text


def read(items: Sequence[Item], text: TextModel, manner: Manner) -> list[Tokens]:
    """The tokens of each item; runs on a thread when there is much to do.

    Raises:
        InvalidRequest: An item is too long, or holds an id that the model does not know.
    """
    rows = []
    for item in items:
        if isinstance(item, str):
            rows.append(text.encode(item, manner))
        elif isinstance(item, tuple):
            rows.append(text.encode_pair(*item, manner))
        else:
            rows.append(Tokens(checked_ids(item, text)))
    return rows


def checked_ids(ids: list[int], text: TextModel) -> list[int]:
    """Token ids that a client made itself.

    Raises:
        TextTooLong: There are too many.
        InvalidField: The model does not know one of them.
    """
    if len(ids) > text.length_max:
        raise TextTooLong(f"an item has {len(ids)} tokens; expected at most {text.length_max}")
    if min(ids) < 0 or max(ids) >= text.vocabulary_size:
        raise InvalidField(f"a token id is outside 0 to {text.vocabulary_size - 1}", "input")
    return list(ids)


def size_of(item: Item) -> int:
    """How much there is to read of an item: its characters, or token ids."""
    return len(item[0]) + len(item[1]) if isinstance(item, tuple) else len(item)
