"""Builds the allocator with the C++ compiler at hand: `python -m xirang.memory.native.compile`.

Also run by the package's build, before the package can be imported: nothing but the standard
library stands here.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SOURCES = tuple(Path(__file__).with_name(name) for name in ("allocator.cpp", "search.cpp"))
LIBRARY = Path(__file__).with_name("libxirang_allocator.so")

COMPILERS = ("c++", "g++", "clang++")
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer")


def compiler() -> str | None:
    """The C++ compiler: what Python was built with if it is there, else one of the usual names."""
    told = (sysconfig.get_config_var("CXX") or "").split()
    return next((path for name in [*told[:1], *COMPILERS] if (path := shutil.which(name))), None)


def compiled(target: Path = LIBRARY, *, is_sanitized: bool = False) -> str:
    """Build the library; empty if it is there now, else in words why not."""
    if sys.platform != "linux":
        return f"it is written for Linux, this is {sys.platform}"
    found = compiler()
    if found is None:
        return f"there is no C++ compiler; looked for {', '.join(COMPILERS)}"
    flags = SANITIZE if is_sanitized else ("-O2",)
    # Under another name until it is whole: a server that starts just now must not load a half.
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    command = [found, "-std=c++17", "-Wall", "-shared", "-fPIC", *flags, "-o", str(partial)]
    try:
        ended = subprocess.run(
            [*command, *map(str, SOURCES), "-pthread"], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            return f"{found} failed: {ended.stderr.strip()[-2000:]}"
        partial.replace(target)
    except OSError as error:
        return f"{found} failed: {error}"
    finally:
        partial.unlink(missing_ok=True)
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
