"""Where the tensors of a room lie: in the host's memory, or in a device's with a part beside it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from xirang.backends.torch_cuda import Accelerator
from xirang.memory.arena import DeviceArena, HostArena
from xirang.memory.staged_arena import StagedArena
from xirang.tensors.tensor import Array

WORTH_BYTES = 1 << 20
"""A smaller upper end keeps its pages: a call of the system would cost more."""


class Site(Protocol):
    """What a room needs of its arena.

    Attributes:
        slice_bytes: What has to be copied is made in slices of so much.
    """

    slice_bytes: int

    def input(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> Array:
        """Memory in which an input is joined."""
        ...

    def sent(self, array: Array) -> Any:
        """An input as a tensor where the model is; None if it lies in no memory of `input`."""
        ...

    def make_way(self, lease_bytes: int, keep_bytes: int) -> None:
        """Have pages up to `keep_bytes`; the rest of the lease is for what lies outside.

        Raises:
            NoMemory: The device has no more.
        """
        ...

    def whole(self, dtype: Any) -> Any:
        """The arena as one tensor of a type."""
        ...

    def lowest_bytes(self) -> int:
        """Below this no page has gone since this was last asked."""
        ...


class _Typed:
    """An arena as a tensor of each type."""

    def __init__(self, see: Callable[[], Any]) -> None:
        self._see = see
        self._types: dict[Any, Any] = {}

    def of(self, dtype: Any) -> Any:
        found = self._types.get(dtype)
        if found is None:
            found = self._types[dtype] = self._see().view(dtype)
        return found


class HostSite:
    """See `Site`; inputs lie in the arena as they come."""

    slice_bytes = 256 << 10
    """They stay in the cache, and the system is not asked for memory each time."""

    def __init__(self, arena: HostArena) -> None:
        self._arena = arena
        self.whole = _Typed(self._seen).of

    def input(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> Array:
        """See `Site.input`."""
        return self._arena.view(offset_bytes, dtype, shape)

    def sent(self, array: Array) -> Any:
        """See `Site.sent`."""
        return None

    def make_way(self, lease_bytes: int, keep_bytes: int) -> None:
        """See `Site.make_way`."""
        if lease_bytes - keep_bytes >= WORTH_BYTES:
            self._arena.resize(lease_bytes, keep_bytes)

    def lowest_bytes(self) -> int:
        """See `Site.lowest_bytes`."""
        return self._arena.reserved_bytes

    def _seen(self) -> Any:
        import torch

        return torch.from_numpy(self._arena.view(0, np.uint8, (self._arena.reserved_bytes,)))


class DeviceSite:
    """See `Site`; inputs are joined beside the arena and sent to the same offset in it."""

    slice_bytes = 16 << 20
    """A device takes longer for so much than to be told of the next slice."""

    def __init__(self, arena: StagedArena, accelerator: Accelerator) -> None:
        self._arena = arena
        self._accelerator = accelerator
        self.whole = _Typed(self._seen).of
        self.lowest_bytes = arena.lowest_bytes
        self.input = arena.view

    def sent(self, array: Array) -> Any:
        """See `Site.sent`."""
        import torch

        offset = self._arena.offset_of(array)
        if offset is None or not array.flags.c_contiguous:
            return None
        self._arena.reach(offset + array.nbytes)
        host = torch.from_numpy(array)
        there = self.whole(host.dtype).as_strided(
            host.shape, host.stride(), offset // array.itemsize
        )
        return there.copy_(host, non_blocking=True)

    def make_way(self, lease_bytes: int, keep_bytes: int) -> None:
        """See `Site.make_way`."""
        self._arena.reach(keep_bytes)

    def _seen(self) -> Any:
        self._arena.reach(1)  # an address without memory is none that PyTorch would take
        return self._accelerator.seen(self._arena)


def site_of(arena: DeviceArena, accelerator: Accelerator | None) -> Site:
    """The site in an arena of a device, or of the host."""
    if accelerator is None:
        assert isinstance(arena, HostArena)
        return HostSite(arena)
    assert isinstance(arena, StagedArena)
    return DeviceSite(arena, accelerator)
