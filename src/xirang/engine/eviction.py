"""Models that go because others need the memory that they hold."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from xirang.core.event import EvictionProposed
from xirang.engine.lifecycle import Roster
from xirang.engine.memory import Housing
from xirang.engine.model import Model

log = logging.getLogger(__name__)

Unload = Callable[[str, str], Awaitable[None]]
"""Takes a name and a version; done when everybody who was in has been answered."""


class Evictions:
    """Unloads whom the scheduler names, as if somebody had asked for it.

    Attributes:
        keeper: Unloads a model and tells when it has gone, if it is one of his.
    """

    def __init__(self, housing: Housing, roster: Roster, unload: Unload) -> None:
        """Nobody leaves.

        Args:
            housing: Knows who would have to go.
            roster: Knows who is there.
            unload: Serves a model no more.
        """
        self.keeper: Callable[[Model], asyncio.Future[None] | None] | None = None
        self._housing = housing
        self._roster = roster
        self._unload = unload
        self._leaving: set[asyncio.Future[None]] = set()

    def propose(self, event: EvictionProposed) -> None:
        """A model may go, and another waits for memory."""
        self._go(event.model, event.wanted_by)

    async def make_room(self, model: Model) -> None:
        """Let those go that have to, so that a model can come; return when they have gone."""
        going = [self._go(lanes, model.name) for lanes in self._housing.who_goes(model)]
        if tasks := [task for task in going if task is not None]:
            await asyncio.wait(tasks)

    def _go(self, lanes: str, wanted_by: str) -> "asyncio.Future[None] | None":
        for standing in self._roster.standings():
            model = standing.model
            if model is not None and model.lanes == lanes:
                log.warning("%s is unloaded: %s needs its memory", lanes, wanted_by)
                leaving = None if self.keeper is None else self.keeper(model)
                if leaving is None:
                    leaving = asyncio.ensure_future(self._unload(model.name, model.version))
                    self._leaving.add(leaving)
                    leaving.add_done_callback(self._leaving.discard)
                return leaving
        return None
