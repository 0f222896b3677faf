"""PyTorch's allocator on the CPU, with ours in its place where that can be built and works.

Its table of functions is that of one version of PyTorch, so it is built on the machine against the
PyTorch that is installed, when a model first needs it. That takes seconds, and what comes of it is
kept in the user's cache folder.
"""

import argparse
import hashlib
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xirang.config import cache_folder
from xirang.memory.arena import HostArena
from xirang.memory.native.compile import HEADERS, TORCH_SOURCES, compiled
from xirang.memory.native.library import Library
from xirang.memory.room import Ground
from xirang.memory.trial import fault_in

log = logging.getLogger(__name__)

LOST = (
    "eager modules, TorchScript and whatever else PyTorch has no whole graph of run outside of the "
    "pool, and what they take is not known beforehand"
)

_lock = threading.Lock()
_found: list[Library | None] = []


def allocator(path: Path | None = None) -> Library | None:
    """Our allocator inside PyTorch, put there once; None, after one warning, if it cannot be.

    Args:
        path: The shared library; that of the cache, built if it is not there, if none is told.
    """
    with _lock:
        if not _found:
            _found.append(_attached(path))
        return _found[0]


def _attached(path: Path | None) -> Library | None:
    try:
        library = Library(path or _built(cache_folder()))
        why = _fault(library)
    except Exception as error:  # whatever it is, the server goes on without
        why, library = str(error), None
    if why:
        log.warning("the allocator for PyTorch is not used (%s): %s", why, LOST)
        return None
    return library


def options() -> list[str]:
    """What the compiler has to be told of the PyTorch that is installed."""
    import torch
    from torch.utils.cpp_extension import include_paths, library_paths

    return [
        "-std=c++20",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{path}" for path in include_paths()),
        *(f"-L{path}" for path in library_paths()),
        "-lc10",
    ]


def _built(folder: Path) -> Path:
    """The library of this PyTorch and these sources.

    Raises:
        OSError: It cannot be built, or lies where others may write.
    """
    import torch

    told = options()
    parts = [" ".join(told).encode(), *(each.read_bytes() for each in (*HEADERS, *TORCH_SOURCES))]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    path = folder / f"torch-{torch.__version__}-{digest}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owned(folder)
    if not path.exists():
        log.info("building the allocator for PyTorch %s, which is done once", torch.__version__)
        if why := compiled(path, TORCH_SOURCES, options=told):
            raise OSError(why)
    _check_owned(path)
    return path


def _check_owned(path: Path) -> None:
    """What others may write is nothing to load code from."""
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others than this user may write to {path}")


def _fault(library: Library) -> str:
    """What is wrong; empty if a small function runs as it should."""
    import torch

    if fault := library.fault():
        return str(fault.decode(errors="replace"))
    x = torch.arange(1000.0) / 1000
    # oneDNN computes the last step, and asks without tensors where it has to.
    ways = (lambda: (x + x) * x + (x + x), lambda: torch.nn.functional.gelu(x.reshape(10, 100)))
    arena = HostArena(1 << 20)
    try:
        ground = Ground(library, arena)
        with torch.inference_mode():
            return "".join(_fault_of(way, ground) for way in ways)
    finally:
        arena.close()


def _fault_of(way: Callable[[], Any], ground: Ground) -> str:
    import torch

    expected = way()
    return fault_in(
        ground,
        lambda: torch.equal(way(), expected),
        refusal=torch.OutOfMemoryError,
        runtime="PyTorch",
    )


def main() -> int:
    """Build it somewhere else, and say why if it cannot be done."""
    parser = argparse.ArgumentParser(description="Build the allocator for PyTorch.")
    parser.add_argument("target", type=Path)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer")
    told = parser.parse_args()
    if why := compiled(told.target, TORCH_SOURCES, options=options(), is_sanitized=told.sanitize):
        sys.stderr.write(f"the allocator was not built: {why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
