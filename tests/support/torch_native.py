"""Our allocator inside PyTorch for tests, and a model in a room beside itself without one."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from xirang.backends import torch_allocator
from xirang.backends.torch import torch_module
from xirang.backends.torch_study import Feed
from xirang.core.memory.polynomial import Polynomial
from xirang.memory.arena import HostArena

TOLD = os.environ.get("XIRANG_TEST_TORCH_ALLOCATOR")
"""`make asan` tells of one that is built with AddressSanitizer."""

TINY = [(rows, length) for rows in (1, 2, 3) for length in (8, 16, 24)]
ARENA_BYTES = 1 << 30


@cache
def library():
    """None where it cannot be built."""
    return torch_allocator.allocator(Path(TOLD) if TOLD else None)


def needs_allocator():
    if library() is None:
        pytest.skip("there is no allocator for PyTorch")


class Replayed:
    """A model in a room, and a twin of it that runs as PyTorch runs it."""

    def __init__(self, model, plain, inputs_of, *, sizes=TINY, lengths=(8, 64, 256)):
        self.inputs_of, self.model, self.plain = inputs_of, model, plain
        self.names = [spec.name for spec in model.outputs]
        dice = np.random.default_rng(0)
        feeds = [Feed(*size, inputs_of(dice, *size)) for size in sizes]
        each = [Polynomial((0, 0, 0, x.nbytes, 0, 0)) for x in inputs_of(dice, 1, 1).values()]
        self.footprint = model.study(feeds, each, lengths)
        if self.footprint is not None:
            self.arena = HostArena(ARENA_BYTES)
            self.room = self.footprint.room(self.arena)

    @property
    def told(self):
        """How the last run went."""
        return self.room._ground.run

    def run(self, inputs, *, size, room=None, lease_bytes=None):
        room = room or self.room
        need = self.footprint.peak_bytes(*size)
        room.open(*size, need if lease_bytes is None else lease_bytes)
        own = {name: room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return room.run(self.model, own, self.names)

    def is_same(self, inputs, outputs):
        return alike(outputs, self.plain.run(inputs, self.names))


def alike(outputs, expected):
    """The same bits, or both not a number."""
    return all(np.array_equal(outputs[name], expected[name], equal_nan=True) for name in expected)


def eager(module, *, threads=1):
    """A module as it is served, and again without a plan."""
    module.eval()
    return [torch_module(module, name="m", threads=threads, is_governed=g) for g in (True, False)]
