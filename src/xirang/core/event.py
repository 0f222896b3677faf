"""What happened, for whoever watches: one event a run, or one for a request that never ran."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from xirang.core.request import Request
from xirang.core.run import Cause, Outcome, Run


class RunEnded(NamedTuple):
    """An instance is free again."""

    run: Run
    outcome: Outcome
    end_ns: int


class RequestRejected(NamedTuple):
    """Turned away at the door."""

    request: Request
    reason: str
    cause: Cause = Cause.QUEUE_FULL


@dataclass(frozen=True, slots=True)
class RequestExpired:
    """Given up because its budget could no longer be kept."""

    request: Request
    at_ns: int


@dataclass(frozen=True, slots=True)
class RequestCancelled:
    """Its client went away while it waited."""

    request: Request
    at_ns: int


class Function(Enum):
    """Something a pressed server can do without; in the order in which it does."""

    TRACING = "tracing"
    TIMING = "timing"  # stage times and explanations of single requests
    RECORDER = "recorder"
    DASHBOARD = "dashboard"
    CACHE_WRITES = "cache writes"  # what is kept already is still answered from there
    OPTIONAL_OUTPUTS = "optional outputs"
    REQUEST_LOGS = "request logs"
    FULL_MODEL = "full model"  # last: a cheaper stand-in, or the head of a long request


@dataclass(frozen=True, slots=True)
class OverloadChanged:
    """A device has become more or less pressed, or a function was switched off or on.

    Attributes:
        device: Its name.
        level: 0…3.
        off: Functions that are switched off now.
        at_ns: When.
    """

    device: str
    level: int
    off: tuple[Function, ...]
    at_ns: int


@dataclass(frozen=True, slots=True)
class EvictionProposed:
    """A model waits for memory that another, which may go, has not used for the longest time.

    Attributes:
        model: The one that may go.
        wanted_by: The one that waits.
        at_ns: When.
    """

    model: str
    wanted_by: str
    at_ns: int


Event = (
    RunEnded
    | RequestRejected
    | RequestExpired
    | RequestCancelled
    | OverloadChanged
    | EvictionProposed
)
