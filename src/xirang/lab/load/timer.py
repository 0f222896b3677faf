"""A timer that is exact to some microseconds; the event loop's own ticks in milliseconds.

Half a millisecond of lateness on average would be most of the latency of a small
model. Linux offers timers as file descriptors (timerfd_create(2)), which a loop can
wait for like for a socket; elsewhere the loop's timer has to do.
"""

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable

CLOCK_MONOTONIC = 1
FLAGS = os.O_NONBLOCK | os.O_CLOEXEC if sys.platform != "win32" else 0
SECOND_NS = 1_000_000_000


_Setting = ctypes.c_long * 4
"""struct itimerspec: seconds and ns of the repetition, seconds and ns of the delay."""


class Timer:
    """Calls back once after each `arm`, on the running loop; the latest `arm` counts."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._descriptor = -1
        if self._library is not None:
            self._descriptor = self._library.timerfd_create(CLOCK_MONOTONIC, FLAGS)
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._rang)

    def arm(self, delay_ns: int) -> None:
        """Call back after this delay, which is at least a nanosecond: zero would disarm."""
        delay_ns = max(delay_ns, 1)
        if self._descriptor >= 0 and self._library is not None:
            setting = _Setting(0, 0, *divmod(delay_ns, SECOND_NS))
            self._library.timerfd_settime(self._descriptor, 0, ctypes.byref(setting), None)
            return
        if self._handle is not None:
            self._handle.cancel()
        # Rounded up, as a loop that wakes too early would spin until the instant.
        delay_ms = -(-delay_ns // 1_000_000)
        self._handle = self._loop.call_later(delay_ms / 1e3, self._callback)

    def close(self) -> None:
        """Call back no more."""
        if self._handle is not None:
            self._handle.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _rang(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # armed anew since the loop saw it ring
            return
        self._callback()
