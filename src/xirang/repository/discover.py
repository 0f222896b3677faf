"""Which models a path or a Python name stands for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from xirang.errors import InvalidSetting

_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Kind(Enum):
    """What a source is."""

    ONNX = "onnx"
    TEXT = "text"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Source:
    """One model that can be loaded.

    Attributes:
        name: Under which it will be served.
        kind: How to load it.
        path: The ONNX file (for text models beside their tokenizer.json); None for Python.
        target: `module:name`, for Python.
        version: As clients name it.
    """

    name: str
    kind: Kind
    path: Path | None = None
    target: str = ""
    version: str = "1"


def discover(paths: Sequence[str]) -> list[Source]:
    """All models that these paths and names stand for.

    Args:
        paths: ONNX files, folders with a model.onnx (and a tokenizer.json for text models),
            folders of such, or Python objects as `module:name`. `NAME=PATH` gives a name.

    Raises:
        InvalidSetting: A path holds no model, or two models have one name.
    """
    sources: list[Source] = []
    for path in paths:
        # A path that exists is a path, whatever signs are in its name.
        name, separator, rest = (path, "", "") if Path(path).exists() else path.partition("=")
        found = _discover_one(rest) if separator else _discover_one(path)
        if separator:
            if len(found) != 1:
                raise InvalidSetting(f"{path} names {len(found)} models; expected one for a name")
            found = [_renamed(found[0], name)]
        sources += found
    names = [source.name for source in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidSetting(f"several models are called {twice}; give names with NAME=PATH")
    return sources


def _discover_one(path: str) -> list[Source]:
    if _PYTHON_NAME.fullmatch(path) and not Path(path).exists():
        return [Source(path.partition(":")[2].replace(".", "_"), Kind.PYTHON, target=path)]
    place = Path(path)
    if not path or not place.exists():
        raise InvalidSetting(
            f"'{path}' does not exist; expected an ONNX file, a folder or module:name"
        )
    found = _in_place(place)
    if found is not None:
        return [found]
    if place.is_dir():
        inside = [_in_place(child) for child in sorted(place.iterdir())]
        sources = [source for source in inside if source is not None]
        if sources:
            return sources
    raise InvalidSetting(
        f"{path} holds no model; expected an .onnx file, a folder with model.onnx "
        "(and tokenizer.json for a text model), or a folder of such"
    )


def _in_place(place: Path) -> Source | None:
    if place.is_file():
        return Source(place.stem, Kind.ONNX, path=place) if place.suffix == ".onnx" else None
    if not place.is_dir():
        return None
    resolved = place.resolve()
    versions = sorted(
        (int(child.name) for child in place.iterdir() if re.fullmatch(r"[1-9]\d*", child.name)),
        reverse=True,
    )
    homes = [("1", place)] + [(str(v), place / str(v)) for v in versions]
    for version, home in homes:
        model = home / "model.onnx"
        if model.is_file():
            kind = Kind.TEXT if (home / "tokenizer.json").is_file() else Kind.ONNX
            return Source(resolved.name, kind, path=model, version=version)
    return None


def _renamed(source: Source, name: str) -> Source:
    if not name:
        raise InvalidSetting("an empty model name; expected NAME=PATH")
    return Source(name, source.kind, source.path, source.target, source.version)
