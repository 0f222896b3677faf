"""`@xirang.batch`: calls with one item each gathered into calls with a list."""

import asyncio
import gc
import threading

import pytest

import xirang
from xirang.errors import Expired, InvalidSetting, ModelFailed, TooBusy

DEADLINE_S = 20


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, DEADLINE_S))


async def pass_turns(count=5):
    """Let the loop go round: no time need pass for it."""
    for _ in range(count):
        await asyncio.wait([asyncio.ensure_future(asyncio.gather())], timeout=0)


class Gated:
    """A plain function from list to list that waits until it is let go."""

    __name__ = "gated"

    def __init__(self):
        self.calls = []
        self.open = threading.Event()
        self.entered = threading.Event()

    def __call__(self, items):
        self.calls.append(items)
        self.entered.set()
        assert self.open.wait(DEADLINE_S)
        return [item * 2 for item in items]

    async def until_entered(self):
        await asyncio.to_thread(self.entered.wait, DEADLINE_S)


def test_concurrent_calls_share_a_list():
    lists = []

    @xirang.batch(max_batch_size=8)
    async def double(items):
        """Twice."""
        lists.append(items)
        return [item * 2 for item in items]

    async def main():
        return await asyncio.gather(*(double(number) for number in range(20)))

    assert run(main()) == [number * 2 for number in range(20)]
    assert max(map(len, lists)) == 8
    assert sum(map(len, lists)) == 20
    assert (double.__name__, double.__doc__) == ("double", "Twice.")


def test_a_plain_function_runs_beside_the_loop_and_gathers_while_it_is_busy():
    gated = Gated()
    call = xirang.batch(max_batch_size=8)(gated)

    async def main():
        first = asyncio.create_task(call(1))
        await gated.until_entered()
        others = [asyncio.create_task(call(number)) for number in (2, 3, 4)]
        await pass_turns()
        gated.open.set()
        return await asyncio.gather(first, *others)

    assert run(main()) == [2, 4, 6, 8]
    assert gated.calls[0] == [1]
    assert sorted(gated.calls[1]) == [2, 3, 4]


@pytest.mark.parametrize("is_async", [False, True])
def test_only_the_guilty_items_caller_gets_the_error(is_async):
    def inverse(items):
        return [1 / item for item in items]

    async def inverse_async(items):
        return inverse(items)

    call = xirang.batch()(inverse_async if is_async else inverse)

    async def main():
        return await asyncio.gather(*(call(item) for item in (1, 2, 0, 4)), return_exceptions=True)

    one, half, error, quarter = run(main())
    assert (one, half, quarter) == (1, 0.5, 0.25)
    assert isinstance(error, ModelFailed)
    assert "raised ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_coroutine_that_cancels_itself_is_a_fault_and_not_the_end():
    @xirang.batch()
    async def give_up_on_zero(items):
        if 0 in items:
            raise asyncio.CancelledError
        return items

    async def main():
        return await asyncio.gather(*map(give_up_on_zero, (1, 0, 2)), return_exceptions=True)

    one, error, two = run(main())
    assert (one, two) == (1, 2)
    assert isinstance(error, ModelFailed)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("wrong", [[1, 2, 3], [], None, "ab", 7])
def test_another_length_than_that_of_the_list_is_an_error_that_says_so(wrong, is_async):
    def function(items):
        return wrong

    async def function_async(items):
        return wrong

    call = xirang.batch()(function_async if is_async else function)
    with pytest.raises(ModelFailed, match="expected a list of 1"):
        run(call(1))


def test_a_function_that_is_wrong_only_for_lists_still_answers_single_items():
    @xirang.batch()
    async def first_only(items):
        return items[:1]

    async def main():
        return await asyncio.gather(*(first_only(number) for number in range(4)))

    assert run(main()) == [0, 1, 2, 3]


def test_errors_given_as_results_reach_their_own_callers():
    @xirang.batch()
    async def judge(items):
        return [xirang.InvalidRequest(f"no {item}") if item < 0 else item for item in items]

    async def main():
        return await asyncio.gather(judge(1), judge(-1), return_exceptions=True)

    well, error = run(main())
    assert well == 1
    assert isinstance(error, xirang.InvalidRequest)


