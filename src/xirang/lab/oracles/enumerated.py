"""The exact best for a handful of unlike requests, by going through all plans.

Which requests were served and when each device is free is all that the rest of a plan depends on;
of two plans that served the same, the one whose devices are free sooner is at least as good.
"""

from collections.abc import Callable, Sequence

from xirang.core.request import Request

FEW = 10
"""Three to the power of so many is what one can wait for."""

RunTime = Callable[[Sequence[Request]], int | None]
"""Time of one run of these requests; None if they cannot share one."""

Ends = tuple[int, ...]
"""When each device is free, ascending."""


def most_on_time_of_few(requests: Sequence[Request], *, run_ns: RunTime, devices: int = 1) -> int:
    """How many of these could be answered by their deadlines, at most.

    Args:
        requests: At most ten; of any lengths, budgets and models.
        run_ns: What a run takes.
        devices: How many run at once.
    """
    count = len(requests)
    assert count <= FEW
    runs = [_run(requests, subset, run_ns) for subset in range(1 << count)]
    reached: list[set[Ends]] = [set() for _ in range(1 << count)]
    reached[0].add((0,) * devices)
    for served in range(1, 1 << count):
        subset = served
        while subset:
            run = runs[subset]
            if run is not None:
                for ends in reached[served ^ subset]:
                    reached[served].update(_after(ends, *run))
            subset = (subset - 1) & served
        reached[served] = _best(reached[served])
    return max(served.bit_count() for served in range(1 << count) if reached[served])


def _run(requests: Sequence[Request], subset: int, run_ns: RunTime) -> tuple[int, int, int] | None:
    """Earliest start, time and deadline of the requests in a bit set as one run."""
    chosen = [request for i, request in enumerate(requests) if subset >> i & 1]
    time_ns = run_ns(chosen) if chosen else None
    if time_ns is None:
        return None
    arrival_ns = max(request.arrival_ns for request in chosen)
    return arrival_ns, time_ns, min(request.deadline_ns for request in chosen)


def _after(ends: Ends, arrival_ns: int, time_ns: int, deadline_ns: int) -> list[Ends]:
    """What may follow if one of the devices takes this run."""
    following = []
    for i, free_ns in enumerate(ends):
        end_ns = max(free_ns, arrival_ns) + time_ns
        if end_ns <= deadline_ns:
            following.append(tuple(sorted((*ends[:i], end_ns, *ends[i + 1 :]))))
    return following


def _best(reached: set[Ends]) -> set[Ends]:
    return {
        ends
        for ends in reached
        if not any(
            other != ends and all(a <= b for a, b in zip(other, ends, strict=True))
            for other in reached
        )
    }
