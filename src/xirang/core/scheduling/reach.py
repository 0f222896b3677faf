"""How far into a queue a batch reaches, by preferred sizes and a delay.

What Triton's dynamic batcher does (its user guide, and dynamic_batch_scheduler.cc as read), quirks
included: batches that wait for an instance go on growing, and where one request's rows make the sum
jump over all preferred sizes, what there was before it counts as preferred.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from xirang.core.request import Request
from xirang.core.rules import BatcherRules


class Held(NamedTuple):
    """A batch that waits for an instance, and may grow.

    Attributes:
        rows: It has so many; 0 if there is no such batch.
        group: What those who join must have.
    """

    rows: int = 0
    group: Hashable = None


class Reach(NamedTuple):
    """What happens to a queue now.

    Attributes:
        taken: So many of its first go into the batch.
        is_closed: Whether nobody more may join that.
        is_cut: Whether it ended before one of another shape.
        again_ns: Nobody goes; look again then, unless somebody comes before. None: they go now.
    """

    taken: int
    is_closed: bool
    is_cut: bool = False
    again_ns: int | None = None


def reach(
    queue: Sequence[Request], rules: BatcherRules, *, rows_max: int, held: Held, now_ns: int
) -> Reach:
    """How far the next batch reaches.

    Args:
        queue: In its order; not empty. More than a batch needs are not looked at.
        rules: The model's.
        rows_max: Most rows of a batch of several requests.
        held: The batch that they would join.
        now_ns: The time.
    """
    walk = _walk(queue, rules.sizes(rows_max), rows_max, held)
    if not walk.fitting and not walk.marked_rows:
        return Reach(0, walk.is_over, walk.is_cut)
    oldest_ns = min([request.arrival_ns for request in queue[: walk.fitting]])
    is_due = now_ns - oldest_ns >= rules.delay_ns
    has_delay = rules.delay_ns > 0
    if walk.marked_rows and not (has_delay and is_due):
        return Reach(walk.marked, walk.is_over or not has_delay, walk.is_cut)
    sizes, rows = rules.sizes(rows_max), held.rows + walk.rows
    if walk.is_ended or rows >= sizes[-1]:
        return Reach(walk.fitting, is_closed=True, is_cut=walk.is_cut)
    if is_due or not has_delay or (held.rows and held.rows not in sizes):
        return Reach(walk.fitting, walk.is_over, walk.is_cut)
    return Reach(0, is_closed=False, again_ns=oldest_ns + rules.delay_ns)


class _Walk(NamedTuple):
    """What was seen on the way: all that would fit, and the last preferred size among it."""

    fitting: int
    rows: int
    marked: int
    marked_rows: int
    is_over: bool  # one was met with which it would be larger than all preferred sizes
    is_ended: bool  # one was met that cannot join
    is_cut: bool  # because its shape is another


def _walk(queue: Sequence[Request], sizes: Sequence[int], rows_max: int, held: Held) -> _Walk:
    count = rows = marked = marked_rows = 0
    is_over = is_ended = is_cut = False
    group = held.group
    for request in queue:
        total = held.rows + rows
        if not total:
            group = request.group
        else:
            if total + request.rows > sizes[-1] and not marked_rows:
                marked, marked_rows, is_over = count, rows, True
            is_cut = total + request.rows <= rows_max and request.group != group
            is_ended = is_cut or total + request.rows > rows_max
            if is_ended:
                break
        rows += request.rows
        count += 1
        if held.rows + rows in sizes:
            marked, marked_rows = count, rows
    return _Walk(count, rows, marked, marked_rows, is_over, is_ended, is_cut)
