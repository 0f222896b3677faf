"""Which of the possible runs goes now: feasibility first, then value for device time."""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from xirang.core.cost import CostModel
from xirang.core.request import Request

_DEADLINE_NS = attrgetter("deadline_ns")


class Group(NamedTuple):
    """Requests that would make one run.

    Attributes:
        requests: In the order of their rows.
        length: Their target length.
        run_ns: Predicted time.
        rows: Sum of the requests'.
        deadline_ns: The earliest of the requests'.
    """

    requests: Sequence[Request]
    length: int
    run_ns: int
    rows: int
    deadline_ns: int


def group_of(requests: Sequence[Request], cost: CostModel) -> Group:
    """What these requests would be as one run."""
    rows = sum([request.rows for request in requests])
    length = max([request.length for request in requests])
    deadline_ns = min([request.deadline_ns for request in requests])
    run_ns = cost.predict_ns(rows=rows, length=length)
    return Group(requests, length, run_ns, rows, deadline_ns)


def in_time(urgent: list[Request], *, rows_max: int, cost: CostModel, now_ns: int) -> list[Request]:
    """Those whom the next batch would answer on time; all of them if it could nobody.

    Under overload the most urgent are nearly late, and a batch filled with them makes them so: the
    device would be busy with work that is of no use to anybody. They are passed over, and leave
    when their slack ends (the early drop of Nexus, SOSP 2019). To shrink the batch until the first
    is on time would be worse: smaller batches serve fewer, the queue grows, and one slow batch is
    enough never to recover.

    Args:
        urgent: The most urgent first; rows of different lengths are in different groups.
        rows_max: Rows of a full batch.
        cost: The model's.
        now_ns: The time.
    """
    if cost.is_cold:
        return urgent
    head = urgent[0]
    rows = min(rows_max, sum([r.rows for r in urgent[:rows_max] if r.group == head.group]))
    end_ns = now_ns + cost.predict_ns(rows=rows, length=head.length)
    return [request for request in urgent if request.deadline_ns >= end_ns] or urgent


def choose(groups: Sequence[Group], *, now_ns: int, parallelism: int) -> Group:
    """The group to run now.

    If all groups, run by earliest deadline, are on time, the most urgent goes. If not, that order
    would spend the device on work that is late anyway and drag the rest after it; then the group
    with the most on-time requests for its time goes (the density rule of Shepherd, NSDI 2023).

    Args:
        groups: At least one.
        now_ns: The time.
        parallelism: Runs that the device can hold at once.
    """
    if len(groups) == 1:
        return groups[0]
    ordered = sorted(groups, key=_DEADLINE_NS)
    if _all_on_time(ordered, now_ns=now_ns, parallelism=parallelism):
        return ordered[0]
    return max(ordered, key=lambda group: _density(group, now_ns=now_ns))


def _all_on_time(ordered: Sequence[Group], *, now_ns: int, parallelism: int) -> bool:
    queued_ns = 0
    for group in ordered:
        if now_ns + queued_ns // parallelism + group.run_ns > group.deadline_ns:
            return False
        queued_ns += group.run_ns
    return True


def _density(group: Group, *, now_ns: int) -> float:
    end_ns = now_ns + group.run_ns
    if group.deadline_ns >= end_ns:
        return len(group.requests) / max(1, group.run_ns)
    on_time = sum(1 for request in group.requests if request.deadline_ns >= end_ns)
    return on_time / max(1, group.run_ns)
