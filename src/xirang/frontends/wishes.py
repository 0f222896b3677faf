"""What the head of a request wishes: whose it is, how soon it needs an answer and what with it."""

import msgspec

from xirang.core.request import PRIORITY_NORMAL
from xirang.errors import InvalidRequest
from xirang.frontends import explaining, timing
from xirang.frontends.budget import tightest
from xirang.frontends.caller import asked_in, caller_of
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Grant, Keys
from xirang.frontends.wire.compression import preferred


class Wishes(msgspec.Struct, frozen=True, gc=False):
    """Of all requests with the same headers on one connection.

    Attributes:
        client: A number that stands for whoever sends them.
        tenant: Name of its key; empty without keys.
        fast: Whether its requests take the fast lane; None: their priority and budget decide.
        grant: What its key allows; None where the server asks for no keys.
        priority: In a header; 0 for none.
        budget_ns: The tightest in the headers; None for none.
        head_length: Bytes of JSON before the binary tensors; None when all is JSON.
        is_timed: The answer shall say where the time went.
        is_explained: And why it came when it came.
        coding: Of the answer's body; None for none.
        is_more: Whether there are any wishes for the answer, but for the time.
        is_open: Whether budget and priority are left to the body.
    """

    client: int
    tenant: str
    fast: bool | None
    grant: Grant | None
    priority: int
    budget_ns: int | None
    head_length: int | None
    is_timed: bool
    is_explained: bool
    coding: str | None
    is_more: bool
    is_open: bool

    def terms(self, asked_ns: int | None, asked: int) -> tuple[int | None, int]:
        """Budget and priority of a request.

        Args:
            asked_ns: The budget in its body; None for none.
            asked: The priority in its body; 0 for none.
        """
        budgets_ns = [each for each in (asked_ns, self.budget_ns) if each is not None]
        priority = asked or self.priority
        if self.grant is not None:
            priority = self.grant.clamp(priority or PRIORITY_NORMAL)
        return min(budgets_ns, default=None), priority


def wishes_of(exchange: Exchange, keys: Keys | None, model: str) -> Wishes:
    """What a head wishes of a model; read once for all requests with the same headers.

    Raises:
        Unauthorized: It needs a key, and brings none that is known.
        Forbidden: Its key is not for this model.
        InvalidRequest: A header does not hold what it must.
    """
    headers = exchange.headers
    caller = caller_of(exchange, keys, model)
    head_length = headers.get(b"inference-header-content-length")
    accepted = headers.get(b"accept-encoding")
    coding = None if accepted is None else preferred(accepted)
    priority, budget_ns = asked_in(headers), tightest(None, headers)
    is_explained = explaining.is_asked(exchange)
    return Wishes(
        caller.client,
        caller.tenant,
        caller.fast,
        caller.grant,
        priority,
        budget_ns,
        None if head_length is None else _length(head_length),
        timing.is_asked(exchange),
        is_explained,
        coding,
        is_explained or coding is not None,
        caller.grant is None and not priority and budget_ns is None,
    )


def _length(header: bytes) -> int:
    try:
        return int(header)
    except ValueError:
        raise InvalidRequest(
            "Inference-Header-Content-Length must be a number, the size of the JSON head, "
            f"got {header.decode('latin-1')!r}"
        ) from None
