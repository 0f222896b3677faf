"""An exported program's archive without anything that PyTorch would unpickle.

`torch.export.load` unpickles the example inputs that every archive carries, and weights and
constants where the archive says so. The first are not needed to run and left out; the others are
refused. What is left is weights as bytes and a graph as JSON. It is still a program.
"""

import json
from io import BytesIO
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, ZipInfo

from xirang.errors import InvalidSetting

_KEPT = ("data/weights/", "data/constants/", "models/", "extra/", ".data/")
_KEPT_FILES = {"archive_format", "archive_version", "byteorder", "version"}
_EXAMPLES = "data/sample_inputs/"
_COMPILED = "data/aotinductor/"
_BYTES = ("weight_", "tensor_")
"""Payloads of other names are pickled objects."""


def without_pickles(path: Path) -> BytesIO:
    """The archive as `torch.export.load` takes it.

    Raises:
        InvalidSetting: It is no such archive, or needs a pickle or compiled code to run.
    """
    stripped = BytesIO()
    try:
        with ZipFile(path) as source, ZipFile(stripped, "w") as target:
            entries = source.infolist()
            _check_names(path, [_inside(entry) for entry in entries])
            for entry in entries:
                content = _content(path, source, entry)
                if content is not None:
                    target.writestr(entry.filename, content)
    except (BadZipFile, OSError) as error:
        raise InvalidSetting(
            f"{path} is not a file of torch.export.save: {error}; "
            "a pickled module is never loaded, for it could run anything"
        ) from error
    stripped.seek(0)
    return stripped


def _inside(entry: ZipInfo) -> str:
    """The name below the archive's own root folder."""
    return "/".join(PurePosixPath(entry.filename).parts[1:])


def _check_names(path: Path, names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidSetting(f"{path} holds two entries of one name")
    if any(name.startswith(_COMPILED) for name in names):
        raise InvalidSetting(
            f"{path} holds compiled code, which is not loaded; expected torch.export.save's"
        )
    if "archive_format" not in names or not any(name.startswith("models/") for name in names):
        raise InvalidSetting(
            f"{path} is not a file of torch.export.save; "
            "a pickled module is never loaded, for it could run anything"
        )


def _content(path: Path, source: ZipFile, entry: ZipInfo) -> bytes | None:
    name = _inside(entry)
    if name.startswith(_EXAMPLES):
        return b""
    if not name.startswith(_KEPT) and name not in _KEPT_FILES:
        return None
    content = source.read(entry)
    if name.startswith("data/") and name.endswith("_config.json"):
        _refuse_pickles(path, content)
    return content


def _refuse_pickles(path: Path, config: bytes) -> None:
    try:
        payloads = json.loads(config)["config"]
        pickled = [
            name
            for name, payload in payloads.items()
            if payload["use_pickle"] or not payload["path_name"].startswith(_BYTES)
        ]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InvalidSetting(f"{path} has an unreadable table of weights: {error}") from error
    if pickled:
        raise InvalidSetting(
            f"{path} keeps {pickled} pickled, which is never loaded, for it could run anything; "
            "expected plain tensors"
        )
