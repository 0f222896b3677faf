"""Follows the machine: the pool becomes larger and smaller with it, and helps it out."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from xirang.engine.clock import Clock

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Between two looks: as long as tidying takes its time."""

SHORT = 0.05
"""The part of the time for which somebody may wait for memory before it counts."""


class Resizes(Protocol):
    """Who shares the memory among models."""

    def resize_pool(self, capacity_bytes: int, *, is_pressed: bool = False) -> None:
        """There is more memory for models to share now, or less; or the system is short of it."""
        ...


class Machine:
    """Looks every second at what the system says, and tells those who share its memory."""

    def __init__(
        self,
        shared: Resizes,
        clock: Clock,
        *,
        capacity: Callable[[], int | None],
        pressure: Callable[[int], float],
    ) -> None:
        """Nothing was seen yet.

        Args:
            shared: Is told.
            clock: The time.
            capacity: How much memory there is for the pool; None if nobody tells.
            pressure: For which part of the time somebody waited for memory, until now.
        """
        self._shared = shared
        self._clock = clock
        self._capacity = capacity
        self._pressure = pressure
        self._known_bytes = capacity()
        self._is_pressed = False

    def look(self) -> None:
        """Look once; tell what has changed, and at each look that memory is short."""
        self._tell(*self._read())

    async def watch(self) -> None:
        """Look for ever; the loop does not wait for the system's files."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._tell(*await asyncio.to_thread(self._read))

    def _read(self) -> tuple[int | None, float]:
        return self._capacity(), self._pressure(self._clock.now_ns())

    def _tell(self, capacity_bytes: int | None, pressure: float) -> None:
        was_pressed, is_pressed = self._is_pressed, pressure >= SHORT
        self._is_pressed = is_pressed
        if is_pressed and not was_pressed:
            log.warning("the system is short of memory: what no run uses goes back to it at once")
        if capacity_bytes is None or (capacity_bytes == self._known_bytes and not is_pressed):
            return
        self._known_bytes = capacity_bytes
        self._shared.resize_pool(capacity_bytes, is_pressed=is_pressed)
