"""JSON requests that are alike but for the elements of one tensor: the rest of them is read once.

A client asks for the same thing again and again with other numbers. What stands before and behind
those numbers means the same each time, because JSON is read from left to right: where a list of
elements stood, any other list may stand, and changes nothing around it.
"""

from typing import Any, Generic, TypeVar

import orjson

KEPT_MAX = 1024
TEXT_BYTES_MAX = 2048
"""Of what stands around the elements, on either side."""

LEARNED_BYTES_MAX = 64 << 10
"""Of a whole text that is looked at twice to learn from it; of larger ones most is elements."""

_MARK = b'["xirang"]'

T = TypeVar("T")


class Alikes(Generic[T]):
    """What texts mean, by what stands around the elements of their one tensor.

    Bounded; emptied when full.
    """

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[bytes, T]] = {}

    def find(self, text: bytes) -> tuple[T, bytes] | None:
        """What a text means apart from its elements, and the text of those.

        The caller has to see that they are one list, and nothing more.
        """
        begin = text.find(b"[", text.find(b'"data"'))
        if not 0 < begin <= TEXT_BYTES_MAX:
            return None
        known = self._kept.get(text[:begin])
        if known is None or not text.endswith(known[0]):
            return None
        return known[1], text[begin : len(text) - len(known[0])]

    def keep(self, text: bytes, meaning: T) -> None:
        """Keep what a text means apart from the elements of its first tensor, if that can be told.

        Args:
            text: A JSON document that is a request.
            meaning: Of all of it, but for the elements.
        """
        begin = text.find(b"[", text.find(b'"data"'))
        end = text.find(b"]", begin) + 1
        before, behind = text[:begin], text[end:]
        is_flat = text.find(b"[", begin + 1, end) < 0
        is_short = 0 < begin <= TEXT_BYTES_MAX and len(behind) <= TEXT_BYTES_MAX
        if not is_flat or not is_short or before in self._kept or len(text) > LEARNED_BYTES_MAX:
            return
        if not _is_apart(text, before, behind):
            return
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[before] = behind, meaning


def _is_apart(text: bytes, before: bytes, behind: bytes) -> bool:
    """Whether what stands between is the first tensor's elements: put others there, and look."""
    try:
        marked = orjson.loads(before + _MARK + behind)
        plain = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    _taken_out(plain)
    return _taken_out(marked) == orjson.loads(_MARK) and bool(marked == plain)


def _taken_out(document: dict[str, Any]) -> Any:
    first = document["inputs"][0]
    return first.pop("data", None) if isinstance(first, dict) else None
