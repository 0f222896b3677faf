"""Who asks: a tenant with a key, a session, or only a connection; and how important it may be."""

from collections.abc import Mapping
from typing import NamedTuple
from zlib import crc32

import msgspec

from xirang.core.request import PRIORITY_NORMAL
from xirang.errors import InvalidRequest
from xirang.frontends.budget import tightest
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Grant, Keys

SESSION_HEADER = b"x-session-id"
PRIORITY_HEADER = b"x-request-priority"
PRIORITY_MAX = 2**31


class CallTerms(NamedTuple):
    """On what terms a call is served: the last fields of a `Call`, in their order."""

    budget_ns: int | None
    priority: int
    client: int
    tenant: str
    fast: bool | None
    arrival_ns: int


class Caller(msgspec.Struct, frozen=True, gc=False):
    """Whoever sent a request.

    Attributes:
        client: A number that is the same for all requests of a key, session or connection: of
            those that are turned away under overload, it is always the same ones.
        grant: What its key allows; None where the server asks for no keys.
    """

    client: int
    grant: Grant | None = None

    @property
    def tenant(self) -> str:
        """Name of its key; empty without keys."""
        return "" if self.grant is None else self.grant.name

    @property
    def fast(self) -> bool | None:
        """Whether its requests take the fast lane; None: their priority and budget decide."""
        return None if self.grant is None else self.grant.fast

    def priority(self, asked: int, headers: Mapping[bytes, bytes]) -> int:
        """The priority its request gets.

        Args:
            asked: In the request itself; 0 if it does not say.
            headers: May say it too; the request itself goes first.

        Raises:
            InvalidRequest: The header is not a number.
        """
        asked = asked or asked_in(headers)
        return asked if self.grant is None else self.grant.clamp(asked or PRIORITY_NORMAL)

    def terms(
        self, exchange: Exchange, budget_ns: int | None = None, priority: int = 0
    ) -> CallTerms:
        """The terms of its request.

        Args:
            exchange: The request.
            budget_ns: In its body; None if it does not say.
            priority: In its body; 0 if it does not say.

        Raises:
            InvalidRequest: A header does not hold what it must.
        """
        headers = exchange.headers
        return CallTerms(
            tightest(budget_ns, headers),
            self.priority(priority, headers),
            self.client,
            self.tenant,
            self.fast,
            exchange.begun_ns,
        )


def asked_in(headers: Mapping[bytes, bytes]) -> int:
    """The priority that the headers ask for; 0 for none.

    Raises:
        InvalidRequest: The header is not a number.
    """
    value = headers.get(PRIORITY_HEADER)
    return 0 if value is None else _number(value)


def caller_of(exchange: Exchange, keys: Keys | None, model: str) -> Caller:
    """Who sent a request for a model.

    Raises:
        Unauthorized: It needs a key, and brings none that is known.
        Forbidden: Its key is not for this model.
    """
    return caller_on(id(exchange.wire), exchange.headers, keys, model)


def caller_on(
    connection: int, headers: Mapping[bytes, bytes], keys: Keys | None, model: str
) -> Caller:
    """The same for any door.

    Args:
        connection: A number that is the same for all requests of a connection.
        headers: Of the request, names in lower case.
        keys: None where the server asks for none.
        model: Name of the model.

    Raises:
        Unauthorized: It needs a key, and brings none that is known.
        Forbidden: Its key is not for this model.
    """
    if keys is not None:
        grant = keys.of(headers)
        grant.check_model(model)
        return Caller(grant.client, grant)
    session = headers.get(SESSION_HEADER)
    return Caller(connection if session is None else crc32(session))


def _number(value: bytes) -> int:
    try:
        number = int(value)
    except ValueError:
        number = -1
    if not 0 <= number < PRIORITY_MAX:
        raise InvalidRequest(
            f"header {PRIORITY_HEADER.decode()} must be a number, 1 for the highest priority, "
            f"got {value.decode('latin-1')!r}"
        )
    return number
