"""xirang (息壤): a dynamic-batching inference server and embeddable library."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xirang.errors import (
    Cancelled,
    Expired,
    InvalidRequest,
    InvalidSetting,
    ModelFailed,
    NotReady,
    TooBusy,
    UnknownModel,
    XirangError,
)

if TYPE_CHECKING:
    from xirang.app import load
    from xirang.engine.batch import batch
    from xirang.engine.engine import Engine

__all__ = [
    "Cancelled",
    "Engine",
    "Expired",
    "InvalidRequest",
    "InvalidSetting",
    "ModelFailed",
    "NotReady",
    "TooBusy",
    "UnknownModel",
    "XirangError",
    "batch",
    "load",
]

_PLACES = {
    "Engine": "xirang.engine.engine",
    "batch": "xirang.engine.batch",
    "load": "xirang.app",
}
"""Imported when asked for: a worker process starts in a third of the time without the doors."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'xirang' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)
