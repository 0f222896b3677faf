"""Headers of a request that go on to its model, as parameters of their names."""

import re
from collections.abc import Mapping

import msgspec
import orjson

from xirang.backends.requests import NOTHING_SAID, About
from xirang.errors import InvalidSetting

_CASE_COUNTS = "(?-i)"
"""Before a pattern, as Triton takes it."""


def pattern_of(text: str, setting: str) -> re.Pattern[str] | None:
    """What headers are held against; None if none go on.

    Args:
        text: A regular expression; case does not count unless it begins with `(?-i)`.
        setting: Its name, for what is said of a wrong one.

    Raises:
        InvalidSetting: It is no regular expression.
    """
    if not text:
        return None
    counts = text.startswith(_CASE_COUNTS)
    try:
        return re.compile(text.removeprefix(_CASE_COUNTS), 0 if counts else re.IGNORECASE)
    except re.error as error:
        raise InvalidSetting(f"{setting} is {text!r}, no regular expression: {error}") from error


def with_headers(
    about: About | None, headers: Mapping[bytes, bytes], pattern: re.Pattern[str]
) -> About | None:
    """What is said of a request, with its headers that match; its own parameters go first."""
    found = {
        name: value.decode("latin-1")
        for name, value in ((key.decode("latin-1"), value) for key, value in headers.items())
        if pattern.search(name)
    }
    if not found:
        return about
    about = about or NOTHING_SAID
    own = orjson.loads(about.parameters) if about.parameters else {}
    return msgspec.structs.replace(about, parameters=orjson.dumps(found | own).decode())
