"""The native allocator against a naive twin: nobody's memory is ever given to another."""

import ctypes
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.support.native import library, needs_native

from xirang.core.memory.lifetime import Allocate, Free
from xirang.memory.arena import HostArena
from xirang.memory.native.library import Slots
from xirang.memory.room import Ground

pytestmark = needs_native

UNIT = 64


class Twin:
    """A list of blocks, searched from the front."""

    def __init__(self, floor, lease, sizes, offsets, height):
        self.floor, self.lease, self.height = floor, lease, height
        self.sizes, self.offsets = sizes, offsets
        self.blocks = {}
        self.asked = self.hits = 0

    def is_free(self, begin, end):
        return all(e <= begin or end <= b for b, e in self.blocks.values())

    def gap(self, start, size):
        starts = sorted({start, *(e for _, e in self.blocks.values() if e > start)})
        return next(
            (b for b in starts if b + size <= self.lease and self.is_free(b, b + size)), None
        )

    def take(self, size_bytes):
        """Where it has to lie; None: in the system's memory."""
        size = -(-size_bytes // UNIT) * UNIT
        number = self.asked
        self.asked += 1
        if number < len(self.sizes) and not self.sizes[number]:
            self.hits += 1
            return None
        begin = None
        if number < len(self.sizes) and size <= self.sizes[number]:
            begin = self.floor + self.offsets[number]
            if begin + size > self.lease or not self.is_free(begin, begin + size):
                begin = None
            else:
                self.hits += 1
        for start in (self.height, self.floor):
            if begin is None:
                begin = self.gap(start, size)
        if begin is not None:
            self.blocks[number] = (begin, begin + size)
        return begin


def slots_of(sizes, offsets):
    """A structure whose slots lie at these offsets: each stands on a slot of that height."""
    count = len(sizes)
    terms = np.zeros((2 * count, 6), np.int64)
    terms[:count, 0], terms[count:, 0] = sizes, offsets
    order = np.array([*range(count, 2 * count), *range(count)], np.int64)
    begins = np.array([*range(count), *[count] * (count + 1)], np.int64)
    below = np.array([*range(count, 2 * count), 0], np.int64)
    kept = (terms, np.ones(2 * count, np.int64), order, begins, below)
    slots = Slots(2 * count, *(array.ctypes.data for array in kept), 1 << 40)
    slots.kept = kept
    return slots


class Hinted:
    """Stands for a `Structure`."""

    def __init__(self, slots):
        self.slots, self.count = slots, slots.count

    def at(self, length):
        return self.slots, length, None


units = st.integers(0, 8).map(lambda n: n * UNIT)
steps = st.lists(st.one_of(st.integers(1, 600), st.integers(0, 30).map(lambda n: -n - 1)))


@given(
    hints=st.lists(st.tuples(units, units), max_size=12),
    floor=units,
    room=st.integers(0, 40).map(lambda n: n * UNIT),
    script=steps,
)
def test_it_does_as_its_twin_does(hints, floor, room, script):
    sizes, offsets = [s for s, _ in hints], [o for _, o in hints]
    native, arena = library(), HostArena(1 << 16)
    arena.resize(0, 1 << 16)
    ground = Ground(native, arena)
    height = floor + max([s + o for s, o in hints], default=0)
    ground.run.floor_bytes, ground.run.lease_bytes = floor, height + room
    assert ground.begin(Hinted(slots_of(sizes, offsets)), 1, 1)
    assert ground.run.height_bytes == height
    # The slots that carry the others come behind them, at the bottom.
    twin = Twin(floor, height + room, sizes + offsets, offsets + [0] * len(sizes), height)
    addresses, living = [], {}
    for step in script:
        if step > 0:
            expected = twin.take(step)
            address = native.allocate(step)
            is_inside = arena.base_address <= address < arena.base_address + (1 << 16)
            assert (address - arena.base_address if is_inside else None) == expected
            assert address % UNIT == 0
            ctypes.memset(address, len(addresses) % 256, step)
            living[len(addresses)] = (address, step)
            addresses.append(address)
        elif living:
            number = sorted(living)[(-step - 1) % len(living)]
            address, size = living.pop(number)
            assert ctypes.string_at(address, size) == bytes([number % 256]) * size
            native.release(address)
            twin.blocks.pop(number, None)
    for number, (address, size) in living.items():
        assert ctypes.string_at(address, size) == bytes([number % 256]) * size
        native.release(address)
    ground.end()
    told = ground.run
    assert (told.requests, told.hits, told.leftover_bytes) == (twin.asked, twin.hits, 0)
    assert told.alive_bytes == 0


def opened(lease=1 << 16, **fields):
    arena = HostArena(1 << 16)
    ground = Ground(library(), arena)
    ground.run.lease_bytes = lease
    for name, value in fields.items():
        setattr(ground.run, name, value)
    return ground


def test_what_outlives_its_run_is_never_given_away():
    native, ground = library(), opened()
    ground.begin(None, 0, 0)
    kept = native.allocate(1000)
    ground.end()
    assert ground.run.leftover_bytes == ground.arena.pinned_bytes == 1024
    ground.begin(None, 0, 0)
    other = native.allocate(5000)
    assert other >= kept + 1000
    native.release(kept)
    assert native.allocate(1000) == kept
    native.release(kept)
    native.release(other)
    ground.end()
    assert ground.arena.pinned_bytes == 0


def test_an_arena_in_which_something_lives_is_not_forgotten():
    native, ground = library(), opened()
    ground.begin(None, 0, 0)
    kept = native.allocate(1000)
    ground.end()
    ctypes.memset(kept, 7, 1000)
    ground.arena.close()
    del ground
    assert ctypes.string_at(kept, 1000) == b"\7" * 1000
    native.release(kept)


def test_another_thread_may_give_back():
    native, ground = library(), opened()
    ground.begin(None, 0, 0)
    address = native.allocate(100)
    thread = threading.Thread(target=native.release, args=[address])
    thread.start()
    thread.join()
    assert native.allocate(100) == address
    native.release(address)
    ground.end()
    assert ground.run.leftover_bytes == 0


def test_outside_of_runs_and_in_other_threads_memory_is_the_systems():
    native, ground = library(), opened()
    ground.begin(None, 0, 0)
    found = []
    thread = threading.Thread(target=lambda: found.append(native.allocate(100)))
    thread.start()
    thread.join()
    ground.end()
    found.append(native.allocate(100))
    base = ground.arena.base_address
    for address in found:
        assert not base <= address < base + ground.arena.reserved_bytes
        native.release(address)


@pytest.mark.parametrize("size", [(1 << 64) - 1, 1 << 63, (1 << 62) + 1, 1 << 61, 1 << 47])
@pytest.mark.parametrize("is_in_run", [True, False])
def test_sizes_that_nobody_has_are_refused(size, is_in_run):
    native, ground = library(), opened()
    if is_in_run:
        ground.begin(None, 0, 0)
    assert native.allocate(size) is None
    address = native.allocate(64)
    assert address is not None
    native.release(address)
    ground.end()


def test_nothing_takes_nothing():
    native, ground = library(), opened()
    ground.begin(None, 0, 0)
    assert native.allocate(0) is None
    native.release(None)
    ground.end()
    assert ground.run.requests == 0


def test_what_finds_no_gap_comes_from_the_system_and_is_counted():
    native, ground = library(), opened(lease=256)
    ground.listen()
    ground.begin(None, 0, 0)
    inside, outside = native.allocate(256), native.allocate(100)
    native.release(outside)
    native.release(inside)
    ground.end()
    assert (ground.run.spilled_bytes, ground.run.reach_bytes) == (100, 256)
    assert ground.run.alive_peak_bytes == 356
    assert ground.heard() == [Allocate(256), Allocate(100), Free(1), Free(0)]


def test_a_recording_that_is_too_long_is_none(monkeypatch):
    monkeypatch.setattr("xirang.memory.room.EVENTS_MAX", 4)
    native, ground = library(), opened()
    ground.listen()
    ground.begin(None, 0, 0)
    for _ in range(3):
        native.release(native.allocate(8))
    ground.end()
    assert ground.heard() is None


@pytest.mark.parametrize("refuse_at", [0, 1, 2])
def test_a_request_can_be_refused(refuse_at):
    native, ground = library(), opened(refuse_at=refuse_at)
    ground.begin(None, 0, 0)
    found = [native.allocate(64) for _ in range(3)]
    assert [address is None for address in found] == [n == refuse_at for n in range(3)]
    for address in found:
        native.release(address)
    ground.end()
    assert ground.run.leftover_bytes == 0


def test_a_thousand_arenas_and_no_more():
    native, arena = library(), HostArena(1 << 16)
    numbers = []
    while (number := native.add_arena(arena.base_address, 4096)) >= 0:
        numbers.append(number)
    assert 500 < len(numbers) <= 1024
    assert all(native.remove_arena(number) for number in numbers)
    again = native.add_arena(arena.base_address, 4096)
    assert again >= 0
    assert again not in numbers, "a number is never given to another"
    assert native.remove_arena(again)


def test_a_run_in_an_arena_that_is_gone_does_not_begin():
    ground = opened()
    ground.arena.close()
    others = [opened() for _ in range(3)]
    assert not ground.begin(None, 0, 0)
    assert others[0].begin(None, 0, 0)
    others[0].end()
