"""Requests to a model under Triton's rules: their level, their budget, their turn."""

import pytest
from tests.support.asking import MS, ask
from tests.support.puppets import PuppetHouse

from xirang.core.request import NEVER_NS
from xirang.core.rules import BatcherRules, QueueRules
from xirang.errors import Cancelled, Expired, ModelFailed, TooBusy


def house_of(rules, **changes):
    return PuppetHouse.with_masked_double(batcher=rules, can_pad=False, **changes)


def runs(house):
    return [run for puppet in house.puppets for run in puppet.runs]


@pytest.mark.parametrize(("asked", "level"), [(0, 4), (1, 1), (5, 5), (6, 4)])
def test_levels_are_the_configurations_own(asked, level):
    house = house_of(BatcherRules(levels=5, level_default=4))
    ask(house, [1], priority=asked)
    house.step()
    assert runs(house)[0].requests[0].priority == level


def test_without_rules_there_are_three_priorities():
    house = PuppetHouse.with_masked_double()
    for asked in (0, 1, 9):
        ask(house, [1], priority=asked)
    house.step()
    priorities = {request.priority for run in runs(house) for request in run.requests}
    waiting = {pending.request.priority for pending in house.engine.traffic.pending.values()}
    assert priorities | waiting == {1, 2, 3}


@pytest.mark.parametrize(
    ("queue", "budget_ns"),
    [
        (QueueRules(), NEVER_NS),
        (QueueRules(timeout_ns=700 * MS), 700 * MS),
        (QueueRules(timeout_ns=700 * MS, can_override=True), 50 * MS),
    ],
)
def test_a_budget_of_its_own_counts_only_where_it_may(queue, budget_ns):
    house = house_of(BatcherRules(queue=queue))
    ask(house, [1], budget_ms=50)
    house.step()
    (request,) = runs(house)[0].requests
    assert request.deadline_ns - request.arrival_ns == budget_ns


def test_a_full_level_and_a_timeout_are_told_in_tritons_words():
    house = house_of(BatcherRules(queue=QueueRules(timeout_ns=10 * MS, depth_max=1)))
    ask(house, [1])
    house.step()
    waiting = ask(house, [2])
    house.step()
    with pytest.raises(TooBusy, match="Exceeds maximum queue size"):
        ask(house, [3])
    house.advance(10 * MS + 1)
    assert isinstance(waiting.error, Expired)
    assert str(waiting.error).startswith("Request timeout expired")


def ordered():
    """Two instances, each with a request of its own; the second is ready first."""
    house = house_of(BatcherRules(is_ordered=True), instances=2)
    asked = []
    for row in ([1], [2]):
        asked.append(ask(house, row))
        house.step()
    return house, *asked


def test_answers_leave_in_the_order_of_requests():
    house, first, second = ordered()
    house.puppets[1].finish()
    assert not second.replies
    house.puppets[0].finish()
    first.check_right()
    second.check_right()
    house.check()


def test_who_went_away_holds_up_nobody():
    house, first, second = ordered()
    house.puppets[1].finish()
    first.ticket.cancel()
    house.puppets[0].finish()
    assert not first.replies
    second.check_right()


def test_who_leaves_the_queue_holds_up_nobody():
    house, first, second = ordered()
    third, fourth = ask(house, [3]), ask(house, [4, 5])
    house.step()
    third.ticket.cancel()
    assert isinstance(third.error, Cancelled)
    for puppet in house.puppets:
        puppet.finish()
    house.step()
    house.puppets[0].finish()
    for asked in (first, second, fourth):
        asked.check_right()
    house.check()


def test_errors_wait_for_their_turn_too():
    house = house_of(BatcherRules(is_ordered=True), instances=2)
    first, second = ask(house, [1]), None
    house.step()
    second = ask(house, [13])
    house.step()
    house.puppets[1].finish()
    assert not second.replies
    house.puppets[0].finish()
    first.check_right()
    assert isinstance(second.error, ModelFailed)
