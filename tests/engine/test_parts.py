"""Requests of more rows than a run may hold: cut, run in parts, joined."""

import numpy as np
import pytest
from tests.support.asking import MS, ask, finish, finish_all
from tests.support.puppets import PuppetHouse

from xirang.core.signature import Layout, Signature
from xirang.engine.extent import Extent, Shapes
from xirang.engine.parts import cut_rows
from xirang.errors import Cancelled, Expired, ModelFailed, TooBusy
from xirang.tensors.tensor import of_array, to_array

SIGNATURE = Signature((), (), True, {"state": Layout(batch_axis=1), "rate": Layout(None)})


def rows_from(first, count):
    return [[first + number, 1] for number in range(count)]


def test_rows_are_cut_into_full_parts_and_a_rest_without_copying():
    array = np.arange(14).reshape(7, 2)
    words = np.array([[b"a"], [b"b"], [b"c"], [b"d"], [b"e"], [b"f"], [b"g"]], object)
    inputs = {"x": of_array(array), "words": of_array(words)}
    parts = cut_rows(inputs, Extent(7, 2, "group"), 3, SIGNATURE)
    assert [extent for _, extent in parts] == [Extent(n, 2, "group") for n in (3, 3, 1)]
    assert np.concatenate([to_array(part["x"]) for part, _ in parts]).tolist() == array.tolist()
    assert np.concatenate([to_array(part["words"]) for part, _ in parts]).tolist() == words.tolist()
    assert np.shares_memory(to_array(parts[0][0]["x"]), array)


def test_rows_on_another_axis_are_cut_there_and_shared_inputs_not_at_all():
    state, rate = np.arange(24).reshape(2, 4, 3), np.array(16_000)
    inputs = {"state": of_array(state), "rate": of_array(rate)}
    parts = cut_rows(inputs, Extent(4, 1, None), 3, SIGNATURE)
    cut = [to_array(part["state"]) for part, _ in parts]
    assert [part.shape for part in cut] == [(2, 3, 3), (2, 1, 3)]
    assert np.concatenate(cut, axis=1).tolist() == state.tolist()
    assert [to_array(part["rate"]).tolist() for part, _ in parts] == [16_000, 16_000]


@pytest.mark.parametrize("count", [9, 16, 17])
def test_a_large_request_is_answered_once_with_all_rows_in_order(count):
    house = PuppetHouse.with_masked_double()
    asked = ask(house, *rows_from(20, count))
    house.step()
    house.advance(3 * MS)
    finish_all(house)
    asked.check_right()
    assert all(run.rows <= 8 for run in house.puppet.runs)
    assert len(house.puppet.runs) == -(-count // 8)
    assert asked.answer.queue_ns == 0
    house.check()


def test_parts_share_runs_with_others():
    house = PuppetHouse.with_masked_double()
    running = ask(house, [1])
    house.step()
    large, small = ask(house, *rows_from(20, 12)), ask(house, [3, 4])
    finish_all(house)
    for asked in (running, large, small):
        asked.check_right()
    assert sorted(run.rows for run in house.puppet.runs[1:]) == [5, 8]


def test_the_first_error_is_the_answer_and_the_rest_is_cancelled():
    house = PuppetHouse.with_masked_double()
    asked = ask(house, *rows_from(20, 7), [13, 1], *rows_from(40, 10))
    house.step()
    finish(house)
    assert isinstance(asked.error, ModelFailed)
    executed = len(house.executable.shapes)
    finish_all(house)
    assert len(house.executable.shapes) == executed, "nothing more of it was run"
    assert len(asked.replies) == 1
    assert metric(house, "xirang_cancelled_total") == 2
    house.check()


def test_a_part_that_expires_takes_the_others_along():
    house = PuppetHouse.with_masked_double()
    running = ask(house, [1])
    house.step()
    large = ask(house, *rows_from(20, 20), budget_ms=30)
    house.advance(31 * MS)
    assert isinstance(large.error, Expired)
    finish_all(house)
    running.check_right()
    assert len(house.executable.shapes) == 1
    house.check()


def test_cancelling_takes_every_waiting_part_out():
    house = PuppetHouse.with_masked_double()
    asked = ask(house, *rows_from(20, 20))
    house.step()
    asked.ticket.cancel()
    assert isinstance(asked.error, Cancelled)
    finish_all(house)
    assert len(asked.replies) == 1
    assert len(house.executable.shapes) == 1, "only the part that ran already"
    house.check()


def test_a_large_request_that_does_not_fit_the_queue_leaves_nothing_behind():
    house = PuppetHouse.with_masked_double(depth_max=2)
    running = ask(house, [1])
    house.step()
    with pytest.raises(TooBusy):
        ask(house, *rows_from(20, 24))
    finish_all(house)
    running.check_right()
    assert len(house.executable.shapes) == 1
    house.check()


def metric(house, name):
    (line,) = [s for s in house.engine.metrics_text().splitlines() if s.startswith(name + "{")]
    return float(line.split()[-1])


@pytest.mark.parametrize("count", [2, 9])
@pytest.mark.parametrize("length", [4, 5])
def test_whether_a_request_was_cut_is_told_with_its_answer(count, length):
    shapes = Shapes((0,), length_max=4, can_crop=True)
    house = PuppetHouse.with_masked_double(shapes=shapes)
    asked = ask(house, *[range(20, 20 + length)] * count)
    house.step()
    house.advance(3 * MS)
    finish_all(house)
    assert asked.answer.is_cropped == (length > 4)
    assert asked.answer.outputs["doubled"].shape == (count, 4)
