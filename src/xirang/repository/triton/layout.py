"""Triton's folders: repositories of models, models of versions; nothing leads outside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.reading import read_text
from xirang.repository.triton.schema import ModelConfig

CONFIG = "config.pbtxt"
CONFIG_BYTES_MAX = 1 << 20
_VERSION = re.compile(r"[1-9]\d{0,18}")

Stamp = tuple[tuple[str, int, int], ...]
"""Names, sizes and dates of files: equal stamps are taken for equal files."""


@dataclass(frozen=True, slots=True)
class Place:
    """A model's folder.

    Attributes:
        name: Of the model.
        folder: Its own.
        root: Outside of which nothing is read.
    """

    name: str
    folder: Path
    root: Path = field(compare=False)

    def inside(self, path: Path) -> Path:
        """The path, if it does not lead outside.

        Raises:
            InvalidSetting: It does, as a link or by its name.
        """
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise InvalidSetting(f"{path} leads out of the model repository {self.root}")
        return path

    def versions(self) -> list[int]:
        """All version numbers that have a folder, ascending."""
        return sorted(
            int(child.name)
            for child in self.folder.iterdir()
            if _VERSION.fullmatch(child.name) and child.is_dir()
        )

    def config(self) -> ModelConfig:
        """What its config.pbtxt says; nothing, if it has none.

        Raises:
            InvalidSetting: It cannot be read or says what cannot be, and in which line.
        """
        file = self.folder / CONFIG
        if not file.exists() and not file.is_symlink():
            return checked(ModelConfig(), self.name)
        try:
            with self.inside(file).open("rb") as opened:
                text = opened.read(CONFIG_BYTES_MAX + 1)
            return checked(read_text(_bounded(text).decode()), self.name)
        except OSError as error:
            raise InvalidSetting(f"cannot read {file}: {error.strerror}") from error
        except (InvalidSetting, UnicodeDecodeError) as error:
            raise InvalidSetting(f"{self.name}/{CONFIG}: {error}") from error

    def has_config(self) -> bool:
        """Whether there is a config.pbtxt."""
        return (self.folder / CONFIG).is_file()

    def stamps(self) -> Mapping[str, Stamp]:
        """One stamp for each version, and one under an empty name for everything else."""
        found: dict[str, list[tuple[str, int, int]]] = {"": []}
        for file in _files(self.folder):
            about = file.stat()
            path = file.relative_to(self.folder)
            key = path.parts[0] if _VERSION.fullmatch(path.parts[0]) else ""
            stamp = (str(path), about.st_size, about.st_mtime_ns)
            found.setdefault(key, []).append(stamp)
        return {key: tuple(sorted(stamps)) for key, stamps in found.items()}


def chosen(config: ModelConfig, versions: list[int]) -> list[int]:
    """The versions that a policy wants served, ascending.

    Raises:
        InvalidSetting: There is none of them.
    """
    policy = config.version_policy
    assert policy is not UNSET
    if policy.specific is not UNSET:
        found = [version for version in versions if version in policy.specific.versions]
    elif policy.all is not UNSET:
        found = versions
    else:
        latest = policy.latest.num_versions if policy.latest is not UNSET else 1
        found = versions[-latest:] if latest else []
    if not found:
        raise InvalidSetting(
            "at least one version must be available under the version policy of model "
            f"'{config.name}'"
        )
    return found


def places(roots: Sequence[Path]) -> dict[str, Place | None]:
    """All models of several repositories by name; None for a name that is there twice.

    Raises:
        InvalidSetting: A repository is no folder.
    """
    found: dict[str, Place | None] = {}
    for folder in roots:
        if not folder.is_dir():
            raise InvalidSetting(f"model repository {folder} is no folder")
        for child in sorted(folder.iterdir()):
            if not child.name.startswith(".") and child.is_dir():
                place = Place(child.name, child, folder)
                found[child.name] = None if child.name in found else place
    return found


def _bounded(text: bytes) -> bytes:
    if len(text) > CONFIG_BYTES_MAX:
        raise InvalidSetting(f"expected at most {CONFIG_BYTES_MAX} bytes")
    return text


def _files(folder: Path) -> Iterator[Path]:
    """All files below; what is hidden, as what xirang learns about a model, does not count."""
    for child in folder.iterdir():
        if child.name.startswith("."):
            continue
        if child.is_dir() and not child.is_symlink():
            yield from _files(child)
        elif child.is_file():
            yield child
