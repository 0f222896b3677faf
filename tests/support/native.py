"""The native allocator for tests, and a model that allocates by a script instead of a runtime."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from xirang.backends import onnx_allocator
from xirang.core.memory.lifetime import Allocate
from xirang.memory.native.compile import HEADERS, LIBRARY, SOURCES, compiled
from xirang.memory.native.library import Library

TOLD = Path(os.environ.get("XIRANG_TEST_ALLOCATOR", LIBRARY))
"""`make asan` tells of one that is built with AddressSanitizer."""


@cache
def built():
    """Empty if the library is there and as new as its source, else why not."""
    if TOLD != LIBRARY:
        return "" if onnx_allocator.allocator(TOLD) else f"{TOLD} does not load"
    newest = max(source.stat().st_mtime for source in (*HEADERS, *SOURCES))
    if LIBRARY.exists() and LIBRARY.stat().st_mtime >= newest:
        return ""
    return compiled()


@cache
def library():
    return Library(TOLD)


needs_native = pytest.mark.skipif(bool(built()), reason=f"no native allocator: {built()}")


class Scripted:
    """Asks the allocator for what a script says; its output begins at its last request.

    Attributes:
        script: From (rows, length) to traffic.
        addresses: Those of the last run.
    """

    def __init__(self, script):
        self.script = script
        self.addresses = []

    def run(self, inputs, wanted):
        rows, length = inputs["x"].shape
        native = library()
        addresses = self.addresses = []
        living = {}
        try:
            for step in self.script(rows, length):
                if isinstance(step, Allocate):
                    address = native.allocate(step.size_bytes)
                    if address is None and step.size_bytes:
                        raise MemoryError("refused")
                    living[len(addresses)] = address
                    addresses.append((address, step.size_bytes))
                else:
                    native.release(living.pop(step.block))
            return dict.fromkeys(wanted, inputs["x"] * 2)
        finally:
            for address in living.values():
                native.release(address)


def rows_of(rows, length):
    return {"x": np.ones((rows, length), np.float32)}
