"""One request of texts on its way: what its door wants, and what has come in of it."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from xirang.engine.call import Answer
from xirang.errors import InvalidRequest, XirangError
from xirang.frontends import explaining
from xirang.frontends.caller import CallTerms
from xirang.frontends.errors import Refusal, about
from xirang.frontends.exchange import Exchange, degraded
from xirang.frontends.service import TextModel, Ticket
from xirang.frontends.timing import Stopwatch
from xirang.tensors.tensor import Array
from xirang.text.tokenizer import USUAL, Manner, Tokens

Item = str | list[int] | tuple[str, str]
"""A text, its token ids, or two texts that are read together."""


class InvalidField(InvalidRequest):
    """A field of the request holds what it must not.

    Attributes:
        field: Its name.
    """

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


class TextRequest(msgspec.Struct, frozen=True):
    """What a door wants done with texts.

    Attributes:
        model: Name of the model.
        items: The texts.
        output: Which output of the model it needs; raises if the model is of no use.
        answer: Header lines and body, when all is gathered.
        refusal: Status, header lines and body of an error.
        manner: How the texts are read.
    """

    model: str
    items: Sequence[Item]
    output: Callable[[TextModel], str]
    answer: "Callable[[Gathering], tuple[bytes, bytes]]"
    refusal: Refusal
    manner: Manner = USUAL


class Gathering:
    """One request's items on their way: answered when all are in, or at the first error.

    Attributes:
        exchange: Where it came from, and is answered.
        request: What its door wants.
        terms: On what terms all its items are served.
        text: The model that reads and runs it.
        output: Name of the output that is wanted.
        rows: Of each item that output, one row, when it is in.
        tokens: Of all items together.
        read_ns: When all were read.
        queue_ns: How long they waited, added up.
        run_ns: How long their runs took, added up.
        last: The answer that came last.
        stopwatch: For who asks where the time went.
        is_explained: Whether the answer says why the run of the last item went when it did.
    """

    __slots__ = (
        "exchange",
        "is_explained",
        "is_over",
        "last",
        "left",
        "output",
        "queue_ns",
        "read_ns",
        "request",
        "rows",
        "run_ns",
        "stopwatch",
        "terms",
        "text",
        "tickets",
        "tokens",
    )

    text: TextModel
    last: Answer

    def __init__(self, exchange: Exchange, request: TextRequest, terms: CallTerms) -> None:
        self.exchange = exchange
        self.request = request
        self.terms = terms
        self.output = ""
        self.tickets: list[Ticket] = []
        self.rows: list[Array] = []
        self.left = self.tokens = 0
        self.read_ns = self.queue_ns = self.run_ns = 0
        self.is_over = False
        self.stopwatch: Stopwatch | None = None
        self.is_explained = False

    def begin(self, rows: Sequence[Tokens], now_ns: int) -> None:
        """The items are read."""
        self.rows = [_NOTHING] * len(rows)
        self.left = len(rows)
        self.tokens = sum([len(tokens.ids) for tokens in rows])
        self.read_ns = now_ns

    def take(self, index: int, answer: Answer | XirangError) -> None:
        """The reply of one item's call."""
        if self.is_over:
            return
        if isinstance(answer, XirangError):
            self.fail(answer)
            return
        try:
            self.rows[index] = answer.outputs[self.output]
            self.queue_ns += answer.queue_ns
            self.run_ns += answer.ran.end_ns - answer.ran.start_ns
            self.left -= 1
            if not self.left:
                self.last = answer
                self._respond()
        except Exception as error:
            self.fail(error)

    def _respond(self) -> None:
        self.is_over = True
        answer = self.last
        headers, body = self.request.answer(self)
        if answer.lacks:
            headers += degraded(answer.lacks)
        if self.stopwatch is not None:
            headers += self.stopwatch.line(answer)
        if self.is_explained:
            headers += explaining.line(answer)
        self.exchange.respond(200, headers, body)

    def fail(self, error: BaseException) -> None:
        """Answer with the error; what else is under way for the request stops."""
        self.stop()
        if not self.exchange.status:
            status, headers, body = self.request.refusal(about(error, self.exchange.headers))
            if self.stopwatch is not None:
                headers += self.stopwatch.line(None)
            self.exchange.respond(status, headers, body)

    def stop(self) -> None:
        """Take back every call that is still out."""
        self.is_over = True
        tickets, self.tickets = self.tickets, []
        for ticket in tickets:
            ticket.cancel()


_NOTHING: Array = np.empty(0, np.float32)
