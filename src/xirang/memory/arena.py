"""An arena's real pages: a range of addresses that is reserved once, with memory behind its bottom.

Addresses cost nothing; pages do. The range never moves, so that plans and views stay true while
the pages behind it come and go. The pool of `core/memory` decides how far they reach.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from xirang.errors import XirangError
from xirang.tensors.tensor import Array

RESERVED_BYTES = 16 << 30
"""Addresses of one arena unless told otherwise: more than a run on this kind of machine takes."""

_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, of Linux 5.14; Python has no name for it yet."""

_REMOVE = 9
"""MADV_REMOVE, which Python does not name everywhere either."""

_PAGE_BYTES = mmap.PAGESIZE


class NoMemory(XirangError, MemoryError):
    """The system has no memory for an arena; a smaller run may do with what there is.

    Attributes:
        needed_bytes: What would have been enough; 0 where that is not known.
    """

    status = 503

    def __init__(self, text: str, *, needed_bytes: int = 0) -> None:
        super().__init__(text)
        self.needed_bytes = needed_bytes


class DeviceArena(Protocol):
    """A range of addresses of some device, as the pool's decisions are carried out on it.

    Attributes:
        base_address: Of its first byte; it never changes.
        reserved_bytes: How far it can ever reach.
    """

    base_address: int
    reserved_bytes: int

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """Let the pages reach up to `after_bytes`; before it was `before_bytes`.

        Raises:
            NoMemory: The system refuses; the pages are as before.
        """
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


class Guard(Protocol):
    """Somebody who hands out addresses of an arena."""

    def leave(self) -> bool:
        """Forget the arena; false if something still lives or runs there: it has to stay."""
        ...


_haunted: list[Array] = []
"""Addresses in which something outlived everybody who knew them."""


