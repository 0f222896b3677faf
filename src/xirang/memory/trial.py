"""Tries an allocator at the start: a runtime runs in it, is refused memory, and runs again."""

from collections.abc import Callable

from xirang.memory.room import Ground


def fault_in(
    ground: Ground, is_right: Callable[[], bool], *, refusal: type[Exception], runtime: str
) -> str:
    """What is wrong with an allocator; empty if nothing is.

    Args:
        ground: In an arena of its own.
        is_right: Has the runtime compute something small, keeps none of it, and says whether the
            answer is the right one.
        refusal: What the runtime raises when it is refused memory.
        runtime: Its name.
    """
    told = ground.run
    told.lease_bytes = ground.arena.reserved_bytes
    for refuse_at in (-1, 0, -1):
        told.refuse_at = refuse_at
        ground.begin(None, 0, 0)
        try:
            is_well = is_right()
        except refusal:
            is_well = refuse_at == 0
        finally:
            ground.end()
        if not is_well:
            return f"{runtime} gives wrong answers with it"
        if not told.requests or told.leftover_bytes or (refuse_at < 0 and not told.reach_bytes):
            return f"{runtime} does not ask it"
    return ""
