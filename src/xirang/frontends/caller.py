"""Who asks: a tenant with a key, a session, or only a connection; and how important it may be."""

from collections.abc import Mapping
from zlib import crc32

import msgspec

from xirang.core.request import PRIORITY_NORMAL
from xirang.errors import InvalidRequest
from xirang.frontends.exchange import Exchange
from xirang.frontends.keys import Grant, Keys

SESSION_HEADER = b"x-session-id"
PRIORITY_HEADER = b"x-request-priority"
PRIORITY_MAX = 2**31


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
        return self.granted(asked or asked_in(headers))

    def granted(self, asked: int) -> int:
        """The priority that it gets for the one it asks for, or for none with 0."""
        return asked if self.grant is None else self.grant.clamp(asked or PRIORITY_NORMAL)


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
