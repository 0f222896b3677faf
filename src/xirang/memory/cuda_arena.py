"""An arena on a CUDA device: a range of its addresses, with memory mapped behind the bottom.

The driver's own virtual memory: addresses stay while pages come and go, so that views, plans and
captured graphs stay true. Memory is mapped slab by slab, since a mapping can only be undone whole.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xirang.memory.arena import NoMemory
from xirang.memory.cuda_driver import CudaDriver, capturing, driver_of

SLAB_BYTES = 2 << 20
"""What current devices map at least; the driver is asked, and may want more."""


class DeviceView:
    """Bytes on the device as an array: `torch.as_tensor(view)` takes it as it is.

    Attributes:
        __cuda_array_interface__: What that goes by.
    """

    def __init__(self, address: int, dtype: Any, shape: Sequence[int]) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "typestr": np.dtype(dtype).str,
            "shape": tuple(shape),
            "strides": None,
            "version": 3,
        }


class CudaArena:
    """A range of a device's addresses; see `DeviceArena`.

    Attributes:
        base_address: Of its first byte.
        reserved_bytes: How far it can ever reach.
        driver: The way to the device.
    """

    def __init__(self, reserved_bytes: int, *, driver: CudaDriver | None = None) -> None:
        """Reserve addresses, without memory.

        Args:
            reserved_bytes: How many; rounded up to whole slabs.
            driver: The way to the device; by default to the first one.

        Raises:
            InvalidSetting: There is no such device, or no way to it.
            NoMemory: The driver does not even reserve.
        """
        self.driver = driver or driver_of(0)
        self.driver.enter()
        self._wish, self._access = self._wished(), self._accessed()
        minimum = self.driver.module.CUmemAllocationGranularity_flags
        least = self.driver.do(
            "be asked",
            "cuMemGetAllocationGranularity",
            self._wish,
            minimum.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
        )
        self.slab_bytes = max(SLAB_BYTES, int(least))
        self.reserved_bytes = -(-max(1, reserved_bytes) // self.slab_bytes) * self.slab_bytes
        address = self.driver.do("reserve", "cuMemAddressReserve", self.reserved_bytes, 0, 0, 0)
        self.base_address = int(address)
        self._handles: list[Any] = []

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """See `DeviceArena.resize`; what was in memory that goes and comes back is lost."""
        if not 0 <= after_bytes <= self.reserved_bytes:
            raise NoMemory(f"an arena of {self.reserved_bytes} bytes cannot reach {after_bytes}")
        slabs = -(-after_bytes // self.slab_bytes)
        held = len(self._handles)
        self.driver.enter()
        try:
            while len(self._handles) < slabs:
                self._map()
            if slabs > held:
                self._open(held, slabs)
        except NoMemory:
            self._unmap(held)
            raise
        if slabs < held:
            with capturing:
                # What still runs may read what is about to go.
                self.driver.do("wait for the device", "cuCtxSynchronize")
                self._unmap(slabs)

    def view(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> DeviceView:
        """Some of its bytes as an array."""
        end = offset_bytes + prod(shape) * np.dtype(dtype).itemsize
        if not 0 <= offset_bytes <= end <= self.reserved_bytes:
            raise ValueError(f"{offset_bytes}…{end} is not within {self.reserved_bytes} bytes")
        return DeviceView(self.base_address + offset_bytes, dtype, shape)

    def close(self) -> None:
        """Give memory and addresses back; nobody may use a view after that."""
        if not self.reserved_bytes:
            return
        self.resize(len(self._handles) * self.slab_bytes, 0)
        self.driver.do("give up", "cuMemAddressFree", self.base_address, self.reserved_bytes)
        self.reserved_bytes = 0

    # ------------------------------------------------------------------ the driver

    def _map(self) -> None:
        driver, slab = self.driver, self.slab_bytes
        begin = self.base_address + len(self._handles) * slab
        handle = driver.do("find more memory", "cuMemCreate", slab, self._wish, 0)
        try:
            driver.do("map", "cuMemMap", begin, slab, 0, handle, 0)
        except NoMemory:
            driver.do("release", "cuMemRelease", handle)
            raise
        self._handles.append(handle)

    def _open(self, begin: int, end: int) -> None:
        """Let the device read and write slabs, all in one call."""
        address = self.base_address + begin * self.slab_bytes
        size_bytes = (end - begin) * self.slab_bytes
        self.driver.do("open", "cuMemSetAccess", address, size_bytes, [self._access], 1)

    def _unmap(self, keep: int) -> None:
        while len(self._handles) > keep:
            handle = self._handles.pop()
            begin = self.base_address + len(self._handles) * self.slab_bytes
            self.driver.do("unmap", "cuMemUnmap", begin, self.slab_bytes)
            self.driver.do("release", "cuMemRelease", handle)

    def _wished(self) -> Any:
        module = self.driver.module
        wish = module.CUmemAllocationProp()
        wish.type = module.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wish.location.type = module.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wish.location.id = self.driver.device
        return wish

    def _accessed(self) -> Any:
        module = self.driver.module
        access = module.CUmemAccessDesc()
        access.location.type = module.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = self.driver.device
        access.flags = module.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access