class HostArena:
    """A range of the process's own addresses; see `DeviceArena`.

    Attributes:
        base_address: Of its first byte, at the start of a page.
        reserved_bytes: How far it can ever reach; nowhere once it is closed.
        pinned_bytes: Pages below this are never given back: something outlived its run there.
        descriptor: Of the file behind it, if other processes may map its pages too; else -1.
        cuts: How often pages were given back.
    """

    __slots__ = (
        "_bytes",
        "_guards",
        "base_address",
        "cuts",
        "descriptor",
        "pinned_bytes",
        "reserved_bytes",
    )

    def __init__(self, reserved_bytes: int = RESERVED_BYTES, descriptor: int = -1) -> None:
        """Reserve addresses, without pages.

        Args:
            reserved_bytes: How many; rounded up to whole pages.
            descriptor: Of a file of that size, if its pages are to be shared; the arena closes it.

        Raises:
            NoMemory: The system does not even reserve.
        """
        self.reserved_bytes = max(1, -(-reserved_bytes // _PAGE_BYTES)) * _PAGE_BYTES
        self.descriptor = descriptor
        flags = mmap.MAP_SHARED
        if descriptor < 0:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        flags |= getattr(mmap, "MAP_NORESERVE", 0)
        try:
            pages = mmap.mmap(descriptor, self.reserved_bytes, flags=flags)
        except (OSError, OverflowError, ValueError) as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise NoMemory(f"cannot reserve {self.reserved_bytes} bytes: {error}") from None
        # Views keep the array alive, the array its pages: nobody is left with a wild pointer.
        self._bytes = np.frombuffer(pages, np.uint8)
        self.base_address = int(self._bytes.ctypes.data)
        self.pinned_bytes = self.cuts = 0
        self._guards: dict[object, Guard] = {}
        if hasattr(mmap, "MADV_HUGEPAGE"):
            _advise(self.base_address, self.reserved_bytes, mmap.MADV_HUGEPAGE)

    @classmethod
    def shared(cls, reserved_bytes: int = RESERVED_BYTES) -> "HostArena":
        """One whose pages other processes may map too, by its descriptor.

        Raises:
            NoMemory: The system does not even reserve.
        """
        reserved_bytes = max(1, -(-reserved_bytes // _PAGE_BYTES)) * _PAGE_BYTES
        descriptor = -1
        try:
            descriptor = anonymous_file()
            os.ftruncate(descriptor, reserved_bytes)
        except (OSError, OverflowError) as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise NoMemory(f"cannot share {reserved_bytes} bytes: {error}") from None
        with contextlib.suppress(OSError, AttributeError):
            # To touch what was cut off the file's end would end this process.
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        return cls(reserved_bytes, descriptor)

    def resize(self, before_bytes: int, after_bytes: int) -> None:
        """See `DeviceArena.resize`; what was in pages that go and come back is lost."""
        if not 0 <= after_bytes <= self.reserved_bytes:
            raise NoMemory(f"an arena of {self.reserved_bytes} bytes cannot reach {after_bytes}")
        if after_bytes > before_bytes:
            self._grow(before_bytes, after_bytes)
            return
        begin = -(-max(after_bytes, self.pinned_bytes) // _PAGE_BYTES) * _PAGE_BYTES
        if begin < before_bytes:
            self._drop(begin, before_bytes)

    def populate(self, reach_bytes: int) -> None:
        """Map pages that are there up to here, in another process that has just been lent them."""
        _advise(self.base_address, reach_bytes, _POPULATE_WRITE)

    def view(self, offset_bytes: int, dtype: Any, shape: Sequence[int]) -> Array:
        """Some of its bytes as an array."""
        return np.ndarray(tuple(shape), dtype, self._bytes, offset_bytes)

    def guarded_by(self, owner: object, make: Callable[[], Guard]) -> Guard:
        """What watches over these addresses for somebody who hands them out; made once."""
        found = self._guards.get(owner)
        if found is None:
            found = self._guards[owner] = make()
        return found

    def close(self) -> None:
        """Give the pages back; the addresses go with the last view, if nothing lives there."""
        if not len(self._bytes):
            return
        if all(guard.leave() for guard in self._guards.values()):
            self._drop(0, self.reserved_bytes)
        else:
            _haunted.append(self._bytes)
        self._bytes = self._bytes[:0].copy()
        self.reserved_bytes = 0
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        """Nobody has to remember to close it."""
        if hasattr(self, "_guards"):
            self.close()

    def _grow(self, before_bytes: int, after_bytes: int) -> None:
        """Touch the pages now: a run that touched them first would be charged for it."""
        begin = -(-before_bytes // _PAGE_BYTES) * _PAGE_BYTES
        if begin >= after_bytes:
            return
        number = _advise(self.base_address + begin, after_bytes - begin, _POPULATE_WRITE)
        if number in {errno.EINVAL, errno.ENOSYS}:  # an older kernel
            self._bytes[begin:after_bytes:_PAGE_BYTES] = 0
        elif number:
            self._drop(begin, after_bytes)
            raise NoMemory(
                f"the system has no {after_bytes - before_bytes} bytes more for an arena of "
                f"{before_bytes}: {os.strerror(number)}"
            )

    def _drop(self, begin_bytes: int, end_bytes: int) -> None:
        """Shared pages are taken out of their file, so that they go from all who map them."""
        advice = mmap.MADV_DONTNEED if self.descriptor < 0 else _REMOVE
        _advise(self.base_address + begin_bytes, end_bytes - begin_bytes, advice)
        self.cuts += 1


def anonymous_file() -> int:
    """The descriptor of a new file that has no name and lies in memory, if the system can do that.

    Raises:
        OSError: There are too many open files.
    """
    create: Any = getattr(os, "memfd_create", None)
    if create is not None:
        return int(create("xirang", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    with tempfile.TemporaryFile() as file:  # has no name any more; the descriptor keeps it
        return os.dup(file.fileno())


_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def _advise(address: int, size_bytes: int, advice: int) -> int:
    """The error's number, 0 if all went well. Unlike the method of `mmap` it leaves others run."""
    ctypes.set_errno(0)
    return 0 if _libc.madvise(address, size_bytes, advice) == 0 else ctypes.get_errno()
