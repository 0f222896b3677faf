"""xirang (息壤): a dynamic-batching inference server and embeddable library."""

from xirang.app import load
from xirang.engine.batch import batch
from xirang.engine.engine import Engine
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
