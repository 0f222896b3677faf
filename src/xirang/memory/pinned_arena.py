"""An arena of the host whose pages CUDA has locked: copies from there to a device need no waiting.

All of it that has pages is registered as one range, and anew when it grows or shrinks, so that no
copy ever crosses from one registered range into another.
"""

from collections.abc import Sequence
from typing import Any

from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.cuda_driver import CudaDriver
from xirang.tensors.tensor import Array

SLAB_BYTES = 2 << 20
"""It grows by so much at least: to lock pages takes a call of the system."""

PORTABLE = 1
"""CU_MEMHOSTREGISTER_PORTABLE: pinned for all devices."""


class PinnedArena:
    """A range of the process's own addresses; see `DeviceArena`.

    Attributes:
        base_address: Of its first byte.
        reserved_bytes: How far it can ever reach.
        reach_bytes: How far its pages reach.
    """

    def __init__(self, reserved_bytes: int, *, driver: CudaDriver) -> None:
        """Reserve addresses, without pages.

        Args:
            reserved_bytes: How many.
            driver: The way to the device.

        Raises:
            NoMemory: The system does not even reserve.
        """
        self._arena = HostArena(reserved_bytes)
        self._driver = driver
        self.base_address = self._arena.base_address
        self.reserved_bytes = self._arena.reserved_bytes
        self.reach_bytes = 0

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """See `DeviceArena.resize`; nothing may be under way from there or to there."""
        slabs = -(-after_bytes // SLAB_BYTES)
        after, before = min(slabs * SLAB_BYTES, self.reserved_bytes), self.reach_bytes
        if not 0 <= after_bytes <= self.reserved_bytes:
            raise NoMemory(f"an arena of {self.reserved_bytes} bytes cannot reach {after_bytes}")
        if after == before:
            return
        self._driver.enter()
        if after > before:
            self._arena.resize(before, after)
        self._unlock()
        try:
            self._lock(after)
        except NoMemory:
            self._lock(before)
            self._arena.resize(after, before)
            raise
        if after < before:
            self._arena.resize(before, after)

    def view(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> Array:
        """Some of its bytes as an array."""
        return self._arena.view(offset_bytes, dtype, shape)

    def close(self) -> None:
        """Give the pages back; the addresses go with the last view."""
        self.resize(self.reach_bytes, 0)
        self._arena.close()
        self.reserved_bytes = 0

    def _lock(self, reach_bytes: int) -> None:
        if reach_bytes:
            address = self.base_address
            self._driver.do("lock pages", "cuMemHostRegister", address, reach_bytes, PORTABLE)
        self.reach_bytes = reach_bytes

    def _unlock(self) -> None:
        if self.reach_bytes:
            self._driver.do("unlock pages", "cuMemHostUnregister", self.base_address)
        self.reach_bytes = 0
