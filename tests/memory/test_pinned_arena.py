"""Pinned and staged arenas over a puppet of the driver: what is locked, mapped, and when."""

import numpy as np
import pytest
from tests.support.cuda_driver import Driver

from xirang.memory.arena import NoMemory
from xirang.memory.cuda_arena import SLAB_BYTES, CudaArena
from xirang.memory.cuda_driver import CudaDriver
from xirang.memory.pinned_arena import PinnedArena
from xirang.memory.staged_arena import StagedArena

RESERVED = 64 * SLAB_BYTES


def pinned(driver):
    return PinnedArena(RESERVED, driver=CudaDriver(module=driver))


def staged(driver, on_cut=lambda: None):
    way = CudaDriver(module=driver)
    there = CudaArena(RESERVED, driver=way)
    return StagedArena(there, PinnedArena(RESERVED, driver=way), on_cut)


def test_all_that_has_pages_is_locked_as_one_range():
    driver = Driver()
    arena = pinned(driver)
    before = 0
    for after, slabs in ((1, 1), (3 * SLAB_BYTES, 3), (SLAB_BYTES + 1, 2), (0, 0), (5, 1)):
        arena.resize(before, after)
        assert driver.locked == ({arena.base_address: slabs * SLAB_BYTES} if slabs else {})
        before = after
    arena.close()
    assert driver.locked == {}


def test_what_lies_in_it_stays_when_it_grows():
    arena = pinned(Driver())
    arena.resize(0, SLAB_BYTES)
    arena.view(0, np.int64, (100,))[...] = np.arange(100)
    arena.resize(SLAB_BYTES, 4 * SLAB_BYTES)
    arena.resize(4 * SLAB_BYTES, SLAB_BYTES)
    assert (arena.view(0, np.int64, (100,)) == np.arange(100)).all()


def test_a_refusal_leaves_it_as_it_was():
    driver = Driver(slabs=4)
    arena = pinned(driver)
    arena.resize(0, 2 * SLAB_BYTES)
    with pytest.raises(NoMemory, match="cannot lock pages"):
        arena.resize(2 * SLAB_BYTES, 5 * SLAB_BYTES)
    assert driver.locked == {arena.base_address: 2 * SLAB_BYTES}
    assert arena.reach_bytes == 2 * SLAB_BYTES
    with pytest.raises(NoMemory, match="cannot reach"):
        arena.resize(2 * SLAB_BYTES, RESERVED + 1)


def test_granted_pages_are_mapped_when_they_are_needed():
    driver = Driver()
    arena = staged(driver)
    arena.resize(0, 6 * SLAB_BYTES)
    assert len(driver.created) == 0
    arena.reach(2 * SLAB_BYTES)
    arena.reach(SLAB_BYTES)
    assert len(driver.created) == 2
    with pytest.raises(NoMemory):
        arena.reach(9 * SLAB_BYTES)
    assert len(driver.created) == 2


def test_a_cut_takes_pages_on_both_sides():
    driver, cuts = Driver(), []
    arena = staged(driver, lambda: cuts.append(len(driver.created)))
    arena.resize(0, 6 * SLAB_BYTES)
    arena.reach(4 * SLAB_BYTES)
    arena.view(0, np.uint8, (3 * SLAB_BYTES,))
    arena.resize(6 * SLAB_BYTES, SLAB_BYTES)
    assert (len(driver.created), sum(driver.locked.values()), cuts) == (1, SLAB_BYTES, [1])
    arena.close()
    assert not driver.created
    assert not driver.locked


def test_it_knows_how_far_its_pages_have_always_reached():
    arena = staged(Driver())
    arena.reach(4 * SLAB_BYTES)
    assert arena.lowest_bytes() == RESERVED
    arena.resize(6 * SLAB_BYTES, 3 * SLAB_BYTES)
    arena.resize(3 * SLAB_BYTES, SLAB_BYTES)
    arena.reach(4 * SLAB_BYTES)
    assert arena.lowest_bytes() == SLAB_BYTES
    assert arena.lowest_bytes() == RESERVED


def test_it_tells_its_own_inputs_from_others():
    arena = staged(Driver())
    own = arena.view(192, np.int64, (7, 9))
    assert arena.offset_of(own) == 192
    assert arena.offset_of(own[3:]) == 192 + 3 * 9 * 8
    assert arena.offset_of(np.zeros((7, 9))) is None
