"""Models made of models: steps, errors, cancellations and budgets, without a loop or threads."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.support.puppets import MS, PuppetHouse

from xirang.core.policy import Policy
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.call import Answer, Call
from xirang.engine.model import Model
from xirang.engine.pipeline import Pipeline, Step
from xirang.errors import Cancelled, Expired, ModelFailed, NotReady, XirangError
from xirang.tensors.tensor import of_array

IDS = {"ids": "ids", "attention_mask": "mask"}


class Composition:
    platform, is_reentrant, keeps_inputs = "ensemble", True, False

    def __init__(self, inputs, outputs):
        self.inputs, self.outputs = inputs, outputs


def house_of(*steps, outputs=("twice", "four times"), name="e"):
    """A house in which an ensemble of these steps is served beside its model `m`."""
    house = PuppetHouse.with_masked_double(window_ns_max=0)
    add(house, *steps, outputs=outputs, name=name)
    return house


def add(house, *steps, outputs, name):
    inputs = tuple(TensorSpec(each, "INT64", ("batch", "length")) for each in ("ids", "mask"))
    given_out = tuple(TensorSpec(each, "INT64", ("batch", None)) for each in outputs)
    house.engine.add(
        Model(
            name=name,
            executable=Composition(inputs, given_out),
            signature=Signature(inputs, given_out, True),
            policy=Policy(max_batch_size=8),
            budget_ns=1000 * MS,
            pipeline=Pipeline(steps),
        )
    )


def double(taken, given_out):
    return Step("m", "", {"ids": taken, "attention_mask": "mask"}, {"doubled": given_out})


CHAIN = (double("ids", "twice"), double("twice", "four times"))


def ask(house, *rows, model="e", budget_ms=1000, **fields):
    replies = []
    ids = np.array(rows, np.int64)
    inputs = {"ids": of_array(ids), "mask": of_array(np.ones_like(ids))}
    call = Call(model, inputs, replies.append, budget_ns=int(budget_ms * MS), **fields)
    return replies, house.engine.submit(call)


def finish(house):
    house.step()
    while house.puppet.waiting:
        house.clock.time_ns += MS
        house.puppet.finish()
        house.step()
    house.check()


def counted(house, name):
    (told,) = house.engine.statistics(name)["model_stats"]
    kinds = told["inference_stats"]
    return (
        told["inference_count"],
        told["execution_count"],
        kinds["success"]["count"],
        kinds["fail"]["count"],
    )


def test_one_step_after_another():
    house = house_of(*CHAIN)
    replies, _ = ask(house, [1, 2], [3, 4])
    finish(house)
    (answer,) = replies
    assert answer.outputs["twice"].tolist() == [[2, 4], [6, 8]]
    assert answer.outputs["four times"].tolist() == [[4, 8], [12, 16]]
    assert list(answer.outputs) == ["twice", "four times"]
    assert counted(house, "e") == (2, 1, 1, 0)
    assert counted(house, "m") == (4, 2, 2, 0)


def test_steps_that_wait_for_nothing_are_made_at_once_and_share_a_run():
    house = house_of(double("ids", "twice"), double("ids", "four times"))
    replies, _ = ask(house, [1])
    finish(house)
    assert replies[0].outputs["twice"].tolist() == replies[0].outputs["four times"].tolist()
    assert len(house.executable.shapes) <= 2


def test_only_what_is_needed_is_made():
    house = house_of(*CHAIN)
    replies, _ = ask(house, [1], outputs=("twice",))
    finish(house)
    assert list(replies[0].outputs) == ["twice"]
    assert len(house.executable.shapes) == 1


def test_an_input_may_be_handed_through():
    house = house_of(double("ids", "twice"), outputs=("twice", "ids"))
    replies, _ = ask(house, [5])
    finish(house)
    assert replies[0].outputs["ids"].tolist() == [[5]]


def test_ensembles_may_be_made_of_ensembles():
    house = house_of(*CHAIN)
    outer = Step("e", "", {"ids": "ids", "mask": "mask"}, {"four times": "x"})
    add(house, outer, double("x", "eight times"), outputs=("eight times",), name="outer")
    replies, _ = ask(house, [1], model="outer")
    finish(house)
    assert replies[0].outputs["eight times"].tolist() == [[8]]


def test_a_step_gets_what_is_left_of_the_budget_and_the_terms_of_the_whole():
    house = house_of(*CHAIN)
    ask(house, [1], budget_ms=100, priority=1, tenant="t", client=7, fast=False)
    house.step()
    house.clock.time_ns += 30 * MS
    house.puppet.finish()
    house.step()
    _, run = house.puppet.runs
    (request,) = run.requests
    assert (request.deadline_ns, request.arrival_ns) == (100 * MS, 30 * MS)
    assert (request.priority, request.tenant, request.client, request.fast) == (1, "t", 7, False)


def test_whose_budget_is_spent_on_the_way_expires():
    house = house_of(*CHAIN)
    replies, _ = ask(house, [1], budget_ms=20)
    house.step()
    house.clock.time_ns += 25 * MS
    house.puppet.finish()
    house.step()
    (error,) = replies
    assert isinstance(error, Expired)
    assert "in ensemble 'e', model 'm'" in str(error)
    assert house.engine.counts.models["e"].expired == 1
    assert counted(house, "e") == (0, 0, 0, 1)


def test_an_error_says_where_and_is_counted_as_no_execution():
    house = house_of(double("ids", "twice"), double("twice", "four times"))
    replies, _ = ask(house, [13])
    finish(house)
    (error,) = replies
    assert isinstance(error, ModelFailed)
    assert str(error) == "in ensemble 'e', model 'm': model 'm' raised ValueError: thirteen"
    assert counted(house, "e") == (0, 0, 0, 1)
    assert len(house.engine.traffic.pending) == 0


def test_a_model_that_is_gone_is_an_error_of_the_step():
    house = house_of(Step("gone", "", IDS, {"doubled": "twice"}), outputs=("twice",))
    replies, _ = ask(house, [1])
    (error,) = replies
    assert str(error).startswith("in ensemble 'e', model 'gone': Request for unknown model")
    assert error.status == 404


def test_who_goes_away_takes_all_steps_along():
    house = house_of(double("ids", "twice"), double("ids", "four times"))
    busy, _ = ask(house, [1], model="e")
    house.step()
    replies, ticket = ask(house, [2])
    house.step()
    ticket.cancel()
    ticket.cancel()
    (error,) = replies
    assert isinstance(error, Cancelled)
    finish(house)
    assert isinstance(busy[0], Answer)
    assert len(replies) == 1
    assert house.engine.counts.models["e"].cancelled == 1
    assert sum(rows for rows, _ in house.executable.shapes) == 2, "nobody ran for him"


def test_the_first_error_takes_back_what_waits():
    house = house_of(double("ids", "twice"), Step("gone", "", IDS, {"y": "four times"}))
    replies, _ = ask(house, [1])
    assert isinstance(replies[0], XirangError)
    house.step()
    assert not house.puppet.waiting


def test_rows_are_put_in_front_for_a_model_that_takes_some_and_taken_off_again():
    house = PuppetHouse.with_masked_double(window_ns_max=0)
    inputs = tuple(TensorSpec(each, "INT64", (None,)) for each in ("ids", "mask"))
    outputs = (TensorSpec("twice", "INT64", (None,)),)
    step = Step("m", "", {"ids": "ids", "attention_mask": "mask"}, {"doubled": "twice"}, True)
    house.engine.add(
        Model(
            name="e",
            executable=Composition(inputs, outputs),
            signature=Signature(inputs, outputs, False),
            policy=Policy(max_batch_size=1),
            budget_ns=1000 * MS,
            pipeline=Pipeline((step,)),
        )
    )
    replies, _ = ask(house, 1, 2, 3)
    finish(house)
    assert replies[0].outputs["twice"].tolist() == [2, 4, 6]


def test_who_is_in_is_finished_and_nobody_else_admitted():
    house = house_of(*CHAIN)
    replies, _ = ask(house, [1])
    house.step()
    house.engine.traffic.is_draining = True
    with pytest.raises(NotReady):
        ask(house, [2])
    alone = Call("m", {each: of_array(np.ones((1, 1), np.int64)) for each in IDS}, replies.append)
    with pytest.raises(NotReady):
        house.engine.submit(alone)
    finish(house)
    (answer,) = replies
    assert answer.outputs["four times"].tolist() == [[4]]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_request_is_answered_once_and_rightly(data):
    """Any graph of doubling steps: a tensor is its input, doubled once a step on its way."""
    count = data.draw(st.integers(1, 6))
    names, powers, steps = ["ids"], {"ids": 0}, []
    for number in range(count):
        taken = data.draw(st.sampled_from(names))
        names.append(f"t{number}")
        powers[names[-1]] = powers[taken] + 1
        steps.append(double(taken, names[-1]))
    house = house_of(*data.draw(st.permutations(steps)), outputs=tuple(names[1:]))
    asked = []
    for value in data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)):
        replies, ticket = ask(house, [value], budget_ms=100_000)
        if data.draw(st.booleans()):
            house.step()
        if data.draw(st.integers(0, 4)) == 0:
            ticket.cancel()
        asked.append((value, replies))
    finish(house)
    for value, replies in asked:
        (reply,) = replies
        if isinstance(reply, Answer):
            for name in names[1:]:
                assert reply.outputs[name].tolist() == [[value * 2 ** powers[name]]]
        else:
            assert isinstance(reply, Cancelled) or value * 2 ** max(powers.values()) > 12
    assert not house.engine.traffic.pending
