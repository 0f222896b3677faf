"""A CUDA arena over a puppet of the driver: what is mapped, and what is undone when it fails."""

import pytest
from tests.support.cuda_driver import Driver

from xirang.errors import InvalidSetting
from xirang.memory.arena import NoMemory
from xirang.memory.cuda_arena import SLAB_BYTES, CudaArena
from xirang.memory.cuda_driver import CudaDriver, pools_bytes


def arena_of(driver, reserved_bytes=1 << 30):
    return CudaArena(reserved_bytes, driver=CudaDriver(module=driver))


def reach(driver):
    base = next(iter(driver.reserved), 0)
    slabs = {base + n * SLAB_BYTES for n in range(len(driver.open))}
    assert set(driver.mapped) == driver.open == slabs
    assert set(driver.mapped.values()) == driver.created
    return len(driver.mapped)


def test_it_grows_and_shrinks_by_whole_slabs_from_the_bottom():
    driver = Driver()
    arena = arena_of(driver)
    assert arena.reserved_bytes == 1 << 30
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
    arena = arena_of(driver)
    arena.resize(0, SLAB_BYTES)
    arena.resize(SLAB_BYTES, 0)
    assert driver.log.index("cuCtxSynchronize") < driver.log.index("cuMemUnmap")


@pytest.mark.parametrize("fails", ["", "cuMemMap", "cuMemSetAccess"])
def test_a_refusal_leaves_everything_as_it_was(fails):
    driver = Driver(slabs=4)
    arena = arena_of(driver)
    arena.resize(0, 2 * SLAB_BYTES)
    driver.fails = fails
    with pytest.raises(NoMemory, match="CUDA driver cannot"):
        arena.resize(2 * SLAB_BYTES, 5 * SLAB_BYTES)
    assert reach(driver) == 2
    driver.fails = ""
    arena.resize(2 * SLAB_BYTES, 4 * SLAB_BYTES)
    assert reach(driver) == 4


def test_beyond_its_addresses_it_never_reaches():
    arena = arena_of(Driver(), SLAB_BYTES)
    with pytest.raises(NoMemory):
        arena.resize(0, SLAB_BYTES + 1)
    with pytest.raises(ValueError, match="not within"):
        arena.view(SLAB_BYTES - 4, "<f4", (2,))


def test_a_view_says_where_and_what_it_is():
    arena = arena_of(Driver(), SLAB_BYTES)
    told = arena.view(64, "<f2", (3, 5)).__cuda_array_interface__
    assert told["data"] == (arena.base_address + 64, False)
    assert (told["typestr"], told["shape"]) == ("<f2", (3, 5))


@pytest.mark.parametrize("module", [Driver(devices=0), Driver(devices=1)])
def test_without_a_device_it_says_so(module):
    with pytest.raises(InvalidSetting, match="no CUDA device 1"):
        CudaDriver(1, module)


class Driverless(Driver):
    """`cuda-bindings` where no driver is installed: it says so at whatever is called first."""

    def cuInit(self, flags):  # noqa: N802
        raise RuntimeError("the library was not found\nlooked at ...")


def test_without_a_driver_it_says_so():
    with pytest.raises(InvalidSetting, match=r"no CUDA driver: the library was not found$"):
        CudaDriver(module=Driverless())
    assert pools_bytes(0, Driverless()) == ()


def test_a_pool_has_most_of_its_device_or_what_was_said():
    two = Driver(devices=2, slabs=10)
    assert pools_bytes(0, two) == (("cuda:0", 7 * SLAB_BYTES), ("cuda:1", 7 * SLAB_BYTES))
    assert pools_bytes(SLAB_BYTES, two) == (("cuda:0", SLAB_BYTES), ("cuda:1", SLAB_BYTES))
    assert pools_bytes(1 << 40, two)[0] == ("cuda:0", 10 * SLAB_BYTES)
    assert pools_bytes(0, Driver(devices=0)) == ()
