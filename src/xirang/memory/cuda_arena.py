"""An arena on a CUDA device: a range of its addresses, with memory mapped behind the bottom.

The driver's own virtual memory: addresses stay while pages come and go, so that views, plans and
captured graphs stay true. Memory is mapped slab by slab, since a mapping can only be undone whole.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xirang.errors import InvalidSetting
from xirang.memory.arena import NoMemory

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
    """

    def __init__(self, reserved_bytes: int, *, device: int = 0, driver: Any = None) -> None:
        """Reserve addresses, without memory.

        Args:
            reserved_bytes: How many; rounded up to whole slabs.
            device: Its number.
            driver: The module `cuda.bindings.driver`.

        Raises:
            InvalidSetting: There is no such device, or no way to it.
            NoMemory: The driver does not even reserve.
        """
        self._driver = driver or _driver()
        self._context = self._held(device)
        self._wish = self._wish_for(device)
        self._access = self._access_to(device)
        minimum = self._driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        least = self._done("ask the driver", "cuMemGetAllocationGranularity", self._wish, minimum)
        self.slab_bytes = max(SLAB_BYTES, int(least))
        self.reserved_bytes = -(-max(1, reserved_bytes) // self.slab_bytes) * self.slab_bytes
        address = self._done("reserve", "cuMemAddressReserve", self.reserved_bytes, 0, 0, 0)
        self.base_address = int(address)
        self._handles: list[Any] = []

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """See `DeviceArena.resize`; what was in memory that goes and comes back is lost."""
        if not 0 <= after_bytes <= self.reserved_bytes:
            raise NoMemory(f"an arena of {self.reserved_bytes} bytes cannot reach {after_bytes}")
        slabs = -(-after_bytes // self.slab_bytes)
        held = len(self._handles)
        self._enter()
        try:
            while len(self._handles) < slabs:
                self._map()
        except NoMemory:
            self._unmap(held)
            raise
        if slabs < held:
            # What still runs may read what is about to go.
            self._done("wait for the device", "cuCtxSynchronize")
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
        self._done("give up", "cuMemAddressFree", self.base_address, self.reserved_bytes)
        self.reserved_bytes = 0

    # ------------------------------------------------------------------ the driver

    def _map(self) -> None:
        begin = self.base_address + len(self._handles) * self.slab_bytes
        handle = self._done("find more memory", "cuMemCreate", self.slab_bytes, self._wish, 0)
        try:
            self._done("map", "cuMemMap", begin, self.slab_bytes, 0, handle, 0)
        except NoMemory:
            self._done("release", "cuMemRelease", handle)
            raise
        self._handles.append(handle)
        self._done("open", "cuMemSetAccess", begin, self.slab_bytes, [self._access], 1)

    def _unmap(self, keep: int) -> None:
        while len(self._handles) > keep:
            handle = self._handles.pop()
            begin = self.base_address + len(self._handles) * self.slab_bytes
            self._done("unmap", "cuMemUnmap", begin, self.slab_bytes)
            self._done("release", "cuMemRelease", handle)

    def _done(self, what: str, name: str, *arguments: Any) -> Any:
        """What a function of the driver gives."""
        number, *given = getattr(self._driver, name)(*arguments)
        if int(number):
            raise NoMemory(f"the CUDA driver cannot {what}: {name} says {number}")
        return given[0] if given else None

    def _held(self, device: int) -> Any:
        """The device's primary context: the one that PyTorch and ONNX Runtime use too."""
        try:
            self._done("begin", "cuInit", 0)
            number = self._done("find the device", "cuDeviceGet", device)
            context = self._done("enter", "cuDevicePrimaryCtxRetain", number)
        except NoMemory as error:
            raise InvalidSetting(f"there is no CUDA device {device}: {error}") from None
        self._context = context
        self._enter()
        return context

    def _enter(self) -> None:
        """A context belongs to a thread, and pages are moved by another one than runs."""
        self._done("enter", "cuCtxSetCurrent", self._context)

    def _wish_for(self, device: int) -> Any:
        wish = self._driver.CUmemAllocationProp()
        wish.type = self._driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wish.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wish.location.id = device
        return wish

    def _access_to(self, device: int) -> Any:
        access = self._driver.CUmemAccessDesc()
        access.location.type = self._driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = device
        access.flags = self._driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        return access


def _driver() -> Any:
    try:
        from cuda.bindings import driver  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise InvalidSetting("an arena on CUDA needs the package cuda-bindings") from None
    return driver
