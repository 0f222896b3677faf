"""Findings as plain values, for what is kept of a model file from start to start."""

import logging
from typing import Any

import msgspec

from xirang.engine.probe.findings import Findings

log = logging.getLogger(__name__)

VERSION = 4
"""Of the probe: another one would find out other things."""


def to_plain(findings: Findings) -> dict[str, Any]:
    """What JSON can hold."""
    plain: dict[str, Any] = msgspec.to_builtins(findings)
    return plain


def from_plain(plain: dict[str, Any]) -> Findings | None:
    """The findings again; None if they are of another form."""
    try:
        return msgspec.convert(plain, Findings)
    except msgspec.ValidationError as error:
        log.warning("what was found out about a model is forgotten: %s", error)
        return None
