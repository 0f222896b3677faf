"""What outlives its run: it stays as it is, and later runs find their way around it."""

import ctypes
from random import Random

import numpy as np
import pytest
from tests.memory.test_room import Instance, footprint_of, usual
from tests.support.native import library, needs_native

from xirang.core.memory.lifetime import Allocate, Free
from xirang.memory.room import Ground

pytestmark = needs_native

MARK = 0x5A


class Keeping:
    """A model that once keeps a block of a size, filled."""

    def __init__(self, script, size_bytes):
        self.script, self.size_bytes = script, size_bytes
        self.kept = None
        self.has_kept = False

    def run(self, inputs, wanted):
        native = library()
        living = []
        if not self.has_kept:
            self.has_kept = True
            self.kept = native.allocate(self.size_bytes)
            ctypes.memset(self.kept, MARK, self.size_bytes)
        for step in self.script(*inputs["x"].shape):
            if isinstance(step, Allocate):
                address = native.allocate(step.size_bytes)
                ctypes.memset(address, len(living) + 1, step.size_bytes)
                living.append(address)
            else:
                native.release(living[step.block])
        return dict.fromkeys(wanted, inputs["x"] * 2)

    def is_whole(self):
        return ctypes.string_at(self.kept, self.size_bytes) == bytes([MARK]) * self.size_bytes

    def forget(self):
        library().release(self.kept)


@pytest.mark.parametrize("lease_bytes", [None, 64 << 20])
@pytest.mark.parametrize("size_bytes", [64, 5000, 300_000])
def test_inputs_and_blocks_of_later_runs_leave_it_alone(size_bytes, lease_bytes):
    """Whatever lease they have: with a large one they go above it, planned as ever."""
    instance, dice = Instance(), Random(size_bytes)
    instance.model = model = Keeping(usual, size_bytes)
    for turn in range(60):
        instance.run(dice.randint(1, 20), dice.randint(1, 60), lease_bytes)
        instance.footprint.settle()
        assert model.is_whole(), turn
        if turn and lease_bytes is not None:
            assert instance.room.is_planned, turn
    model.forget()
    instance.run(4, 9)
    assert instance.arena.pinned_bytes == 0


def test_a_block_that_every_run_leaves_behind_is_no_part_of_the_plan():
    """As the state of a recurrent model: it comes from the system, so it is in nobody's way."""
    kept = []

    def leaving(rows, length):
        return [Allocate(64 * rows * length), Allocate(100), Free(0)]

    class Leaving:
        def run(self, inputs, wanted):
            native = library()
            rows, length = inputs["x"].shape
            made = native.allocate(64 * rows * length)
            kept.append(native.allocate(100))
            native.release(made)
            if len(kept) > 1:
                native.release(kept.pop(0))
            return dict.fromkeys(wanted, inputs["x"] * 2)

    ground = Ground(library(), Instance().arena)
    ground.run.lease_bytes = 1 << 20
    ground.listen()
    ground.begin(None, 0, 0)
    Leaving().run({"x": np.ones((1, 4), np.float32)}, ["y"])
    ground.end()
    assert ground.heard() == [Allocate(256), Allocate(0), Free(0)]
    library().release(kept.pop())

    def told(rows, length):
        return [Allocate(0) if one == Allocate(100) else one for one in leaving(rows, length)]

    instance = Instance(footprint_of(told))
    instance.model = Leaving()
    for rows in (1, 5, 2, 9):
        instance.run(rows, 7)
        assert instance.room.is_planned
        assert instance.arena.pinned_bytes == 0
        assert not instance.is_inside(kept[0])
    library().release(kept.pop())
