"""How much memory this process may use, and how short of it the system is.

It may use what the machine has, or less if its control group says so. How short that is Linux tells
as the time for which somebody stood still for want of memory: of the machine and of the group.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PART = 0.7
"""The pool's part of it: the rest is for requests on their way, for Python and for others."""

_ROOT = Path("/")


def pool_bytes(root: Path = _ROOT) -> int | None:
    """A sensible capacity of the pool; None where the system does not tell what there is.

    Args:
        root: Of the file system.
    """
    usable = min(_told(root), default=None)
    return None if usable is None else int(usable * PART)


def private_bytes(root: Path = _ROOT) -> int:
    """Memory that is this process's own, and that no file lies behind; 0 where nobody tells."""
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
    return 0


class Pressure:
    """How short of memory the system is, between one look and the next."""

    def __init__(self, root: Path = _ROOT) -> None:
        """Look for the first time.

        Args:
            root: Of the file system.
        """
        groups = [place for place, file in _groups(root) if file == "memory.max"]
        files = [root / "proc/pressure/memory", *(each / "memory.pressure" for each in groups)]
        self._stalled_us = {file: _stalled_us(file) for file in files}
        self._looked_ns = 0

    def look(self, now_ns: int) -> float:
        """Of the time since the last look, the part in which somebody waited for memory.

        0 at the first look, and where nobody tells.
        """
        passed_us = (now_ns - self._looked_ns) / 1000
        parts = [0.0]
        for file, before in self._stalled_us.items():
            now = self._stalled_us[file] = _stalled_us(file)
            if self._looked_ns and passed_us > 0:
                parts.append((now - before) / passed_us)
        self._looked_ns = now_ns
        return max(parts)


def _stalled_us(file: Path) -> int:
    with suppress(OSError, ValueError, IndexError):
        for line in file.read_text().splitlines():
            if line.startswith("some "):
                return int(line.rpartition("total=")[2])
    return 0


def _told(root: Path) -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                yield int(line.split()[1]) << 10
    for place, limit in _groups(root):
        # Above the second the group is slowed down, not ended: it had better not come to that.
        for file in (limit, "memory.high"):
            with suppress(OSError, ValueError):  # "max" is no number
                yield int((place / file).read_text())


def _groups(root: Path) -> Iterator[tuple[Path, str]]:
    """The process's control group and all above it, and the file that has its limit."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if not controllers:
                mount, file = root / "sys/fs/cgroup", "memory.max"
            elif "memory" in controllers.split(","):
                mount, file = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
            else:
                continue
            group = mount / name.lstrip("/")  # inside a container its own is the root
            above = (each for each in (group, *group.parents) if mount in each.parents)
            yield from ((place, file) for place in (mount, *above))
