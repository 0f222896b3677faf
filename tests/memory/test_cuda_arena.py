"""A CUDA arena over a puppet of the driver: what is mapped, and what is undone when it fails."""

# ruff: noqa: N802 - the driver's own names
import subprocess
import sys
from types import SimpleNamespace

import pytest

from xirang.errors import InvalidSetting
from xirang.memory.arena import NoMemory
from xirang.memory.cuda_arena import SLAB_BYTES, CudaArena

BASE = 0x7000_0000_0000


class Driver:
    """As much of `cuda.bindings.driver` as an arena uses; it has so many slabs of memory."""

    CUmemAllocationProp = CUmemAccessDesc = lambda _: SimpleNamespace(location=SimpleNamespace())
    CUmemAllocationType = SimpleNamespace(CU_MEM_ALLOCATION_TYPE_PINNED=1)
    CUmemLocationType = SimpleNamespace(CU_MEM_LOCATION_TYPE_DEVICE=1)
    CUmemAccess_flags = SimpleNamespace(CU_MEM_ACCESS_FLAGS_PROT_READWRITE=3)
    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_MINIMUM=0)

    def __init__(self, slabs=8, devices=1, fails=""):
        self.slabs, self.devices, self.fails = slabs, devices, fails
        self.created, self.mapped, self.open = set(), {}, set()
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

    def cuDevicePrimaryCtxRetain(self, device):
        return 0, f"context {device}"

    def cuCtxSetCurrent(self, context):
        return (0,)

    def cuCtxSynchronize(self):
        return (0,)

    def cuMemGetAllocationGranularity(self, wish, flags):
        return 0, 65536

    def cuMemAddressReserve(self, size, alignment, address, flags):
        return 0, BASE

    def cuMemAddressFree(self, address, size):
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
        self.open.discard(address)
        return (0,)

    def cuMemSetAccess(self, address, size, access, count):
        assert address in self.mapped
        self.open.add(address)
        return (0,)


def reach(driver):
    assert (
        set(driver.mapped)
        == driver.open
        == {BASE + n * SLAB_BYTES for n in range(len(driver.open))}
    )
    assert set(driver.mapped.values()) == driver.created
    return len(driver.mapped)


def test_it_grows_and_shrinks_by_whole_slabs_from_the_bottom():
    driver = Driver()
    arena = CudaArena(1 << 30, driver=driver)
    assert (arena.base_address, arena.reserved_bytes) == (BASE, 1 << 30)
    course = []
    before = 0
    for after in (1, SLAB_BYTES, SLAB_BYTES + 1, 5 * SLAB_BYTES, 2 * SLAB_BYTES, 0, SLAB_BYTES):
        arena.resize(before, after)
        course.append(reach(driver))
        before = after
    assert course == [1, 1, 2, 5, 2, 0, 1]
    arena.close()
    arena.close()
    assert reach(driver) == 0
    assert driver.log.count("cuMemAddressFree") == 1


def test_nothing_is_unmapped_under_what_still_runs():
    driver = Driver()
    arena = CudaArena(1 << 30, driver=driver)
    arena.resize(0, SLAB_BYTES)
    arena.resize(SLAB_BYTES, 0)
    assert driver.log.index("cuCtxSynchronize") < driver.log.index("cuMemUnmap")


@pytest.mark.parametrize("fails", ["", "cuMemMap", "cuMemSetAccess"])
def test_a_refusal_leaves_everything_as_it_was(fails):
    driver = Driver(slabs=4)
    arena = CudaArena(1 << 30, driver=driver)
    arena.resize(0, 2 * SLAB_BYTES)
    driver.fails = fails
    with pytest.raises(NoMemory, match="CUDA driver cannot"):
        arena.resize(2 * SLAB_BYTES, 5 * SLAB_BYTES)
    assert reach(driver) == 2
    driver.fails = ""
    arena.resize(2 * SLAB_BYTES, 4 * SLAB_BYTES)
    assert reach(driver) == 4


def test_beyond_its_addresses_it_never_reaches():
    arena = CudaArena(SLAB_BYTES, driver=Driver())
    with pytest.raises(NoMemory):
        arena.resize(0, SLAB_BYTES + 1)
    with pytest.raises(ValueError, match="not within"):
        arena.view(SLAB_BYTES - 4, "<f4", (2,))


def test_a_view_says_where_and_what_it_is():
    arena = CudaArena(SLAB_BYTES, driver=Driver())
    told = arena.view(64, "<f2", (3, 5)).__cuda_array_interface__
    assert told["data"] == (BASE + 64, False)
    assert (told["typestr"], told["shape"]) == ("<f2", (3, 5))


@pytest.mark.parametrize("driver", [Driver(devices=0), Driver(devices=1)])
def test_without_a_device_it_says_so(driver):
    with pytest.raises(InvalidSetting, match="no CUDA device 1"):
        CudaArena(1 << 30, device=1, driver=driver)


@pytest.mark.slow
def test_the_check_is_honest_about_what_it_found():
    command = [sys.executable, "-m", "xirang.memory.check_cuda"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        assert "no device" in ended.stdout
    else:
        assert "FAILED" not in ended.stdout
