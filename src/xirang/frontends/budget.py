"""Latency budgets that ride in HTTP headers; of several the tightest counts."""

import math
from collections.abc import Mapping

from xirang.errors import InvalidRequest

_UNITS_NS = {b"x-request-timeout-ms": 1_000_000, b"x-stainless-read-timeout": 1_000_000_000}
"""Our own header, and the read timeout that OpenAI's clients announce, in seconds."""


def tightest(budget_ns: int | None, headers: Mapping[bytes, bytes]) -> int | None:
    """The least of a budget and those in the headers; None when there is none at all.

    Raises:
        InvalidRequest: A header holds something other than a positive number.
    """
    for name, unit_ns in _UNITS_NS.items():
        value = headers.get(name)
        if value is not None:
            header_ns = _parse(name, value, unit_ns)
            budget_ns = header_ns if budget_ns is None else min(budget_ns, header_ns)
    return budget_ns


def _parse(name: bytes, value: bytes, unit_ns: int) -> int:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < 1e9:
        raise InvalidRequest(
            f"header {name.decode()} must be a positive number, got {value.decode('latin-1')!r}"
        )
    return max(1, int(number * unit_ns))
