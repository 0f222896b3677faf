"""However requests are batched, and whatever may be padded, the answers are the same."""

import pytest
from tests.support.asking import ask, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.policy import Batching

ROWS = [
    [[1]],
    [[2, 3]],
    [[4, 5, 6], [7, 8, 9]],
    [[10] * 40],
    [[11]],
    [[12, 14], [15, 16], [17, 18]],
]


@pytest.mark.parametrize("batching", Batching)
@pytest.mark.parametrize("can_pad", [True, False])
@pytest.mark.parametrize("instances", [1, 2])
def test_every_answer_is_the_models_own(batching, can_pad, instances):
    house = PuppetHouse.with_masked_double(
        batching=batching, can_pad=can_pad, instances=instances, max_batch_size=4
    )
    asked = [ask(house, *rows) for rows in ROWS * 3]
    house.step()
    while any(puppet.waiting for puppet in house.puppets):
        for puppet in house.puppets:
            if puppet.waiting:
                puppet.finish()
        house.step()
    finish_all(house)
    for one in asked:
        one.check_right()
    runs = [run for puppet in house.puppets for run in puppet.runs]
    if batching is Batching.OFF:
        assert all(len(run.requests) == 1 for run in runs)
    if not can_pad:
        assert all(run.padding == 0 for run in runs)
    house.check()
