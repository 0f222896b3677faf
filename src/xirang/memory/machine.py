"""How much memory this process may use: the machine's, or less if its control group says so."""

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


def _told(root: Path) -> Iterator[int]:
    with suppress(OSError, ValueError, IndexError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                yield int(line.split()[1]) << 10
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if not controllers:
                yield from _limits(root / "sys/fs/cgroup", name, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _limits(root / "sys/fs/cgroup/memory", name, "memory.limit_in_bytes")


def _limits(mount: Path, name: str, file: str) -> Iterator[int]:
    """Of the group and all above it; inside a container its own is the root."""
    group = mount / name.lstrip("/")
    for place in (mount, *(each for each in (group, *group.parents) if mount in each.parents)):
        with suppress(OSError, ValueError):  # "max" is no number
            yield int((place / file).read_text())
