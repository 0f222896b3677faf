"""What happened, for whoever watches: one event a run, or one for a request that never ran."""

from dataclasses import dataclass

from xirang.core.request import Request
from xirang.core.run import Outcome, Run


@dataclass(frozen=True, slots=True)
class RunEnded:
    """An instance is free again."""

    run: Run
    outcome: Outcome
    end_ns: int


@dataclass(frozen=True, slots=True)
class RequestRejected:
    """Turned away at the door."""

    request: Request
    reason: str


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


Event = RunEnded | RequestRejected | RequestExpired | RequestCancelled
