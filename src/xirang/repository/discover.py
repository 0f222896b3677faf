"""Which models a path or a Python name stands for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from xirang.errors import InvalidSetting
from xirang.text.folder import TOKENIZER

_PYTHON_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_TORCH = "torch:"


class Kind(Enum):
    """What a source is."""

    ONNX = "onnx"
    TEXT = "text"
    PYTHON = "python"
    TORCH = "torch"
    TORCH_MODULE = "torch module"
    TRITON_PYTHON = "triton python"


_KINDS = {".onnx": Kind.ONNX, ".pt2": Kind.TORCH, ".pt": Kind.TORCH}
"""By a file's suffix; in a folder with several the first is taken."""

_HUGGING_FACE = ("onnx/model.onnx", "onnx/model_quantized.onnx", "model_quantized.onnx")
"""Where a text model's file may be besides, if its tokenizer is in the folder itself."""


@dataclass(frozen=True, slots=True)
class Source:
    """One model that can be loaded.

    Attributes:
        name: Under which it will be served.
        kind: How to load it.
        path: The model's file (for text models beside their tokenizer.json); None for Python.
        target: `module:name`, for Python and modules of PyTorch.
        version: As clients name it.
        options: What a model of this kind wants to know besides.
    """

    name: str
    kind: Kind
    path: Path | None = None
    target: str = ""
    version: str = "1"
    options: Mapping[str, str] = field(default_factory=dict)


def discover(paths: Sequence[str]) -> list[Source]:
    """All models that these paths and names stand for.

    Args:
        paths: Files of ONNX or PyTorch (.onnx, .pt2, .pt), folders with a model of such a suffix
            (and a tokenizer.json for text models, as Hugging Face lays them out), folders of such,
            Python objects as `module:name`, or modules of PyTorch as `torch:module:name`.
            `NAME=PATH` gives a name.

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
    place = Path(path)
    target = path if _PYTHON_NAME.fullmatch(path) else path.removeprefix(_TORCH)
    if _PYTHON_NAME.fullmatch(target) and not place.exists():
        kind = Kind.PYTHON if target == path else Kind.TORCH_MODULE
        return [Source(target.partition(":")[2].replace(".", "_"), kind, target=target)]
    if not path or not place.exists():
        raise InvalidSetting(
            f"'{path}' does not exist; expected a file of {', '.join(_KINDS)}, a folder, "
            "module:name or torch:module:name"
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
        f"{path} holds no model; expected a file of {', '.join(_KINDS)}, a folder with "
        "model.onnx or the like (and tokenizer.json for a text model), or a folder of such"
    )


def _in_place(place: Path) -> Source | None:
    if place.is_file():
        kind = _KINDS.get(place.suffix)
        return Source(place.stem, kind, path=place) if kind is not None else None
    if not place.is_dir():
        return None
    if (place / "config.pbtxt").is_file():
        raise InvalidSetting(
            f"{place} has a config.pbtxt; serve the folder that it is in as --model-repository"
        )
    resolved = place.resolve()
    versions = sorted(
        (int(child.name) for child in place.iterdir() if re.fullmatch(r"[1-9]\d*", child.name)),
        reverse=True,
    )
    homes = [("1", place)] + [(str(v), place / str(v)) for v in versions]
    for version, home in homes:
        for suffix, kind in _KINDS.items():
            model = home / f"model{suffix}"
            if model.is_file():
                is_text = (home / TOKENIZER).is_file()
                found = Kind.TEXT if is_text else kind
                return Source(resolved.name, found, path=model, version=version)
    for file in _HUGGING_FACE if (place / TOKENIZER).is_file() else ():
        if (place / file).is_file():
            return Source(resolved.name, Kind.TEXT, path=place / file)
    return None


def _renamed(source: Source, name: str) -> Source:
    if not name:
        raise InvalidSetting("an empty model name; expected NAME=PATH")
    return Source(name, source.kind, source.path, source.target, source.version)
