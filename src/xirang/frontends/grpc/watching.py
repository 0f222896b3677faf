"""The server's health, told to whoever watches it: at once, and whenever it has changed."""

import asyncio
from collections.abc import AsyncIterator

from xirang.frontends.grpc.servicer import Envelope, Servicer

LOOK_S = 0.5
"""Time between two looks for a change, while somebody watches."""


async def health_changes(
    servicer: Servicer, message: bytes, envelope: Envelope, until: "asyncio.Future[float]"
) -> AsyncIterator[bytes]:
    """Each answer that differs from the one before.

    Args:
        servicer: Answers.
        message: What is asked.
        envelope: What came with it.
        until: After it there are no more.
    """
    told = None
    while not until.done():
        now = await servicer.health(message, envelope)
        if now != told:
            told = now
            yield now
        await asyncio.wait({until}, timeout=LOOK_S)
