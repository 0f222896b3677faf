"""Builds the allocator with the C++ compiler at hand: `python -m xirang.memory.native.compile`.

Also run by the package's build, before the package can be imported: nothing but the standard
library stands here.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory


def _beside(*names: str) -> tuple[Path, ...]:
    return tuple(Path(__file__).with_name(name) for name in names)


HEADERS = _beside("exported.hpp", "ground.hpp")
SOURCES = _beside("ground.cpp", "onnxruntime.cpp", "search.cpp")
TORCH_SOURCES = _beside("ground.cpp", "torch.cpp", "search.cpp")
"""The same with a mouth for PyTorch: `backends/torch_allocator.py` builds it where it is needed."""

LIBRARY = Path(__file__).with_name("libxirang_allocator.so")

COMPILERS = ("c++", "g++", "clang++")
ALWAYS = ("-std=c++17", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer")


def compiler() -> str | None:
    """The C++ compiler: what Python was built with if it is there, else one of the usual names."""
    told = (sysconfig.get_config_var("CXX") or "").split()
    return next((path for name in [*told[:1], *COMPILERS] if (path := shutil.which(name))), None)


def compiled(
    target: Path = LIBRARY,
    sources: Sequence[Path] = SOURCES,
    *,
    options: Sequence[str] = (),
    is_sanitized: bool = False,
) -> str:
    """Build the library; empty if it is there now, else in words why not.

    Args:
        target: The library.
        sources: What it is made of.
        options: What the compiler has to be told of them.
        is_sanitized: Whether it shall look for errors of its own while it runs.
    """
    if sys.platform != "linux":
        return f"it is written for Linux, this is {sys.platform}"
    found = compiler()
    if found is None:
        return f"there is no C++ compiler; looked for {', '.join(COMPILERS)}"
    flags = SANITIZE if is_sanitized else ("-O2",)
    command = [found, *ALWAYS, *flags, *map(str, sources), *options]
    try:
        # Elsewhere until it is whole: a server that starts just now must not load a half.
        with TemporaryDirectory(prefix=".", dir=target.parent) as folder:
            partial = Path(folder) / target.name
            ended = subprocess.run(
                [*command, "-o", str(partial)], capture_output=True, text=True, check=False
            )
            if ended.returncode:
                return f"{found} failed: {ended.stderr.strip()[-2000:]}"
            partial.chmod(0o755)  # whatever the mask says, nobody else writes into what is run
            partial.replace(target)
    except OSError as error:
        return f"{found} failed: {error}"
    return ""


def main() -> int:
    """Build, and say why if it cannot be done."""
    parser = argparse.ArgumentParser(description="Build the allocator of the complete tier.")
    parser.add_argument("target", nargs="?", type=Path, default=LIBRARY)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer")
    arguments = parser.parse_args()
    if why := compiled(arguments.target, is_sanitized=arguments.sanitize):
        sys.stderr.write(f"the allocator was not built: {why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
