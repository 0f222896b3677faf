"""When to start: wait for company as long as that is useful and harms no deadline.

A candidate is what one model would run now. For each there is a latest start: its earliest
deadline less its own time with one more request in it (after that instant no further request
could join, so waiting longer is useless: the frontrun moment of Symphony, Chen et al., arXiv
2308.07470). Several candidates on one device are deferred *jointly*, by a backward chain in
order of deadlines: the last may start so late that it just meets its deadline, the one before
must also leave room for it, and so on. Deferring each for itself misses deadlines even at a
tenth of the capacity.
"""

from collections.abc import Sequence
from typing import NamedTuple

from xirang.core.run import Trigger

HOPE_MIN = 0.3
"""Expected company below which a lone request is not kept waiting."""


EARLY_NS, EARLY_PART = 500_000, 8
"""So much, and this part of it at most, is taken off a window: timers are as coarse as that, and
one that fires a little early would be set again and again until the instant has come."""

GROWTH_MAX = 0.75
"""Beyond this share of growth the chain means nothing any more."""


class Waiting(NamedTuple):
    """Those of a model's requests that are equally patient.

    Attributes:
        oldest_arrival_ns: From here their window counts.
        patience: Share of the slack that may be waited away (queueing/window.py).
    """

    oldest_arrival_ns: int
    patience: float


class Candidate(NamedTuple):
    """One model that could start a run now.

    Attributes:
        model: Its name.
        waiting: Its requests by patience, at least one kind; whose window ends first decides.
        deadline_ns: The earliest deadline among its requests.
        run_ns: Predicted time of its run with one more request, by the cautious margin.
        company: Requests expected to join in a nanosecond.
        is_full: Whether enough has gathered.
        window_ns_max: Its policy's.
        threshold_ns: What would be enough.
        waits_as: What it goes by when a whole window has been waited.
    """

    model: str
    waiting: Sequence[Waiting]
    deadline_ns: int
    run_ns: int
    company: float
    is_full: bool
    window_ns_max: int
    threshold_ns: int = 0
    waits_as: Trigger = Trigger.WINDOW


class Launch(NamedTuple):
    """The next run of a device.

    Attributes:
        at_ns: Not before this instant.
        model: Whose run.
        trigger: What makes it go then.
        window_ns: How long its oldest request may wait.
    """

    at_ns: int
    model: str
    trigger: Trigger
    window_ns: int

    def is_due(self, now_ns: int) -> bool:
        """Whether to go now; the last bit of a window is not worth another look at the clock."""
        if self.trigger is Trigger.WINDOW:
            return self.at_ns - min(EARLY_NS, self.window_ns // EARLY_PART) <= now_ns
        return self.at_ns <= now_ns


def next_launch(
    candidates: Sequence[Candidate], *, now_ns: int, parallelism: int, load: float
) -> Launch:
    """Which candidate goes next, and when.

    Args:
        candidates: At least one.
        now_ns: The time.
        parallelism: Runs that the device can hold at once.
        load: Demand ÷ what the device can do.
    """
    if len(candidates) == 1:
        (only,) = candidates
        return _launch(only, latest_ns=only.deadline_ns - only.run_ns)
    ordered = sorted(candidates, key=_deadline_ns)
    latest = _latest_starts(ordered, parallelism=parallelism, load=load)
    launches: list[Launch] = []
    # Of those that are due the most urgent goes; else the one whose time comes first.
    for candidate, latest_ns in zip(ordered, latest, strict=True):
        launch = _launch(candidate, latest_ns=latest_ns)
        if launch.at_ns <= now_ns:
            return launch
        launches.append(launch)
    return min(launches, key=_at_ns)


def window_ns(*, patience: float, slack_ns: int, window_ns_max: int) -> int:
    """How long the oldest request may be kept waiting for company, within its slack."""
    return max(0, min(int(patience * slack_ns), window_ns_max))


def _latest_starts(ordered: Sequence[Candidate], *, parallelism: int, load: float) -> list[int]:
    """The backward chain: latest start of each candidate, given all that come after it."""
    latest: list[int] = []
    room_ns: int | None = None
    # While one runs, those behind it gather more: half of the arriving work, on the average.
    stretch = 1.0 / (1.0 - min(load / 2, GROWTH_MAX)) / parallelism
    for candidate in reversed(ordered):
        start_ns = candidate.deadline_ns - candidate.run_ns
        if room_ns is not None:
            start_ns = min(start_ns, room_ns - int(candidate.run_ns * stretch))
        room_ns = start_ns
        latest.append(start_ns)
    latest.reverse()
    return latest


def _launch(candidate: Candidate, *, latest_ns: int) -> Launch:
    launches = [_launch_of(kind, candidate, latest_ns) for kind in candidate.waiting]
    return launches[0] if len(launches) == 1 else min(launches, key=_at_ns)


def _launch_of(kind: Waiting, candidate: Candidate, latest_ns: int) -> Launch:
    arrival_ns = kind.oldest_arrival_ns
    wait_ns = window_ns(
        patience=kind.patience,
        slack_ns=latest_ns - arrival_ns,
        window_ns_max=candidate.window_ns_max,
    )
    if candidate.is_full:
        return Launch(arrival_ns, candidate.model, Trigger.THRESHOLD, wait_ns)
    if candidate.company * wait_ns < HOPE_MIN:
        return Launch(arrival_ns, candidate.model, Trigger.ALONE, wait_ns)
    trigger = candidate.waits_as if arrival_ns + wait_ns < latest_ns else Trigger.DEADLINE
    return Launch(arrival_ns + wait_ns, candidate.model, trigger, wait_ns)


def _deadline_ns(candidate: Candidate) -> int:
    return candidate.deadline_ns


def _at_ns(launch: Launch) -> int:
    return launch.at_ns
