"""The first test to read: one request walks the whole corridor, a step at a time.

No clock runs and no thread starts: the loop is stepped by hand, and the model's one instance is a
puppet that runs when it is told.
"""

import numpy as np
from tests.support.puppets import PuppetHouse

from xirang.core.run import Trigger
from xirang.engine.call import Answer, Call
from xirang.tensors.tensor import of_array

MS = 1_000_000


def call(house, ids, *, budget_ms=100):
    row = np.array([ids], np.int64)
    answers = []
    inputs = {"ids": of_array(row), "attention_mask": of_array(np.ones_like(row))}
    house.engine.submit(Call("m", inputs, answers.append, budget_ns=budget_ms * MS))
    return answers


def test_a_request_walks_the_corridor():
    house = PuppetHouse.with_masked_double()

    # A door decodes bytes into a Call and submits it: the scheduler files it, nothing runs yet.
    first = call(house, [1, 2, 3])
    assert house.puppet.runs == []

    # At the end of the loop's iteration the driver takes a turn. The instance is idle and nobody
    # else is expected, so the request leaves alone, at once.
    house.step()
    (run,) = house.puppet.runs
    assert (run.rows, run.length, run.trigger) == (1, 3, Trigger.ALONE)

    # While the instance is busy three more come. They are bound late: no run is formed for them.
    second, third, outlier = call(house, [4]), call(house, [5, 6]), call(house, [7] * 400)
    house.step()
    assert len(house.puppet.runs) == 1

    # The first run ends: assembled, executed, split, answered; the instance is free again.
    house.advance(5 * MS)
    house.puppet.finish()
    house.step()
    assert first[0].outputs["doubled"].tolist() == [[2, 4, 6]]
    assert first[0].outputs["total"].tolist() == [[6]]

    # Now the waiting are cut into the cheapest padded runs: the two short ones share one, padded
    # to the longer, and the long outlier runs apart.
    run = house.puppet.runs[-1]
    assert (run.rows, run.length, run.padding) == (2, 2, 1)
    house.puppet.finish()
    house.step()
    assert second[0].outputs["doubled"].tolist() == [[8]]
    assert third[0].outputs["doubled"].tolist() == [[10, 12]]
    assert house.puppet.runs[-1].rows == 1
    house.puppet.finish()
    house.step()
    assert outlier[0].outputs["total"].tolist() == [[2800]]

    # Everybody got exactly one answer, and the scheduler holds nothing any more.
    assert [len(answers) for answers in (first, second, third, outlier)] == [1, 1, 1, 1]
    assert all(isinstance(answers[0], Answer) for answers in (first, second, third, outlier))
    house.check()
