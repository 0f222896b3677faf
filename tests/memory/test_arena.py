"""Pages come and go behind addresses that stay."""

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest

from xirang.errors import XirangError
from xirang.memory import arena as module
from xirang.memory.arena import HostArena, NoMemory

MIB = 1 << 20


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_addresses_cost_nothing_and_begin_at_a_page():
    before = resident_bytes()
    arena = HostArena(8 << 30)
    assert arena.reserved_bytes == 8 << 30
    assert arena.base_address % 4096 == 0
    assert resident_bytes() - before < MIB


def test_sizes_that_are_no_pages_are_rounded_up():
    assert HostArena(1).reserved_bytes == 4096
    assert HostArena(0).reserved_bytes == 4096
    assert HostArena(4097).reserved_bytes == 8192


@pytest.mark.parametrize("has_populate", [True, False])
def test_growing_brings_pages_and_shrinking_gives_them_back(monkeypatch, has_populate):
    if not has_populate:
        monkeypatch.setattr(module, "_POPULATE_WRITE", 9999)  # as an older kernel answers
    arena = HostArena(1 << 30)
    before = resident_bytes()
    arena.resize(0, 64 * MIB)
    assert resident_bytes() - before > 60 * MIB
    arena.view(0, np.uint8, (64 * MIB,))[:] = 7
    arena.resize(64 * MIB, 2 * MIB)
    assert resident_bytes() - before < 8 * MIB
    assert arena.view(0, np.uint8, (2 * MIB,)).min() == 7
    arena.resize(2 * MIB, 4 * MIB)
    assert arena.view(0, np.uint8, (4 * MIB,))[2 * MIB :].max() == 0


def test_growing_leaves_what_is_there():
    arena = HostArena(16 * MIB)
    arena.resize(0, 100)
    arena.view(0, np.uint8, (100,))[:] = 3
    arena.resize(100, 5000)
    assert arena.view(0, np.uint8, (100,)).min() == 3


@pytest.mark.parametrize("size_bytes", [1 << 60, (1 << 63) - 1, 1 << 70])
def test_what_cannot_be_had_is_said(size_bytes):
    with pytest.raises(NoMemory, match="reserve"):
        HostArena(size_bytes)


def test_an_arena_never_grows_beyond_its_addresses():
    arena = HostArena(MIB)
    with pytest.raises(NoMemory, match=r"1048576 bytes cannot reach 1048577"):
        arena.resize(0, MIB + 1)
    assert issubclass(NoMemory, XirangError)
    assert issubclass(NoMemory, MemoryError)


def test_a_refusal_of_the_system_leaves_the_pages_as_they_were(monkeypatch):
    arena = HostArena(16 * MIB)
    arena.resize(0, MIB)
    arena.view(0, np.uint8, (MIB,))[:] = 9
    monkeypatch.setattr(
        module, "_advise", lambda _address, _size, advice: 12 if advice == 23 else 0
    )
    with pytest.raises(NoMemory, match="Cannot allocate memory"):
        arena.resize(MIB, 8 * MIB)
    assert arena.view(0, np.uint8, (MIB,)).min() == 9


def test_views_are_cut_from_the_range_and_no_further():
    arena = HostArena(4096)
    view = arena.view(64, np.dtype("<f4"), (2, 3))
    view[:] = 1.5
    assert view.ctypes.data == arena.base_address + 64
    assert arena.view(64, np.dtype("<f4"), (6,)).tolist() == [1.5] * 6
    with pytest.raises((TypeError, ValueError)):
        arena.view(4000, np.dtype("<f8"), (100,))


def test_pinned_pages_stay():
    arena = HostArena(4 * MIB)
    arena.resize(0, 4 * MIB)
    arena.view(0, np.uint8, (4 * MIB,))[:] = 5
    arena.pinned_bytes = MIB
    arena.resize(4 * MIB, 0)
    view = arena.view(0, np.uint8, (4 * MIB,))
    assert view[:MIB].min() == 5
    assert view[2 * MIB :].max() == 0


def test_a_view_outlives_its_arena():
    arena = HostArena(MIB)
    arena.resize(0, MIB)
    view = arena.view(0, np.uint8, (MIB,))
    arena.close()
    arena.close()
    del arena
    gc.collect()
    view[:] = 1
    assert view.max() == 1


class Watcher:
    def __init__(self, answer):
        self.answer, self.asked = answer, 0

    def leave(self):
        self.asked += 1
        return self.answer


@pytest.mark.parametrize("may_go", [True, False])
def test_who_hands_out_addresses_is_asked_before_they_go(may_go):
    arena = HostArena(MIB)
    arena.resize(0, MIB)
    view = arena.view(0, np.uint8, (MIB,))
    view[:] = 4
    watcher = arena.guarded_by("somebody", lambda: Watcher(may_go))
    assert arena.guarded_by("somebody", lambda: Watcher(may_go)) is watcher
    arena.close()
    assert watcher.asked == 1
    assert view.max() == (0 if may_go else 4)


def test_an_arena_that_is_forgotten_closes_itself():
    watcher = Watcher(answer=True)
    HostArena(MIB).guarded_by("somebody", lambda: watcher)
    gc.collect()
    assert watcher.asked == 1


def pages_of(arena):
    """Bytes of memory behind a file that is shared."""
    return os.fstat(arena.descriptor).st_blocks * 512


def test_pages_that_are_shared_are_seen_by_all_who_map_them_and_go_from_all():
    mine = HostArena.shared(64 * MIB)
    theirs = HostArena(mine.reserved_bytes, os.dup(mine.descriptor))
    assert pages_of(mine) == 0
    mine.resize(0, 8 * MIB)
    assert pages_of(mine) == 8 * MIB
    mine.view(MIB, np.int32, (1000,))[:] = 7
    theirs.populate(8 * MIB)
    assert (theirs.view(MIB, np.int32, (1000,)) == 7).all()
    assert mine.cuts == 0
    mine.resize(8 * MIB, 2 * MIB)
    assert (pages_of(mine), mine.cuts) == (2 * MIB, 1)
    assert (theirs.view(MIB, np.int32, (1000,)) == 7).all()
    mine.close()
    assert pages_of(theirs) == 0
    assert mine.descriptor == -1


def test_nobody_can_cut_off_the_end_of_shared_memory():
    arena = HostArena.shared(MIB)
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(arena.descriptor, 0)


def test_where_nothing_can_be_shared_it_says_so_and_leaves_no_file_open(monkeypatch):
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(NoMemory, match="cannot reserve"):
        HostArena.shared(1 << 60)
    with pytest.raises(NoMemory, match="cannot share"):
        HostArena.shared(1 << 80)
    assert len(list(Path("/proc/self/fd").iterdir())) == before

    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", none_left)
    with pytest.raises(NoMemory, match="Too many open files"):
        HostArena.shared(MIB)
