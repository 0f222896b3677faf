"""The native allocator as Python calls it: one C structure a run, one call before and one after."""

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int64, c_void_p
from pathlib import Path

from xirang.memory.native.compile import LIBRARY


class Run(ctypes.Structure):
    """One run: how it shall go, and how it went; the fields are explained in ground.cpp."""

    _fields_ = [  # type: ignore[mutable-override]
        ("arena", c_int64),
        ("floor_bytes", c_int64),
        ("lease_bytes", c_int64),
        ("count", c_int64),
        ("sizes", c_void_p),
        ("offsets", c_void_p),
        ("events", c_void_p),
        ("events_max", c_int64),
        ("refuse_at", c_int64),
        ("height_bytes", c_int64),
        ("requests", c_int64),
        ("hits", c_int64),
        ("events_count", c_int64),
        ("alive_bytes", c_int64),
        ("alive_peak_bytes", c_int64),
        ("reach_bytes", c_int64),
        ("leftover_bytes", c_int64),
        ("spilled_bytes", c_int64),
    ]


class Slots(ctypes.Structure):
    """A plan's structure; `Structure` in ground.cpp."""

    _fields_ = [  # type: ignore[mutable-override]
        ("count", c_int64),
        ("terms", c_void_p),
        ("denominators", c_void_p),
        ("order", c_void_p),
        ("below_begins", c_void_p),
        ("below", c_void_p),
        ("product_max", c_int64),
    ]


class Library:
    """The functions of the shared library.

    Attributes:
        path: The file, for ONNX Runtime to load it too.
    """

    def __init__(self, path: Path = LIBRARY) -> None:
        """Load it.

        Raises:
            OSError: It is not there, or not of this machine.
        """
        self.path = path
        # Calls of a microsecond: to let the interpreter go and queue for it again would cost more.
        functions = ctypes.PyDLL(str(path))
        self.fault = functions.xirang_fault
        self.fault.restype = c_char_p
        self.add_arena = functions.xirang_add_arena
        self.add_arena.argtypes, self.add_arena.restype = (c_void_p, c_int64), c_int64
        self.remove_arena = functions.xirang_remove_arena
        self.remove_arena.argtypes, self.remove_arena.restype = (c_int64,), c_bool
        self.place = functions.xirang_place
        self.place.argtypes = (POINTER(Slots), c_int64, c_int64, c_void_p, c_void_p)
        self.place.restype = c_int64
        self.begin = functions.xirang_begin
        self.begin.argtypes = (POINTER(Run), POINTER(Slots), c_int64, c_int64)
        self.begin.restype = c_bool
        self.end = functions.xirang_end
        self.end.argtypes, self.end.restype = (), None
        self.allocate = functions.xirang_allocate
        self.allocate.argtypes, self.allocate.restype = (ctypes.c_size_t,), c_void_p
        self.release = functions.xirang_release
        self.release.argtypes, self.release.restype = (c_void_p,), None
        # Searches for plans take seconds: the interpreter goes on meanwhile.
        self.search = ctypes.CDLL(str(path)).xirang_search
        self.search.argtypes = (
            *(c_int64, c_void_p, c_void_p, c_void_p, c_void_p),
            *(c_int64, c_int64, c_bool, c_void_p, c_void_p),
        )
