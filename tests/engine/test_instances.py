"""An instance's thread: what it is given it gives back, with one call to the loop."""

import asyncio

from xirang.core.request import Request
from xirang.core.run import Done, Failed, Run, Trigger
from xirang.engine.clock import MonotonicClock, unix_ms
from xirang.engine.instances import Instance, Post
from xirang.errors import ModelFailed

DEADLINE_S = 20


def run_of(*ids):
    requests = tuple(Request(number, "m", 0, 10**9) for number in ids)
    return Run(1, "m", 0, requests, len(ids), 1, Trigger.ALONE, 0, 0, 0, 0)


def double(members, *, clock):
    return [member * 2 for member in members], Done(ran_ns=clock.now_ns())


def exit_on_thirteen(members, *, clock):
    if 13 in members:
        raise SystemExit("thirteen")
    return double(members, clock=clock)


async def results_of(work, *runs):
    """What comes back for (ids, members) pairs, in order."""
    loop = asyncio.get_running_loop()
    posted = asyncio.Queue()
    post = Post(loop, MonotonicClock(), lambda *result: posted.put_nowait(result))
    instance = Instance("m-0", work, post)
    for ids, members in runs:
        instance.start(run_of(*ids), members)
    results = [await posted.get() for _ in runs]
    instance.close()
    return results


def finished(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))


def test_runs_come_back_in_order_with_their_results():
    first, second = finished(results_of(double, ([1, 2], [10, 20]), ([3], [30])))
    assert first[1] == [20, 40]
    assert isinstance(first[2], Done)
    assert second[1] == [60]


def test_a_model_that_asks_to_exit_ends_one_request_and_not_the_thread():
    first, second = finished(results_of(exit_on_thirteen, ([1, 2], [13, 20]), ([3], [30])))
    assert isinstance(first[1][0], ModelFailed)
    assert first[1][1] == 40
    assert first[2] == Failed((1,))
    assert second[1] == [60]


def test_a_loop_that_is_closed_ends_the_thread_quietly():
    loop = asyncio.new_event_loop()
    loop.close()
    instance = Instance("m-0", double, Post(loop, MonotonicClock(), print))
    instance.start(run_of(1), [1])
    instance.close()
    assert not instance._thread.is_alive()


def test_people_are_told_the_time_of_day():
    assert unix_ms() > 1_600_000_000_000
