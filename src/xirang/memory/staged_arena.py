"""An arena on a device with one of the host beside it, in which inputs are joined and sent across.

An input lies at the same offset in both. What the pool grants is mapped when a run needs it: the
upper end of a lease counts for what a library allocates by itself, and has no pages.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from xirang.memory.arena import RESERVED_BYTES, DeviceArena
from xirang.memory.cuda_arena import CudaArena
from xirang.memory.cuda_driver import driver_of
from xirang.memory.pinned_arena import PinnedArena
from xirang.tensors.tensor import Array


class StagedArena:
    """See `DeviceArena`.

    Attributes:
        device: The arena on the device.
        base_address: Of its first byte.
        reserved_bytes: How far it can ever reach.
    """

    def __init__(
        self, device: DeviceArena, host: PinnedArena, on_cut: Callable[[], object] = lambda: None
    ) -> None:
        """Put the two together.

        Args:
            device: The arena on the device.
            host: The one beside it.
            on_cut: Is called when memory goes back.
        """
        self.device = device
        self.base_address = device.base_address
        self.reserved_bytes = device.reserved_bytes
        self._host = host
        self._on_cut = on_cut
        self._moving = Lock()
        self._mapped = 0
        self._lowest = self.reserved_bytes

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """See `DeviceArena.resize`; pages that are granted come with `reach`."""
        if after_bytes >= before_bytes:
            return
        with self._moving:
            if after_bytes < self._mapped:
                self.device.resize(self._mapped, after_bytes)
                self._mapped = after_bytes
                self._lowest = min(self._lowest, after_bytes)
            if after_bytes < self._host.reach_bytes:
                self._host.resize(self._host.reach_bytes, after_bytes)
        self._on_cut()

    def reach(self, size_bytes: int) -> None:
        """Have pages up to there.

        Raises:
            NoMemory: The device has no more.
        """
        if size_bytes > self._mapped:
            with self._moving:
                self.device.resize(self._mapped, size_bytes)
                self._mapped = size_bytes

    def lowest_bytes(self) -> int:
        """Below this no page has gone since this was last asked."""
        with self._moving:
            lowest, self._lowest = self._lowest, self.reserved_bytes
            return lowest

    def view(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> Array:
        """Memory of the host for an input that goes to this offset.

        Raises:
            NoMemory: The system locks no more.
        """
        end = offset_bytes + int(np.prod(shape)) * np.dtype(dtype).itemsize
        if end > self._host.reach_bytes:
            with self._moving:
                self._host.resize(self._host.reach_bytes, end)
        return self._host.view(offset_bytes, dtype, shape)

    def offset_of(self, array: Array) -> int | None:
        """Where an array of the host's memory lies; None if it lies elsewhere."""
        offset = int(array.__array_interface__["data"][0]) - self._host.base_address
        return offset if 0 <= offset <= self._host.reach_bytes - array.nbytes else None

    def close(self) -> None:
        """Give everything back."""
        with self._moving:
            self.device.close()
            self._host.close()
            self.reserved_bytes = 0


def staged_arena(
    reserved_bytes: int, *, device: int, on_cut: Callable[[], object] = lambda: None
) -> StagedArena:
    """On a CUDA device.

    Raises:
        InvalidSetting: There is no such device, or no way to it.
        NoMemory: There are not even addresses.
    """
    driver = driver_of(device)
    there = CudaArena(reserved_bytes, driver=driver)
    host = PinnedArena(min(reserved_bytes, RESERVED_BYTES), driver=driver)
    return StagedArena(there, host, on_cut)
