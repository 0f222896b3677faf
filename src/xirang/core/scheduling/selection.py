"""Which of the possible runs goes now: feasibility first, then as much value as the time allows."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from xirang.core.cost import CostModel
from xirang.core.request import Request, target_length

Run = Sequence[Request]

_DEADLINE_NS = attrgetter("deadline_ns")
_URGENCY_NS = attrgetter("urgency_ns")
_LENGTH = attrgetter("length")
_ROWS = attrgetter("rows")


class Group(NamedTuple):
    """Requests that would make one run.

    Attributes:
        requests: In the order of their rows.
        length: Their target length.
        run_ns: Predicted time.
        rows: Sum of the requests'.
        deadline_ns: The earliest of the requests'.
        urgency_ns: The earliest virtual deadline of the requests'.
    """

    requests: Run
    length: int
    run_ns: int
    rows: int
    deadline_ns: int
    urgency_ns: int


class Scene(NamedTuple):
    """What a choice is made by.

    Attributes:
        cost: The model's.
        now_ns: The time.
        parallelism: Runs that the device can hold at once.
        rows_max: Most rows in a run.
        filled: To how many rows a run of so many is filled up.
        weight: What a request on time is worth.
        length: What a row of a run of these requests costs as.
    """

    cost: CostModel
    now_ns: int
    parallelism: int
    rows_max: int
    filled: Callable[[int], int]
    weight: Callable[[Request], int]
    length: Callable[[Run], int] = target_length


def group_of(requests: Run, scene: Scene) -> Group:
    """What these requests would be as one run."""
    rows = sum(map(_ROWS, requests))
    length = scene.length(requests)
    return Group(
        requests,
        length,
        scene.cost.predict_ns(rows=scene.filled(rows), length=length),
        rows,
        min(map(_DEADLINE_NS, requests)),
        min(map(_URGENCY_NS, requests)),
    )


def first_of(groups: Sequence[Group], scene: Scene) -> Group | None:
    """The most urgent, if all of them are on time when they run by virtual deadline; else None."""
    ordered = sorted(groups, key=_URGENCY_NS)
    slower, queued_ns = _slower(scene), 0.0
    for group in ordered:
        run_ns = group.run_ns * slower
        if scene.now_ns + queued_ns / scene.parallelism + run_ns > group.deadline_ns:
            return None
        queued_ns += run_ns
    return ordered[0]


def worthiest(groups: Sequence[Group], scene: Scene) -> Group:
    """The first of those groups that are worth the time, where there is not time for all.

    To run all by deadline would spend the device on work that is late anyway and drag the rest
    after it. So they are taken up by deadline, and whenever one would be late, that of them is left
    out again which gives the least for its time (Moore and Hodgson, Management Science 1968, who
    showed that this is optimal for the number of jobs on time). What is left out waits for better
    times, or expires.

    Args:
        groups: Each on time if it ran now; at least one.
        scene: What to choose by.
    """
    slower = _slower(scene) / scene.parallelism
    kept: list[Group] = []
    queued_ns = 0.0
    for group in sorted(groups, key=_DEADLINE_NS):
        kept.append(group)
        queued_ns += group.run_ns * slower
        # The last of several on different instances ends when the queue does, or a little later.
        while len(kept) > 1 and scene.now_ns + queued_ns > group.deadline_ns:
            worst = min(reversed(kept), key=lambda kept: _density(kept, scene))
            kept.remove(worst)
            queued_ns -= worst.run_ns * slower
            if worst is group:
                break
    return kept[0]


def rescued(pool: Run, scene: Scene) -> Group:
    """The run of those whom it would answer on time, as many as there are.

    Under overload the most urgent are nearly late, and a batch filled with them makes them so: the
    device would be busy with work that is of no use to anybody. They are passed over, and leave
    when their slack ends (the early drop of Nexus, SOSP 2019). To shrink the batch until the first
    is on time would be worse: smaller batches serve fewer, the queue grows, and one slow batch is
    enough never to recover. The batch to aim for is one of which two fit a budget.

    Args:
        pool: Requests that may share a run; not empty.
        scene: What to choose by.
    """
    cost, slower, filled = scene.cost, _slower(scene), scene.filled
    call_ns, row_ns = cost.call_ns(), cost.row_ns(scene.length(pool))
    by_deadline = sorted(pool, key=_DEADLINE_NS)
    last = by_deadline[-1]
    half_ns = (last.deadline_ns - last.arrival_ns) / 2
    aim = min(scene.rows_max, max(1, int((half_ns / slower - call_ns) / row_ns)))
    left = sum(map(_ROWS, pool))
    first = len(by_deadline) - 1
    for i, request in enumerate(by_deadline):
        run_ns = slower * (call_ns + filled(min(left, aim)) * row_ns)
        if request.deadline_ns >= scene.now_ns + run_ns:
            first = i
            break
        left -= request.rows
    time_ns = (by_deadline[first].deadline_ns - scene.now_ns) / slower - call_ns
    rows_max = min(scene.rows_max, max(1, int(time_ns / row_ns + 1e-6)))
    while rows_max > 1 and filled(rows_max) * row_ns > time_ns:
        rows_max -= 1
    return group_of(full(by_deadline[first:], rows_max), scene)


def tried(group: Group, scene: Scene) -> Group:
    """A group, or a part of it that is no larger than what was tried.

    The law may be wrong for sizes that never ran. A larger size is tried only if nobody in it would
    be late even if it took twice the time.
    """
    bound = scene.cost.trusted_elements()
    is_tried = bound is None or group.rows * group.length <= bound
    if is_tried or len(group.requests) == 1:
        return group
    if scene.now_ns + 2 * group.run_ns <= group.deadline_ns:
        return group
    rows_max = max(1, (bound or 0) // group.length)
    return group_of(full(group.requests, rows_max), scene)


def full(requests: Run, rows_max: int) -> list[Request]:
    """The most urgent for so many rows, the shortest first; at least one of them."""
    taken: list[Request] = []
    held = 0
    for request in sorted(requests, key=_URGENCY_NS):
        if taken and held + request.rows > rows_max:
            break
        held += request.rows
        taken.append(request)
    taken.sort(key=_LENGTH)
    return taken


def _slower(scene: Scene) -> float:
    return 1.0 + scene.cost.margin_fit()


def _density(group: Group, scene: Scene) -> float:
    return sum(map(scene.weight, group.requests)) / max(1, group.run_ns)
