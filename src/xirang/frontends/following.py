"""Shows a witness what happens at the doors to those few requests that are followed."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from xirang.engine.call import Answer, Reply
from xirang.errors import XirangError
from xirang.frontends.exchange import Exchange, MakeExchange, Wire
from xirang.frontends.headers import Headers
from xirang.observe.trace_context import PARENT
from xirang.observe.witness import GONE, Sighting, Witness


class Followed(Exchange, kw_only=True, eq=False):
    """An exchange that somebody follows; all others are plain ones, and cost nothing more.

    Attributes:
        sighting: What was seen of it.
        witness: Who sees it.
    """

    is_followed: ClassVar[bool] = True

    sighting: Sighting
    witness: Witness

    def follow(self, reply: Reply, model: str, identity: str = "") -> Reply:
        """One of its calls goes to the engine; what takes its answer."""
        return following(self.witness, self.sighting, reply, model, identity)

    def respond(self, status: int, headers: bytes, body: bytes) -> None:
        """Answer."""
        self.sighting.received_bytes = len(self.body)
        super().respond(status, headers, body)
        self.witness.ended(self.sighting, status, len(body))

    def abandon(self) -> None:
        """The client has gone away; what runs already will answer nobody."""
        super().abandon()
        if not self.status:
            self.witness.ended(self.sighting, GONE, 0)


class Following(msgspec.Struct, frozen=True, gc=False):
    """The reply of a followed call."""

    witness: Witness
    sighting: Sighting
    reply: Reply

    def __call__(self, answer: Answer | XirangError) -> None:
        """See in which run it was, and hand it on."""
        if isinstance(answer, Answer) and answer.ran.event is not None:
            self.witness.ran(self.sighting, answer.ran.event, answer.request_id)
        self.reply(answer)


def following(
    witness: Witness, sighting: Sighting, reply: Reply, model: str, identity: str
) -> Reply:
    """A call goes to the engine; what takes its answer."""
    witness.submitted(sighting, model, identity)
    return Following(witness, sighting, reply)


def exchanges(witness: Witness) -> MakeExchange:
    """What makes the exchanges of a server: some followed, by lot or because their callers are."""

    def make(wire: Wire | None, url: bytes, headers: Headers) -> Exchange:
        witness.left -= 1
        if witness.left >= 0 and (PARENT not in headers or not witness.heeds_callers):
            return Exchange(wire, url, headers)
        path = url.partition(b"?")[0].decode("latin-1")
        sighting = witness.see("http", path, headers)
        if sighting is None:
            return Exchange(wire, url, headers)
        return Followed(wire, url, headers, sighting=sighting, witness=witness)

    return make


def followed_call(
    witness: Witness, path: str, headers: Mapping[bytes, bytes], size_bytes: int
) -> Sighting | None:
    """What is seen of a call over gRPC, if it is followed.

    Args:
        witness: Sees it.
        path: The procedure's.
        headers: The call's metadata.
        size_bytes: Of the message.
    """
    witness.left -= 1
    if witness.left >= 0 and (PARENT not in headers or not witness.heeds_callers):
        return None
    sighting = witness.see("grpc", path, headers)
    if sighting is not None:
        sighting.received_bytes = size_bytes
    return sighting


def finishing(
    witness: Witness, sighting: Sighting, finish: Callable[[Any], None]
) -> Callable[[Any], None]:
    """What takes a followed call's response, or the status it ended with."""

    def finished(result: Any) -> None:
        code = getattr(result, "code", 0)
        witness.ended(sighting, code, 0 if code else len(result))
        finish(result)

    return finished
