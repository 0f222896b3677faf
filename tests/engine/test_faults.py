"""One request's fault stays its own: what happens when a model raises or returns nonsense."""

import numpy as np
import pytest
from tests.support.asking import ask, finish_all
from tests.support.puppets import MaskedDouble, PuppetHouse

from xirang.backends.executable import OutOfMemory
from xirang.errors import InvalidRequest, ModelFailed


class Faulty(MaskedDouble):
    """A MaskedDouble whose outputs pass through `spoil(inputs, outputs)`."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def run(self, inputs, wanted):
        return self.spoil(inputs, super().run(inputs, wanted))


def house_of(spoil):
    plain = PuppetHouse.with_masked_double()
    return PuppetHouse(Faulty(spoil), plain.model.signature, plain.model.policy)


def in_one_batch(house, rows):
    """All rows wait while the instance is busy, so that they share the next run."""
    first = ask(house, [1] * len(rows[0]))
    house.step()
    asked = [ask(house, row) for row in rows]
    finish_all(house)
    first.check_right()
    assert house.puppet.runs[1].rows == len(rows)
    house.check()
    return asked


@pytest.mark.parametrize("guilty", range(8))
def test_a_batch_that_raises_is_halved_until_the_guilty_one_stands_alone(guilty):
    house = PuppetHouse.with_masked_double()
    rows = [[13 if number == guilty else number + 20] for number in range(8)]
    asked = in_one_batch(house, rows)
    for number, one in enumerate(asked):
        if number == guilty:
            assert isinstance(one.error, ModelFailed)
            assert str(one.error) == "model 'm' raised ValueError: thirteen"
        else:
            one.check_right()
    # 8, 4 + 4, 2 + 2, 1 + 1: both halves at each of three levels.
    assert len(house.executable.shapes) == 1 + 1 + 2 * 3
    statistics = house.engine.statistics("m")["model_stats"][0]["inference_stats"]
    assert (statistics["success"]["count"], statistics["fail"]["count"]) == (8, 1)


def test_several_guilty_ones_each_get_their_error():
    house = PuppetHouse.with_masked_double()
    asked = in_one_batch(house, [[13], [2], [3], [13], [5]])
    guilty = [isinstance(one.replies[0], ModelFailed) for one in asked]
    assert guilty == [True, False, False, True, False]
    for one in (asked[1], asked[2], asked[4]):
        one.check_right()


def test_a_server_goes_on_after_a_fault():
    house = PuppetHouse.with_masked_double()
    in_one_batch(house, [[13], [2]])
    later = ask(house, [7])
    finish_all(house)
    later.check_right()


def test_a_fault_teaches_the_cost_model_nothing():
    house = PuppetHouse.with_masked_double()
    before = house.model.cost.observations
    in_one_batch(house, [[13], [2]])
    assert house.model.cost.observations == before + 1, "only the first run, which was well"


def test_a_model_that_returns_another_number_of_rows_is_run_singly():
    def first_row_only(_, outputs):
        return {name: array[:1] for name, array in outputs.items()}

    house = house_of(first_row_only)
    asked = in_one_batch(house, [[2], [3], [4]])
    for one in asked:
        one.check_right()
    assert house.executable.shapes[1:] == [(3, 1), (1, 1), (2, 1), (1, 1), (1, 1)]


def test_a_fault_that_passes_harms_nobody():
    calls = []

    def third_time_lucky(_, outputs):
        calls.append(1)
        if len(calls) == 2:
            raise MemoryError("for a moment")
        return outputs

    asked = in_one_batch(house_of(third_time_lucky), [[2], [3]])
    for one in asked:
        one.check_right()


def test_what_the_model_refuses_is_the_clients_fault():
    def refuse_large(inputs, outputs):
        if (inputs["ids"] > 30).any():
            raise InvalidRequest("the model refused its input: an id above 30")
        return outputs

    large, small = in_one_batch(house_of(refuse_large), [[31], [2]])
    small.check_right()
    assert (large.error.status, str(large.error)) == (
        400,
        "the model refused its input: an id above 30",
    )


def test_a_missing_output_is_a_fault_of_the_model():
    def lose_total(_, outputs):
        return {"doubled": outputs["doubled"]}

    house = house_of(lose_total)
    asked = ask(house, [1])
    finish_all(house)
    assert str(asked.error) == (
        "model 'm' raised WrongOutputError: output 'total' is missing; expected INT64"
    )


def test_an_output_of_another_datatype_is_a_fault_of_the_model():
    def as_floats(_, outputs):
        return outputs | {"total": outputs["total"].astype(np.float32)}

    house = house_of(as_floats)
    asked = ask(house, [1])
    finish_all(house)
    assert str(asked.error) == (
        "model 'm' raised WrongOutputError: output 'total' is float32 of shape (1, 1); "
        "expected INT64"
    )


def test_answers_are_copies_of_nobody_elses_rows():
    house = PuppetHouse.with_masked_double()
    asked = in_one_batch(house, [[2, 3], [4, 5]])
    one, other = (a.answer.outputs["doubled"] for a in asked)
    assert not np.shares_memory(one, other)


@pytest.mark.parametrize("error", [OutOfMemory, MemoryError])
def test_a_run_without_room_is_halved_and_later_ones_stay_below(error):
    def little_room(inputs, outputs):
        if inputs["ids"].size > 8:
            raise error("no room")
        return outputs

    house = house_of(little_room)
    for one in in_one_batch(house, [[2, 3]] * 8):
        one.check_right()
    # 16 elements had no room; 8 are the most from now on.
    first = ask(house, [1, 1])
    house.step()
    asked = [ask(house, [4, 5]) for _ in range(8)]
    finish_all(house)
    for one in (first, *asked):
        one.check_right()
    assert [run.elements for run in house.puppet.runs[-2:]] == [8, 8]


def test_a_request_that_has_no_room_alone_is_told_so():
    def no_room(_, outputs):
        raise OutOfMemory("no room")

    house = house_of(no_room)
    asked = ask(house, [1])
    finish_all(house)
    assert str(asked.error) == "model 'm' raised OutOfMemory: no room"
