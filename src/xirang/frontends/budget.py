"""Latency budgets that ride in HTTP headers; of several the tightest counts."""

import math
from collections.abc import Mapping

from xirang.errors import InvalidRequest

OWN_HEADER = b"x-request-timeout-ms"
OPENAI_HEADER = b"x-stainless-read-timeout"
"""The read timeout that OpenAI's clients announce, in seconds."""


def tightest(budget_ns: int | None, headers: Mapping[bytes, bytes]) -> int | None:
    """The least of a budget and those in the headers; None when there is none at all.

    Raises:
        InvalidRequest: A header holds something other than a positive number.
    """
    own, openai = headers.get(OWN_HEADER), headers.get(OPENAI_HEADER)
    if own is None and openai is None:
        return budget_ns
    budgets_ns = [] if budget_ns is None else [budget_ns]
    if own is not None:
        budgets_ns.append(_parse(OWN_HEADER, own, 1_000_000))
    if openai is not None:
        budgets_ns.append(_parse(OPENAI_HEADER, openai, 1_000_000_000))
    return min(budgets_ns)


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
