"""A head that a connection has sent before: known by its bytes, so that nobody parses it again.

A client that keeps its connection sends the same head with each request, but for the length of the
body. What those bytes mean was found out when the parser read them; the same bytes mean the same.
Whoever sends a head in another way, or a body that does not come with it, is read by the parser.
"""

import re
from typing import NamedTuple

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*(?=\r\n)", re.IGNORECASE)

DIGITS_MAX = 12
"""Of a length; no body has more."""


class FamiliarHead(NamedTuple):
    """A head, in two parts around the digits of its body's length.

    Attributes:
        start: From the request line on.
        rest: To the empty line.
        start_bytes: How long the first part is.
        rest_bytes: How long the second is.
    """

    start: bytes
    rest: bytes
    start_bytes: int
    rest_bytes: int

    def body_in(self, data: bytes) -> bytes | None:
        """The body of a request that is this head and all of its body, and nothing else.

        Args:
            data: As it was received.

        Returns:
            None if it is anything else: the parser has to look at it.
        """
        start, rest, begin, rest_bytes = self
        if not data.startswith(start):
            return None
        end = data.find(b"\r", begin, begin + DIGITS_MAX)
        if not data.startswith(rest, end):
            return None
        body = data[end + rest_bytes :]
        # As we would write it: no sign, no space, no leading zero.
        return body if data[begin:end] == b"%d" % len(body) else None


def head_of(message: bytes, length: bytes) -> FamiliarHead | None:
    """The head of a whole request, to be known again.

    Args:
        message: All of it, and nothing else.
        length: Of its body, as the parser understood it.

    Returns:
        None if the two readings of it, the parser's and ours, could differ.
    """
    end = message.find(b"\r\n\r\n") + 4
    head = message[:end]
    if not length or len(message) - end != int(length) or head.count(b"\n") != head.count(b"\r\n"):
        return None
    found = list(_LENGTH.finditer(head))
    if [each[1] for each in found] != [length]:
        return None
    begin, stop = found[0].span(1)
    return FamiliarHead(head[:begin], head[stop:], begin, end - stop)