def test_a_cancelled_call_is_never_executed():
    gated = Gated()
    call = xirang.batch()(gated)

    async def main():
        running = asyncio.create_task(call(1))
        await gated.until_entered()
        gone, kept = asyncio.create_task(call(2)), asyncio.create_task(call(3))
        await pass_turns()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        gated.open.set()
        return await asyncio.gather(running, kept)

    assert run(main()) == [2, 6]
    assert gated.calls == [[1], [3]]


def test_a_call_whose_caller_left_while_it_ran_harms_nobody():
    gated = Gated()
    call = xirang.batch()(gated)

    async def main():
        running = asyncio.create_task(call(1))
        await gated.until_entered()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gated.open.set()
        return await call(2)

    assert run(main()) == 4


def test_a_spent_budget_is_an_error_while_the_function_is_busy():
    gated = Gated()
    call = xirang.batch(budget_ms=10_000)(gated)

    async def main():
        running = asyncio.create_task(call(1))
        await gated.until_entered()
        with pytest.raises(Expired, match="budget of 20 ms"):
            await call(2, budget_ms=20)
        assert not running.done()
        with pytest.raises(Expired, match="before the request arrived"):
            await call(3, budget_ms=0)
        gated.open.set()
        return await running

    assert run(main()) == 2
    assert gated.calls == [[1]]


def test_a_full_queue_turns_away():
    gated = Gated()
    call = xirang.batch(queue=1)(gated)

    async def main():
        running = asyncio.create_task(call(1))
        await gated.until_entered()
        waiting = asyncio.create_task(call(2))
        await pass_turns()
        with pytest.raises(TooBusy):
            await call(3)
        gated.open.set()
        return await asyncio.gather(running, waiting)

    assert run(main()) == [2, 4]


def test_more_important_calls_go_first():
    gated = Gated()
    call = xirang.batch(max_batch_size=1)(gated)

    async def main():
        tasks = [asyncio.create_task(call(1))]
        await gated.until_entered()
        tasks += [
            asyncio.create_task(call(2, priority=3)),
            asyncio.create_task(call(3, priority=1)),
        ]
        await pass_turns()
        gated.open.set()
        await asyncio.gather(*tasks)

    run(main())
    assert gated.calls == [[1], [3], [2]]


@pytest.mark.parametrize("is_async", [False, True])
def test_one_function_serves_several_loops_one_after_the_other(is_async):
    def double(items):
        return [item * 2 for item in items]

    async def double_async(items):
        return double(items)

    call = xirang.batch()(double_async if is_async else double)
    assert [run(call(number)) for number in (1, 2, 3)] == [2, 4, 6]


def test_loops_that_are_closed_leave_no_threads_behind():
    def count_threads(items):
        names = [thread.name for thread in threading.enumerate()]
        return [names.count("count_threads-0") for _ in items]

    call = xirang.batch()(count_threads)
    counts = []
    for _ in range(4):
        counts.append(run(call(1)))
        gc.collect()
    assert counts == [1, 1, 1, 1]


def test_one_function_serves_several_loops_at_once():
    meeting = threading.Barrier(2)

    @xirang.batch()
    def meet(items):
        meeting.wait(DEADLINE_S)
        return items

    results = []

    def call_from_own_loop(item):
        results.append(run(meet(item)))

    threads = [threading.Thread(target=call_from_own_loop, args=(item,)) for item in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(results) == [1, 2]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch_size": 0},
        {"queue": 0},
        {"window_ms": -1},
        {"window_ms": 50, "budget_ms": 50},
        {"budget_ms": 0},
        {"budget_ms": float("nan")},
        {"budget_ms": float("inf")},
        {"efficiency": 1.5},
        {"efficiency": -0.1},
    ],
    ids=str,
)
def test_impossible_settings_are_refused_at_decoration(settings):
    with pytest.raises(InvalidSetting, match="expected sizes of at least 1"):
        xirang.batch(**settings)
