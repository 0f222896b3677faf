"""Which allocator ONNX Runtime gets: ours if it works here, else one arena for all models.

The complete tier puts every tensor of a run where it was planned, and knows its peak beforehand.
The portable tier shares the runtime's own arena between all models and shrinks it when told to;
what a run takes it cannot say.
"""

import base64
import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np

from xirang.memory.arena import HostArena
from xirang.memory.native.compile import LIBRARY
from xirang.memory.native.library import Library
from xirang.memory.room import Ground
from xirang.memory.trial import fault_in

log = logging.getLogger(__name__)

LOST = (
    "the peaks of ONNX models are not known beforehand, their tensors are not planned, and their "
    "runs take no leases from the pool"
)

_MODEL = base64.b64decode(
    "CAc6VwoOCgF4CgF4EgFhIgNBZGQKDgoBYQoBeBIBYiIDTXVsCg4KAWIKAWESAXkiA0FkZBIBdFoQCgF4EgsKCQgBEgUK"
    "AxIBbmIQCgF5EgsKCQgBEgUKAxIBbkIECgAQDQ=="
)
"""(x + x) · x + (x + x), for any number of floats."""

_ARENA = {
    "max_mem": 0,
    # As much as is asked for: what grows by doubling is never given back to the last byte.
    "arena_extend_strategy": 1,
    "initial_chunk_size_bytes": -1,
    "max_dead_bytes_per_chunk": -1,
    "initial_growth_chunk_size_bytes": -1,
}

_lock = threading.Lock()
_found: list[Library | None] = []
_shared: list[bool] = []


def allocator(path: Path = LIBRARY) -> Library | None:
    """Our allocator inside ONNX Runtime, put there once; None, after one warning, if it cannot be.

    Args:
        path: The shared library.
    """
    with _lock:
        if not _found:
            _found.append(_attached(path))
        return _found[0]


def govern(options: Any, library: Library | None) -> None:
    """Let a session take its memory from our allocator, or else from the arena of all sessions."""
    if library is None:
        if not _share():
            return
    else:
        # Reuse keeps buffers for longer than they are needed, and patterns are plans of their own.
        options.enable_mem_reuse = options.enable_mem_pattern = False
    options.add_session_config_entry("session.use_env_allocators", "1")


def _attached(path: Path) -> Library | None:
    try:
        library = Library(path)
        why = _fault(library)
    except Exception as error:  # whatever it is, the server goes on without
        why, library = str(error), None
    if why:
        log.warning("the native allocator is not used (%s): %s", why, LOST)
        return None
    return library


def _fault(library: Library) -> str:
    """What is wrong; empty if a small model runs as it should."""
    import onnxruntime as ort

    ort.SessionOptions().register_custom_ops_library(str(library.path))
    if fault := library.fault():
        return str(fault.decode(errors="replace"))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    govern(options, library)
    session = ort.InferenceSession(_MODEL, options, providers=["CPUExecutionProvider"])
    x = np.arange(1000, dtype=np.float32)

    def is_right() -> bool:
        (y,) = session.run(None, {"x": x})
        return bool((y == 2 * x * x + 2 * x).all())

    arena = HostArena(1 << 20)
    try:  # its errors share no public base class
        ground = Ground(library, arena)
        return fault_in(ground, is_right, refusal=Exception, runtime="ONNX Runtime")
    finally:
        arena.close()


def _share() -> bool:
    """One arena of the runtime's own kind for all sessions of the process."""
    import onnxruntime as ort

    with _lock:
        if not _shared:
            kind = ort.OrtMemoryInfo(
                "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
            )
            try:
                ort.create_and_register_allocator(kind, ort.OrtArenaCfg(_ARENA))
                _shared.append(True)
            except Exception as error:  # a program around us may have its own
                log.info("each ONNX model has an arena of its own: %s", error)
                _shared.append(False)
        return _shared[0]
