"""The decision at the door: a bound on the queue, and nobody new while the server goes down."""

from xirang.core.run import Admitted, Rejected, Verdict

ADMITTED = Admitted()


def decide(*, depth: int, depth_max: int, drained_ns: int, is_draining: bool) -> Verdict:
    """Admit a request, or say why not and when to come back.

    Args:
        depth: Requests that already wait for its model.
        depth_max: How many may.
        drained_ns: Predicted time until those are done.
        is_draining: Whether the server is going down.
    """
    if is_draining:
        return Rejected("the server is shutting down; send the request elsewhere", 0)
    if depth >= depth_max:
        reason = f"Exceeds maximum queue size: {depth} requests wait, at most {depth_max} may"
        return Rejected(reason, drained_ns)
    return ADMITTED
