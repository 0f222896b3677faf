"""A model that is sent along with the request to load it: its configuration and its files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from xirang.errors import InvalidRequest, InvalidSetting
from xirang.repository.triton.checks import checked
from xirang.repository.triton.layout import Place
from xirang.repository.triton.reading import read_json
from xirang.repository.triton.schema import ModelConfig

CONFIG, FILE = "config", "file:"
_PART = re.compile(r"[\w][\w.\-]*")
_DEPTH_MAX = 8

Parameters = Mapping[str, str | bytes]
"""`config`, a configuration in JSON; and files by `file:` and their path in the model's folder."""


@dataclass(frozen=True, slots=True)
class Override:
    """What stands in the place of a model's own.

    Attributes:
        config: Of the model.
        place: Where its files are: a folder of their own, if files came along.
        scratch: That goes with that folder; it lives as long as the model.
    """

    config: ModelConfig
    place: Place | None
    scratch: "TemporaryDirectory[str] | None"


def override_of(name: str, parameters: Parameters) -> Override | None:
    """What a request to load a model brings along; None if it brings nothing.

    Raises:
        InvalidRequest: It brings what it must not, and what.
    """
    files: dict[str, bytes] = {}
    for key, value in parameters.items():
        if key.startswith(FILE) and isinstance(value, bytes):
            files[_path(key.removeprefix(FILE))] = value
        elif key != CONFIG or not isinstance(value, str):
            raise InvalidRequest(
                f"unexpected parameter '{key}'; expected config, a text of JSON, or "
                "file:VERSION/NAME, a file in base64"
            )
    text = parameters.get(CONFIG)
    if text is None:
        if files:
            raise InvalidRequest("files come along, but no config; expected both")
        return None
    try:
        config = checked(read_json(text), name)
    except InvalidSetting as error:
        raise InvalidRequest(f"load failed for model '{name}': {error}") from error
    if not files:
        return Override(config, None, None)
    scratch = TemporaryDirectory(prefix="xirang-")
    folder = Path(scratch.name) / "model"  # whatever the model is called: names come from outside
    for path, data in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return Override(config, Place(name, folder, folder), scratch)


def _path(path: str) -> str:
    """A file's path in the model's folder: plain names, so that it cannot lead elsewhere.

    Raises:
        InvalidRequest: It is none.
    """
    parts = path.split("/")
    if len(parts) > _DEPTH_MAX or not all(_PART.fullmatch(part) for part in parts):
        raise InvalidRequest(
            f"'{path}' is no path of a file in a model's folder; expected VERSION/NAME"
        )
    return path
