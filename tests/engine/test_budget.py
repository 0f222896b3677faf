"""A budget runs from the head of a request, not from where the engine first hears of it."""

from itertools import count

import pytest
from tests.support.asking import MS, ask, finish
from tests.support.puppets import PuppetHouse

from xirang.errors import Expired


@pytest.fixture
def house():
    """At 100 ms, with an idle device."""
    house = PuppetHouse.with_masked_double()
    house.advance(100 * MS)
    return house


def test_time_in_the_door_counts(house):
    asked = ask(house, [1, 2], budget_ms=50, arrival_ns=70 * MS)
    house.step()
    (run,) = house.puppet.runs
    (request,) = run.requests
    assert (request.arrival_ns, request.deadline_ns) == (70 * MS, 120 * MS)
    finish(house)
    asked.check_right()
    assert asked.answer.queue_ns == 30 * MS


def test_a_budget_that_was_spent_in_the_door_is_refused_at_once(house):
    with pytest.raises(Expired, match="spent before the request arrived"):
        ask(house, [1], budget_ms=50, arrival_ns=50 * MS)
    assert not house.puppet.runs
    house.check()


def test_a_request_expires_at_its_deadline_however_late_it_came_in(house):
    ask(house, [1])
    house.step()
    late = ask(house, [2], budget_ms=50, arrival_ns=60 * MS)
    house.advance(10 * MS)
    assert isinstance(late.error, Expired)
    assert "the budget of 50 ms" in str(late.error)
    finish(house)


def test_the_parts_of_a_large_request_share_what_it_was_asked_with():
    house = PuppetHouse.with_masked_double(max_batch_size=2)
    house.advance(100 * MS)
    asked = ask(house, [1], [2], [3], budget_ms=500, arrival_ns=70 * MS, priority=1)
    house.step()
    finish(house)
    house.step()
    finish(house)
    requests = [request for run in house.puppet.runs for request in run.requests]
    told = {(each.arrival_ns, each.deadline_ns, each.priority) for each in requests}
    assert told == {(70 * MS, 570 * MS, 1)}
    assert len(requests) == 2
    asked.check_right()


def test_an_answer_tells_how_long_its_run_took_to_assemble_and_to_split(house):
    asked = ask(house, [1])
    house.step()
    ticks = count(house.clock.time_ns, 1000)
    house.clock.now_ns = lambda: next(ticks)
    finish(house)
    assert (asked.answer.ran.assemble_ns, asked.answer.ran.split_ns) == (1000, 1000)
