"""Follows a few requests from their head to their answer, for traces and for the request log.

Whether a request is followed is decided at its head. Nothing is made for the others.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec

from xirang.core.event import Function, RunEnded
from xirang.observe.outlet import Outlet
from xirang.observe.sampling import Sampler
from xirang.observe.trace_context import TraceContext, below, first, parent_of

GONE = 499
"""The status of a request whose client went away, as nginx logs it; nobody is sent it."""


class Membership(NamedTuple):
    """One followed request's part in a run."""

    sighting: "Sighting"
    event: RunEnded
    request_id: int


class Sighting(msgspec.Struct, gc=False):
    """What was seen of one request.

    Attributes:
        door: `http` or `grpc`.
        place: URL, or the procedure's path.
        headers: Of the request, names in lower case.
        begun_ns: When its head was there.
        context: Of its span; None if it is not traced.
        is_logged: Whether it gets a line in the log.
        model: That was asked.
        identity: What the client calls it.
        submitted_ns: When it was decoded, and went to the engine; 0 if it did not come so far.
        end_ns: When it was answered.
        status: Of the answer: HTTP's, or gRPC's.
        received_bytes: Its body, decompressed.
        sent_bytes: The answer's body.
        runs: That it was in, with its number in each.
        links: To the spans of those runs.
    """

    door: str
    place: str
    headers: Mapping[bytes, bytes]
    begun_ns: int
    context: TraceContext | None
    is_logged: bool
    model: str = ""
    identity: str = ""
    submitted_ns: int = 0
    end_ns: int = 0
    status: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    runs: list[tuple[RunEnded, int]] = []
    links: list[TraceContext] = []


class Witness:
    """Sees what doors show it, and leaves it at the outlets.

    Attributes:
        left: How many go by before the next that may be followed; whoever goes by takes one off.
        is_muted: Whether a model's requests are not traced after all.
    """

    __slots__ = (
        *("_is_off", "_lines", "_log", "_now_ns", "_random", "_spans"),
        *("_step", "_traces", "_traces_left", "is_muted", "left"),
    )

    def __init__(
        self,
        traces: Sampler,
        lines: Sampler,
        *,
        now_ns: Callable[[], int],
        random: Random,
        is_off: Callable[[Function], bool],
    ) -> None:
        """See nobody until there is an outlet.

        Args:
            traces: Which requests are traced, where their callers do not say.
            lines: Which get a line in the log.
            now_ns: The engine's clock.
            random: Where names of spans come from.
            is_off: Whether overload has a function switched off.
        """
        self._traces = traces
        self._lines = lines
        self._now_ns = now_ns
        self._random = random
        self._is_off = is_off
        self._spans: Outlet[Sighting | Membership] | None = None
        self._log: Outlet[Any] | None = None
        self._traces_left = -1
        self.is_muted: Callable[[str], bool] = _nobody
        self.left = self._step = 0
        self.leave_at()

    def leave_at(
        self,
        *,
        spans: "Outlet[Sighting | Membership] | None" = None,
        log: Outlet[Any] | None = None,
    ) -> None:
        """Where what was seen goes: to become spans, and lines."""
        self._spans, self._log = spans, log
        self._traces.is_on, self._lines.is_on = spans is not None, log is not None
        self._wind()

    def can_trace(self) -> bool:
        """Whether spans go anywhere."""
        return self._spans is not None

    def turn(self, *, ratio: float, is_on: bool, count: int) -> None:
        """Change how much is traced from now on.

        Args:
            ratio: Share of the requests, where their callers do not say.
            is_on: Whether any is, whoever calls.
            count: How many more are; -1 for any number.
        """
        self._unwind()
        self._traces.ratio, self._traces.is_on, self._traces_left = ratio, is_on, count
        self._wind()

    @property
    def heeds_callers(self) -> bool:
        """Whether a request is traced because its caller is."""
        return self._traces.is_on

    def see(
        self, door: str, place: str, headers: Mapping[bytes, bytes], begun_ns: int = 0
    ) -> Sighting | None:
        """A request whose turn it may be: whoever asks has counted it.

        Args:
            door: `http` or `grpc`.
            place: URL, or the procedure's path.
            headers: Names in lower case.
            begun_ns: When its head was there; now, if nobody knows better.

        Returns:
            What is seen of it so far; None if it is not followed.
        """
        self._unwind()
        context = self._context(headers)
        is_logged = self._lines.take() and not self._is_off(Function.REQUEST_LOGS)
        self._wind()
        if context is None and not is_logged:
            return None
        begun_ns = begun_ns or self._now_ns()
        return Sighting(door, place, headers, begun_ns, context, is_logged)

    def submitted(self, sighting: Sighting, model: str, identity: str) -> None:
        """It is decoded, and goes to the engine."""
        sighting.model, sighting.identity = model, identity
        sighting.submitted_ns = self._now_ns()
        if sighting.context is not None and self.is_muted(model):
            sighting.context = None

    def ran(self, sighting: Sighting, event: RunEnded, request_id: int) -> None:
        """A run that it was in has given its answer."""
        sighting.runs.append((event, request_id))
        if sighting.context is not None and self._spans is not None:
            self._spans.put(Membership(sighting, event, request_id))

    def ended(self, sighting: Sighting, status: int, sent_bytes: int) -> None:
        """It was answered."""
        sighting.end_ns = self._now_ns()
        sighting.status, sighting.sent_bytes = status, sent_bytes
        if sighting.context is not None and self._spans is not None:
            self._spans.put(sighting)
        if sighting.is_logged and self._log is not None:
            self._log.put(sighting)

    def _wind(self) -> None:
        """One counter for both samplers: it reaches the one whose turn is first."""
        self.left = self._step = min(self._traces.left, self._lines.left)

    def _unwind(self) -> None:
        passed = self._step - self.left
        self._traces.left -= passed
        self._lines.left -= passed
        self._step = self.left

    def _context(self, headers: Mapping[bytes, bytes]) -> TraceContext | None:
        is_traced = self._traces.take()
        if not self.heeds_callers or not self._traces_left or self._is_off(Function.TRACING):
            return None
        parent = parent_of(headers)
        if parent is not None:  # whoever calls has decided for the whole trace
            is_traced = parent.is_sampled
        if not is_traced:
            return None
        self._traces_left -= self._traces_left > 0
        return first(self._random) if parent is None else below(parent, headers, self._random)


def _nobody(_model: str) -> bool:
    return False
