"""How long a request that comes now would wait: predicted from what runs and what stands ahead.

The median is meant, not a cautious bound. What stands ahead is the work of those who are more
urgent; runs for it are as full as the model allows.
"""

from collections.abc import Iterable


def residual_ns(ends_ns: Iterable[int], *, now_ns: int, parallelism: int) -> float:
    """Time until the device is done with what it runs, shared among its instances.

    Args:
        ends_ns: When each of its runs will end, by prediction; some may be late already.
        now_ns: The time.
        parallelism: Runs that the device can hold at once.
    """
    return sum([max(0, end_ns - now_ns) for end_ns in ends_ns]) / parallelism


def ahead_ns(*, work_ns: float, rows: int, share: float, call_ns: float, rows_max: int) -> float:
    """Device time of those in a backlog who go before a request.

    Args:
        work_ns: Row costs of all that wait.
        rows: Their rows.
        share: The part of them that is more urgent.
        call_ns: What a run costs before its first row.
        rows_max: Rows of a full run.
    """
    if not rows or share <= 0.0:
        return 0.0
    ahead_rows = rows * share
    # A run gathers until its call is a tenth of it, or until it is full; who comes joins the last.
    runs = max(ahead_rows / rows_max, work_ns * share / (WORK_CALLS * call_ns) if call_ns else 0.0)
    return work_ns * share + max(0.0, runs - 1.0) * call_ns


WORK_CALLS = 9.0
"""Work of a run in calls, where enough waits (queueing/window.py: a twentieth is saved no more)."""
