"""The driver's timers, on a clock that moves only when the test says so."""

from tests.support.asking import MS, ask, finish, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.run import Trigger
from xirang.errors import Cancelled, Expired


def house_that_waits(**changes):
    """Instance free, two requests waiting for company: arrived at 1 and 2 ms, window 5 ms."""
    house = PuppetHouse.with_masked_double(efficiency=1.0, window_ns_max=5 * MS, **changes)
    ask(house, [1])
    house.advance(1 * MS)
    second = ask(house, [2])
    house.advance(1 * MS)
    third = ask(house, [3])
    house.advance(1 * MS)
    finish(house)
    assert len(house.puppet.runs) == 1
    return house, second, third


def latest_start_ns(house, *, arrival_ns, budget_ms, length=1):
    """When a row's slack is gone."""
    return arrival_ns + budget_ms * MS - house.model.cost.predict_ns(rows=1, length=length)


def test_a_window_counts_from_the_oldest_arrival_and_ends_at_its_instant():
    house, second, third = house_that_waits()
    assert house.loop.next_timer_ns() == 6 * MS
    house.advance(3 * MS - 1)
    assert len(house.puppet.runs) == 1
    house.advance(1)
    run = house.puppet.runs[1]
    assert (run.trigger, run.start_ns, run.rows) == (Trigger.WINDOW, 6 * MS, 2)
    finish(house)
    second.check_right()
    third.check_right()
    house.check()


def test_when_the_oldest_is_cancelled_the_window_is_the_next_ones():
    house, second, third = house_that_waits()
    second.ticket.cancel()
    house.step()
    assert isinstance(second.error, Cancelled)
    house.advance(3 * MS)
    assert len(house.puppet.runs) == 1, "the earlier timer found nothing due"
    assert house.loop.next_timer_ns() == 7 * MS
    house.advance(1 * MS)
    assert (house.puppet.runs[1].start_ns, house.puppet.runs[1].rows) == (7 * MS, 1)
    finish(house)
    third.check_right()


def test_a_tight_deadline_draws_the_timer_nearer_and_the_later_timer_is_cancelled():
    house, second, third = house_that_waits()
    (window_timer,) = [timer for timer in house.loop.timers if timer.due_ns == 6 * MS]
    tight = ask(house, [4], budget_ms=5)
    house.step()
    due_ns = house.loop.next_timer_ns()
    assert 3 * MS < due_ns < 6 * MS
    assert window_timer.is_cancelled
    house.advance(due_ns - house.clock.time_ns)
    run = house.puppet.runs[1]
    assert (run.trigger, run.start_ns, run.rows) == (Trigger.DEADLINE, due_ns, 3)
    finish(house)
    for asked in (second, third, tight):
        asked.check_right()


def test_enough_company_ends_the_window_at_once():
    house, second, _ = house_that_waits(max_batch_size=4)
    fourth, fifth = ask(house, [4]), ask(house, [5])
    house.step()
    run = house.puppet.runs[1]
    assert (run.trigger, run.start_ns, run.rows) == (Trigger.THRESHOLD, 3 * MS, 4)
    finish(house)
    for asked in (second, fourth, fifth):
        asked.check_right()


def test_a_lone_request_on_an_idle_server_leaves_in_the_same_iteration():
    house = PuppetHouse.with_masked_double(efficiency=1.0, window_ns_max=500 * MS)
    lone = ask(house, [1, 2])
    house.step()
    assert (house.puppet.runs[0].trigger, house.clock.time_ns) == (Trigger.ALONE, 0)
    finish(house)
    lone.check_right()


def test_an_expired_request_is_answered_at_its_instant_while_the_device_is_busy():
    house = PuppetHouse.with_masked_double()
    running = ask(house, [1])
    house.step()
    house.advance(1 * MS)
    hopeless = ask(house, [2], budget_ms=20)
    house.step()
    latest_ns = latest_start_ns(house, arrival_ns=1 * MS, budget_ms=20)
    assert house.loop.next_timer_ns() == latest_ns + 1
    house.advance(latest_ns - house.clock.time_ns)
    assert hopeless.replies == [], "at its latest start it could still be on time"
    house.advance(1)
    assert isinstance(hopeless.error, Expired)
    assert "20 ms" in str(hopeless.error)
    assert (hopeless.error.status, running.replies) == (504, [])

    finish_all(house)
    running.check_right()
    assert len(house.executable.shapes) == 1, "the expired request was never executed"
    house.check()


def test_requests_expire_each_at_its_own_instant():
    house = PuppetHouse.with_masked_double()
    running = ask(house, [1])
    house.step()
    waiting = {budget_ms: ask(house, [2], budget_ms=budget_ms) for budget_ms in (40, 20, 30)}
    house.step()
    for budget_ms in sorted(waiting):
        due_ns = latest_start_ns(house, arrival_ns=0, budget_ms=budget_ms) + 1
        assert house.loop.next_timer_ns() == due_ns
        house.advance(due_ns - house.clock.time_ns)
        assert isinstance(waiting.pop(budget_ms).error, Expired)
        assert all(not asked.replies for asked in waiting.values())
    finish_all(house)
    running.check_right()


def test_requests_of_one_iteration_share_one_turn():
    house = PuppetHouse.with_masked_double()
    for number in range(5):
        ask(house, [number])
    assert len(house.loop.ready) == 1
    house.step()
    assert house.puppet.runs[0].rows == 5


def test_a_cancelled_request_leaves_its_lane_and_is_never_executed():
    house = PuppetHouse.with_masked_double()
    running = ask(house, [1])
    house.step()
    gone, kept = ask(house, [2]), ask(house, [3])
    gone.ticket.cancel()
    assert isinstance(gone.error, Cancelled)
    finish_all(house)
    running.check_right()
    kept.check_right()
    assert house.executable.shapes == [(1, 1), (1, 1)]
    gone.ticket.cancel()
    assert len(gone.replies) == 1, "cancelling twice says nothing twice"
    house.check()


def test_a_cancelled_running_request_runs_on_and_its_answer_is_dropped():
    house = PuppetHouse.with_masked_double()
    first, second = ask(house, [1]), ask(house, [2])
    house.step()
    assert house.puppet.runs[0].rows == 2
    first.ticket.cancel()
    finish_all(house)
    assert first.replies == []
    second.check_right()
    second.ticket.cancel()
    assert len(second.replies) == 1
    house.check()


def test_a_drain_lets_the_waiting_go_at_once():
    house, second, third = house_that_waits()
    house.engine.traffic.driver.drain()
    house.step()
    assert (house.puppet.runs[1].trigger, house.puppet.runs[1].start_ns) == (Trigger.DRAIN, 3 * MS)
    finish_all(house)
    second.check_right()
    third.check_right()
