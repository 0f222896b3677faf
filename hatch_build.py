"""Builds the native allocator along with the package, and goes on without it where that fails."""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "xirang/memory/native"


class NativeAllocator(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles it where the package looks for it; installs for development use that very file."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and put the result into the wheel."""
        building = runpy.run_path(str(Path(self.root) / "src" / FOLDER / "compile.py"))
        library: Path = building["LIBRARY"]
        if why := building["compiled"]():
            self.app.display_warning(f"the native allocator was not built: {why}")
            return
        # It has a plain C interface: any Python will do, but only this kind of machine.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"{FOLDER}/{library.name}"
