"""What can be asked over gRPC: by path, what makes a call of each procedure."""

import asyncio
from functools import partial

from xirang.frontends.grpc.calls import MakeCall
from xirang.frontends.grpc.lone import Lone
from xirang.frontends.grpc.servicer import HEALTH_PATH, INFER_PATH, Envelope, Servicer, Unary
from xirang.frontends.grpc.status import status_of
from xirang.frontends.grpc.stream import streams_of
from xirang.frontends.grpc.talk import Talk
from xirang.frontends.grpc.watching import health_changes
from xirang.frontends.service import Ticket


def procedures(servicer: Servicer, shutting: "asyncio.Future[float]") -> dict[str, MakeCall]:
    """What makes a call, by path.

    Args:
        servicer: Answers.
        shutting: Done when the server stops.
    """

    def infer(call: Lone, message: bytes, envelope: Envelope) -> Ticket | None:
        return servicer.infer(message, envelope, call.answer)

    makers: dict[str, MakeCall] = {
        path: partial(Lone, partial(_errand, answer)) for path, answer in servicer.unary.items()
    }
    makers[INFER_PATH] = partial(Lone, infer)
    makers[f"{HEALTH_PATH}Watch"] = partial(Lone, partial(_watch, servicer, shutting))
    for path, begin in streams_of(servicer).items():
        makers[path] = partial(Talk, begin)
    return makers


def _errand(answer: Unary, call: Lone, message: bytes, envelope: Envelope) -> Ticket:
    async def run() -> None:
        try:
            call.answer(await answer(message, envelope))
        except Exception as error:
            call.answer(status_of(error))

    return asyncio.ensure_future(run())


def _watch(
    servicer: Servicer,
    shutting: "asyncio.Future[float]",
    call: Lone,
    message: bytes,
    envelope: Envelope,
) -> Ticket:
    async def run() -> None:
        status = None
        try:
            async for now in health_changes(servicer, message, envelope, shutting):
                call.send(now)
        except Exception as error:
            status = status_of(error)
        call.finish(status)

    return asyncio.ensure_future(run())
