"""What the head of a request wishes: whose it is, how soon it needs an answer and what with it."""

from typing import NamedTuple

from xirang.frontends import explaining, timing
from xirang.frontends.budget import tightest
from xirang.frontends.caller import Caller, asked_in, caller_of
from xirang.frontends.compression import preferred
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Keys


class Wishes(NamedTuple):
    """Of all requests with the same headers on one connection.

    Attributes:
        caller: Who sends them.
        client: A number that stands for the caller.
        tenant: Name of its key; empty without keys.
        fast: Whether its requests take the fast lane; None: their priority and budget decide.
        priority: In a header; 0 for none.
        budget_ns: The tightest in the headers; None for none.
        is_timed: The answer shall say where the time went.
        is_explained: And why it came when it came.
        coding: Of the answer's body; None for none.
    """

    caller: Caller
    client: int
    tenant: str
    fast: bool | None
    priority: int
    budget_ns: int | None
    is_timed: bool
    is_explained: bool
    coding: str | None

    def priority_of(self, asked: int) -> int:
        """The priority of a request whose body asks for this one, or for none with 0."""
        return self.caller.granted(asked or self.priority)

    def budget_of(self, asked_ns: int | None) -> int | None:
        """The budget of a request whose body asks for this one, or for none."""
        if asked_ns is None or self.budget_ns is None:
            return self.budget_ns if asked_ns is None else asked_ns
        return min(asked_ns, self.budget_ns)


def wishes_of(exchange: Exchange, keys: Keys | None, model: str) -> Wishes:
    """What a head wishes of a model; read once for all requests with the same headers.

    Raises:
        Unauthorized: It needs a key, and brings none that is known.
        Forbidden: Its key is not for this model.
        InvalidRequest: A header does not hold what it must.
    """
    headers = exchange.headers
    caller = caller_of(exchange, keys, model)
    accepted = headers.get(b"accept-encoding")
    return Wishes(
        caller,
        caller.client,
        caller.tenant,
        caller.fast,
        asked_in(headers),
        tightest(None, headers),
        timing.is_asked(exchange),
        explaining.is_asked(exchange),
        None if accepted is None else preferred(accepted),
    )
