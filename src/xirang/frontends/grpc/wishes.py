"""What a call's metadata wishes: whose it is, how important, and how soon it needs an answer."""

from collections.abc import Mapping
from typing import NamedTuple

from xirang.core.request import PRIORITY_NORMAL
from xirang.frontends.budget import tightest
from xirang.frontends.caller import asked_in, caller_on
from xirang.frontends.keys import Grant, Keys


class CallWishes(NamedTuple):
    """Of all calls with the same metadata on one connection.

    Attributes:
        client: A number that stands for whoever sends them.
        tenant: Name of its key; empty without keys.
        fast: Whether its requests take the fast lane; None: their priority and budget decide.
        grant: What its key allows; None where the server asks for no keys.
        priority: 0 if it does not say.
        budget_ns: The tightest; None for none.
    """

    client: int
    tenant: str
    fast: bool | None
    grant: Grant | None
    priority: int
    budget_ns: int | None

    def priority_of(self, asked: int) -> int:
        """The priority that a request gets, which asks for this one, or for none by 0."""
        asked = asked or self.priority
        return asked if self.grant is None else self.grant.clamp(asked or PRIORITY_NORMAL)

    def budget_of(self, asked_ns: int | None, left_ns: int | None) -> int | None:
        """The least of all budgets.

        Args:
            asked_ns: That of the request; None for none.
            left_ns: Until the call's deadline; None without one.
        """
        if asked_ns is None and left_ns is None:
            return self.budget_ns
        known = (self.budget_ns, asked_ns, left_ns)
        return max(0, min(each for each in known if each is not None))


def wishes_on(
    connection: int, headers: Mapping[bytes, bytes], keys: Keys | None, model: str
) -> CallWishes:
    """What metadata wishes of a model.

    Args:
        connection: A number that is the same for all calls of a connection.
        headers: The metadata, names in lower case.
        keys: None where the server asks for none.
        model: Name of the model.

    Raises:
        Unauthorized: It needs a key, and brings none that is known.
        Forbidden: Its key is not for this model.
        InvalidRequest: A header does not hold what it must.
    """
    caller = caller_on(connection, headers, keys, model)
    return CallWishes(
        caller.client,
        caller.tenant,
        caller.fast,
        caller.grant,
        asked_in(headers),
        tightest(None, headers),
    )
