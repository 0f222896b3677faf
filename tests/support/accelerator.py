"""A puppet of a device: PyTorch computes on the CPU, in memory that a puppet of the driver maps.

Capturing changes nothing but what is remembered, a replay is made of whatever lies there then, and
what was fetched is there only after it was waited for. One run goes on at a time.
"""

import ctypes
from contextlib import contextmanager

import numpy as np
import torch

from xirang.memory.cuda_arena import SLAB_BYTES, CudaArena
from xirang.memory.cuda_driver import CudaDriver, capturing
from xirang.memory.pinned_arena import PinnedArena
from xirang.memory.staged_arena import StagedArena


class Accelerator:
    """See `xirang.backends.torch_cuda.Accelerator`.

    Attributes:
        driver: The puppet of the driver.
        log: What was asked for.
        fails: What a capture raises; None if it succeeds.
        is_lazy: Whether a replay does nothing.
    """

    device, target = "cuda:0", "cpu"

    def __init__(self, driver):
        self.driver = driver
        self.way = CudaDriver(module=driver)
        self.log = []
        self.fails, self.is_lazy = None, False
        self._is_inside = False
        self._fetched = []

    def arena(self, reserved_bytes):
        there = CudaArena(reserved_bytes, driver=self.way)
        host = PinnedArena(reserved_bytes, driver=self.way)
        return StagedArena(there, host, on_cut=lambda: self.log.append("cut"))

    def seen(self, arena):
        assert arena.base_address in self.driver.mapped
        memory = (ctypes.c_uint8 * arena.reserved_bytes).from_address(arena.base_address)
        return torch.from_numpy(np.ctypeslib.as_array(memory))

    @contextmanager
    def inside(self):
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    def wait(self):
        self.log.append("wait")
        for host, tensor in self._fetched:
            host.copy_(tensor)
        self._fetched = []

    def sent(self, tensor):
        self.log.append("sent")
        return tensor.clone()

    def to_host(self, tensor):
        host = torch.empty_like(tensor).fill_(77)
        self._fetched.append((host, tensor))
        return host

    def capturer(self):
        def capture(act):
            assert self._is_inside
            self.log.append("capture")
            if self.fails is not None:
                raise self.fails
            with capturing:
                before = {at: ctypes.string_at(at, SLAB_BYTES) for at in self.driver.mapped}
                outputs = act()
                for at, content in before.items():
                    ctypes.memmove(at, content, SLAB_BYTES)
            places = [output.data_ptr() for output in outputs]

            def replay():
                assert self._is_inside
                self.log.append("replay")
                if self.is_lazy:
                    return
                assert [output.data_ptr() for output in act()] == places

            return replay, outputs

        return capture
