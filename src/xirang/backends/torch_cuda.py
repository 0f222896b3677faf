"""What runs on a CUDA device asks of PyTorch: streams, copies, views of arenas, captured graphs."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from xirang.memory.cuda_arena import DeviceView
from xirang.memory.cuda_driver import capturing
from xirang.memory.staged_arena import StagedArena, staged_arena

log = logging.getLogger(__name__)

Act = Callable[[], tuple[Any, ...]]
"""Something that gives tensors."""

Captured = tuple[Callable[[], object], tuple[Any, ...]]
"""What makes it again, and the tensors in which its results will lie then."""


class Accelerator(Protocol):
    """A device beside the CPU, as PyTorch drives it.

    Attributes:
        device: Its name as settings have it.
        target: As tensors have it.
    """

    device: str
    target: str

    def arena(self, reserved_bytes: int) -> StagedArena:
        """Addresses there, with a part of the host's memory beside them.

        Raises:
            InvalidSetting: There is no way to manage its memory.
            NoMemory: There are not even addresses.
        """
        ...

    def seen(self, arena: StagedArena) -> Any:
        """All of an arena's bytes as a tensor; its first page is there."""
        ...

    def inside(self) -> Any:
        """A context in which work goes to a stream of this thread's own."""
        ...

    def wait(self) -> None:
        """Wait for all that this thread has sent to its stream."""
        ...

    def sent(self, tensor: Any) -> Any:
        """Begin to copy a tensor of the host's to memory of PyTorch's there."""
        ...

    def to_host(self, tensor: Any) -> Any:
        """Begin to copy a tensor to the host's memory; it is there after `wait`."""
        ...

    def capturer(self) -> Callable[[Act], Captured]:
        """What captures, without running it, all that something sends to this thread's stream.

        Memory that is taken meanwhile, all captured graphs take from the same place.
        """
        ...


class Cuda:
    """See `Accelerator`."""

    def __init__(self, device: str) -> None:
        """Of the device `cuda:N`."""
        self.device = self.target = device
        self._number = int(device.partition(":")[2])
        self._local = threading.local()

    def arena(self, reserved_bytes: int) -> StagedArena:
        """See `Accelerator.arena`."""
        return staged_arena(reserved_bytes, device=self._number, on_cut=_give_back)

    def seen(self, arena: StagedArena) -> Any:
        """See `Accelerator.seen`."""
        import torch

        view = DeviceView(arena.base_address, np.uint8, (arena.reserved_bytes,))
        return torch.as_tensor(view, device=self.target)

    def inside(self) -> Any:
        """See `Accelerator.inside`."""
        import torch

        stream = getattr(self._local, "stream", None)
        if stream is None:
            torch.cuda.synchronize(self.target)  # the weights came on another stream
            stream = self._local.stream = torch.cuda.Stream(self.target)
        return torch.cuda.stream(stream)

    def wait(self) -> None:
        """See `Accelerator.wait`."""
        self._local.stream.synchronize()

    def sent(self, tensor: Any) -> Any:
        """See `Accelerator.sent`."""
        return tensor.pin_memory().to(self.target, non_blocking=True)

    def to_host(self, tensor: Any) -> Any:
        """See `Accelerator.to_host`."""
        import torch

        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor, non_blocking=True)

    def capturer(self) -> Callable[[Act], Captured]:
        """See `Accelerator.capturer`."""
        import torch

        pool = torch.cuda.graph_pool_handle()

        def capture(act: Act) -> Captured:
            graph = torch.cuda.CUDAGraph()
            with capturing:
                # Other threads go on; only what this one does is held to the rules of a capture.
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    outputs = act()
                except BaseException:
                    with suppress(RuntimeError):  # it only says that something was wrong before
                        graph.capture_end()
                    raise
                graph.capture_end()
            return graph.replay, outputs

        return capture


def _give_back() -> None:
    """What PyTorch keeps for later: the pool has just found that it is not needed."""
    import torch

    try:
        with capturing:
            torch.cuda.empty_cache()
    except RuntimeError as error:  # a device that has failed says so to whoever calls next
        log.warning("memory that PyTorch keeps was not given back: %s", error)
