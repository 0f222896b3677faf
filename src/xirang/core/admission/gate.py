"""The decision at the door: draining, a full queue, a budget that cannot be kept, overload."""

from typing import NamedTuple

from xirang.core.admission.overload import Arrival, Overload
from xirang.core.run import Admitted, Cause, Rejected, Verdict

ADMITTED = Admitted()
GOING = Rejected("the server is shutting down; send the request elsewhere", 0, Cause.DRAINING)


class Queue(NamedTuple):
    """What stands before a model when a request comes.

    Attributes:
        depth: Requests that wait.
        depth_max: How many may.
        drained_ns: Predicted time until those are done.
        is_trusted: Whether predictions may turn anybody away: something executes, and the cost
            model has seen enough.
        drained_ns_max: How long that may be; 0 for any.
    """

    depth: int
    depth_max: int
    drained_ns: int
    is_trusted: bool
    drained_ns_max: int = 0


def decide(
    arrival: Arrival, queue: Queue, overload: Overload, *, run_ns: float, now_ns: int
) -> Verdict:
    """Admit a request, or say why not and when to come back.

    Args:
        arrival: The request.
        queue: What stands before it.
        overload: Of its device.
        run_ns: Predicted time of its own run, alone.
        now_ns: The time.
    """
    if queue.depth >= queue.depth_max:
        text = (
            f"Exceeds maximum queue size: {queue.depth} requests wait, at most "
            f"{queue.depth_max} may"
        )
        return Rejected(text, queue.drained_ns, Cause.QUEUE_FULL)
    if 0 < queue.drained_ns_max < queue.drained_ns:
        text = (
            f"Exceeds maximum queue size: work for {queue.drained_ns / 1e6:.0f} ms waits, at most "
            f"{queue.drained_ns_max / 1e6:.0f} ms may"
        )
        return Rejected(text, queue.drained_ns - queue.drained_ns_max, Cause.QUEUE_FULL)
    if not queue.is_trusted:
        return ADMITTED
    # By the median prediction, without any margin: to reject by a cautious one wastes capacity.
    late_ns = arrival.queued_ns + run_ns - arrival.budget_ns
    if late_ns > 0:
        text = (
            f"an answer would take {(arrival.queued_ns + run_ns) / 1e6:.0f} ms, "
            f"the budget is {arrival.budget_ns / 1e6:.0f} ms"
        )
        return Rejected(text, int(late_ns), Cause.BUDGET)
    if overload.level and overload.turns_away(arrival, now_ns=now_ns):
        text = f"overloaded (level {overload.level}): requests of this priority are turned away"
        return Rejected(text, queue.drained_ns, Cause.OVERLOAD)
    return ADMITTED
