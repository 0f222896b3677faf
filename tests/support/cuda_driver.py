"""A puppet of the CUDA driver: as much of `cuda.bindings.driver` as is used, over host memory.

Whoever touches what is not mapped is ended by the system, and what is mapped anew holds no numbers.
"""

# ruff: noqa: N802 - the driver's own names
import ctypes
import mmap
from types import SimpleNamespace

from xirang.memory.arena import HostArena
from xirang.memory.cuda_arena import SLAB_BYTES


class Driver:
    """It has so many slabs of memory, and may fail at one function."""

    CUmemAllocationProp = CUmemAccessDesc = lambda _: SimpleNamespace(location=SimpleNamespace())
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)

    def __init__(self, slabs=8, devices=1, fails=""):
        self.slabs, self.devices, self.fails = slabs, devices, fails
        self.created, self.mapped, self.open = set(), {}, set()
        self.reserved, self.locked = {}, {}
        self.log = []

    def __getattribute__(self, name):
        if not name.startswith("cu"):
            return object.__getattribute__(self, name)
        self.log.append(name)
        if name == self.fails:
            return lambda *_: (2, None)
        return object.__getattribute__(self, name)

    def cuInit(self, flags):
        return (0 if self.devices else 100,)

    def cuDeviceGet(self, number):
        return (0, number) if number < self.devices else (101, None)

    def cuDeviceGetCount(self):
        return 0, self.devices

    def cuDeviceTotalMem(self, device):
        return 0, self.slabs * SLAB_BYTES

    def cuDevicePrimaryCtxRetain(self, device):
        return 0, f"context {device}"

    def cuCtxSetCurrent(self, context):
        return (0,)

    def cuCtxSynchronize(self):
        return (0,)

    def cuMemGetInfo(self):
        return 0, (self.slabs - len(self.created)) * SLAB_BYTES, self.slabs * SLAB_BYTES

    def cuMemGetAllocationGranularity(self, wish, flags):
        return 0, 65536

    def cuMemAddressReserve(self, size, alignment, address, flags):
        arena = HostArena(size)
        self.reserved[arena.base_address] = arena
        protect(arena.base_address, size, 0)
        return 0, arena.base_address

    def cuMemAddressFree(self, address, size):
        arena = self.reserved.pop(address)
        assert arena.reserved_bytes == size
        protect(address, size, mmap.PROT_READ | mmap.PROT_WRITE)
        return (0,)

    def cuMemCreate(self, size, wish, flags):
        if len(self.created) == self.slabs:
            return 2, None
        handle = max(self.created, default=0) + 1
        self.created.add(handle)
        return 0, handle

    def cuMemRelease(self, handle):
        self.created.remove(handle)
        return (0,)

    def cuMemMap(self, address, size, offset, handle, flags):
        assert address not in self.mapped
        self.mapped[address] = handle
        return (0,)

    def cuMemUnmap(self, address, size):
        del self.mapped[address]
        protect(address, size, 0)
        self.open.discard(address)
        return (0,)

    def cuMemSetAccess(self, address, size, access, count):
        slabs = set(range(address, address + size, SLAB_BYTES))
        assert slabs <= set(self.mapped)
        self.open |= slabs
        protect(address, size, mmap.PROT_READ | mmap.PROT_WRITE)
        ctypes.memset(address, 0xFF, size)
        return (0,)

    def cuMemHostRegister(self, address, size, flags):
        assert flags == 1
        assert not any(at < address + size and address < at + n for at, n in self.locked.items())
        if sum(self.locked.values()) + size > self.slabs * SLAB_BYTES:
            return 2, None
        self.locked[address] = size
        return (0,)

    def cuMemHostUnregister(self, address):
        return (713 if self.locked.pop(address, None) is None else 0,)


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def protect(address, size, how):
    assert _libc.mprotect(address, size, how) == 0
