"""What a pressed server does without: functions that are off, and models that stand in."""

import pytest
from tests.support.asking import MS, ask, masked_inputs
from tests.support.puppets import PuppetHouse, PuppetInstance

from xirang.core.event import Function, OverloadChanged
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.cache import AnswerCache
from xirang.engine.call import Call
from xirang.engine.model import Model
from xirang.engine.work import TensorWork
from xirang.errors import InvalidRequest, InvalidSetting


@pytest.fixture
def house():
    house = PuppetHouse.with_masked_double()
    house.model.stand_in = "cheap"
    return house


def serve(house, name="cheap", *, lanes=None, **changes):
    """One more model in the house, like the first one save for what changes."""
    first = house.model
    fields = {"executable": first.executable, "signature": first.signature} | changes
    model = Model(
        name=name, policy=first.policy, cost=first.cost, budget_ns=7 * MS, version="3", **fields
    )

    def make(_name, post):
        house.puppets.append(PuppetInstance(TensorWork(model, model.executable), post))
        return house.puppets[-1]

    house.engine.add_lanes(lanes or name, model.policy, model.cost, make, model=model)
    return model


def work_off(house):
    """Until nothing waits."""
    house.step()
    while any(puppet.waiting for puppet in house.puppets):
        for puppet in house.puppets:
            while puppet.waiting:
                puppet.finish()
        house.step()


def press(house, *off, device="cpu"):
    level = 3 if off else 0
    house.engine.economy.note(OverloadChanged(device, level, off, 0))


def test_functions_are_off_while_some_device_says_so(house):
    assert not house.engine.is_off(Function.TIMING)
    press(house, Function.TIMING)
    press(house, Function.TIMING, Function.RECORDER, device="other")
    assert house.engine.is_off(Function.RECORDER)
    press(house, device="other")
    assert house.engine.is_off(Function.TIMING)
    assert not house.engine.is_off(Function.RECORDER)
    press(house)
    assert not house.engine.is_off(Function.TIMING)


def test_the_stand_in_answers_at_the_last_step_and_the_answer_says_so(house):
    serve(house)
    press(house, Function.TIMING)
    own = ask(house, [1, 2])
    press(house, *Function)
    instead = ask(house, [3, 4])
    work_off(house)
    assert [len(puppet.runs) for puppet in house.puppets] == [1, 1]
    own.check_right()
    instead.check_right()
    assert (own.answer.stand_in, own.answer.version) == ("", "1")
    assert (instead.answer.stand_in, instead.answer.version) == ("cheap", "3")


def test_a_large_request_is_marked_too(house):
    serve(house)
    press(house, *Function)
    large = ask(house, *[[number, 1] for number in range(20, 40)])
    work_off(house)
    large.check_right()
    assert large.answer.stand_in == "cheap"


def test_who_brings_no_budget_keeps_that_of_the_model_that_was_asked_for(house):
    serve(house)
    press(house, *Function)
    replies = []
    house.engine.submit(Call("m", masked_inputs([[1]]), replies.append))
    work_off(house)
    ((request,),) = [run.requests for run in house.puppets[1].runs]
    assert request.deadline_ns - request.arrival_ns == 1000 * MS
    assert replies[0].stand_in == "cheap"


def test_what_the_stand_in_cannot_take_or_do_goes_to_the_full_model(house):
    press(house, *Function)
    unserved = ask(house, [1])
    signature = house.model.signature
    other = Signature(
        (TensorSpec("ids", "INT64", ("batch", 2)), *signature.inputs[1:]),
        signature.outputs,
        True,
    )
    serve(house, signature=other)
    too_long = ask(house, [1, 2, 3])
    work_off(house)
    for asked in (unserved, too_long):
        asked.check_right()
        assert asked.answer.stand_in == ""


def test_a_stand_in_that_is_not_served_is_refused(house):
    with pytest.raises(InvalidSetting, match="degrade_to of 'm' is 'cheap', which is not served"):
        house.engine.economy.check()
    serve(house)
    house.engine.economy.check()


def test_a_stand_in_of_another_form_is_refused(house):
    signature = house.model.signature
    serve(house, signature=Signature(signature.inputs, signature.outputs[:1], True))
    with pytest.raises(InvalidSetting, match="takes or gives other tensors"):
        house.engine.economy.check()


def shorten(house, length):
    """The model reads so much of long requests at the last step."""
    house.model.length_degraded = length
    house.model.__post_init__()


def test_the_head_of_a_long_request_is_read_at_the_last_step_and_the_answer_says_so(house):
    house.model.stand_in = ""
    shorten(house, 3)
    whole = ask(house, [1, 2, 3, 4, 5])
    press(house, *Function)
    head, short = ask(house, [1, 2, 3, 4, 5]), ask(house, [6, 7])
    work_off(house)
    whole.check_right()
    short.check_right()
    assert (whole.answer.lacks, short.answer.lacks) == ("", "")
    assert head.answer.outputs["total"].tolist() == [[1 + 2 + 3]]
    assert head.answer.lacks == "length 3"


def test_a_long_request_may_be_shortened_and_go_to_the_stand_in(house):
    serve(house)
    shorten(house, 2)
    press(house, *Function)
    asked = ask(house, [1, 2, 3])
    work_off(house)
    assert asked.answer.outputs["total"].tolist() == [[3]]
    assert (asked.answer.stand_in, asked.answer.lacks) == ("cheap", "length 2, cheap")


def test_what_is_wrong_with_a_request_is_told_at_the_last_step_too(house):
    shorten(house, 2)
    press(house, *Function)
    with pytest.raises(InvalidRequest, match="missing inputs"):
        house.engine.submit(Call("m", {}, None))


def test_optional_outputs_are_left_out_unless_asked_for(house):
    house.model.optional_outputs = ("doubled",)
    house.model.__post_init__()
    press(house, Function.OPTIONAL_OUTPUTS)
    some, all_of_them = ask(house, [1, 2]), ask(house, [1, 2], outputs=("doubled", "total"))
    work_off(house)
    assert (list(some.answer.outputs), some.answer.lacks) == (["total"], "outputs")
    all_of_them.check_right()
    assert all_of_them.answer.lacks == ""


def test_a_stand_in_that_was_replaced_by_one_of_another_form_does_not_answer(house):
    serve(house)
    house.engine.economy.check()
    signature = house.model.signature
    less = Signature(signature.inputs, signature.outputs[:1], True)
    serve(house, lanes="cheap@2", signature=less)
    press(house, *Function)
    asked = ask(house, [1, 2])
    work_off(house)
    asked.check_right()
    assert asked.answer.stand_in == ""


def test_a_shortened_answer_is_not_kept_as_the_whole_one(house):
    house.model.stand_in, house.model.keeps_answers = "", True
    house.engine.cache = AnswerCache(1 << 20)
    shorten(house, 1)
    press(house, Function.FULL_MODEL)
    ask(house, [5, 6])
    work_off(house)
    press(house)
    asked = ask(house, [5, 6])
    work_off(house)
    asked.check_right()
