"""A process that dies under a run: once more, then in halves; each request is answered once."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.support.asking import ask, finish_all
from tests.support.puppets import MaskedDouble, PuppetHouse
from tests.support.workers import MS, PuppetWorkers

from xirang.backends.executable import WorkerDied
from xirang.core.run import Done, Failed
from xirang.engine.call import Answer
from xirang.engine.work import work_of
from xirang.errors import Expired, ModelFailed, NotReady

KILLER, RAISER, GARBLER = 13, 17, 19
GUILTY = {KILLER, RAISER, GARBLER}


class Endangered(MaskedDouble):
    """Does what its ids say, and beside that what a plan says of its next runs."""

    def __init__(self, workers, plan=()):
        super().__init__()
        self.workers, self.plan = workers, list(plan)

    def run(self, inputs, wanted):
        ids = inputs["ids"] * inputs["attention_mask"]
        fate = self.plan.pop(0) if self.plan else "well"
        if fate == "die" or (ids == KILLER).any():
            self.shapes.append(ids.shape)
            self.workers.die()
        if fate == "hang":
            self.workers.clock.time_ns += 60_000 * MS
            self.workers.die("it did not answer in time and was ended")
        if fate == "raise" or (ids == RAISER).any():
            raise RuntimeError("raised")
        outputs = {
            "doubled": ids * 2,
            "total": ids.sum(axis=1, keepdims=True),
        }
        self.shapes.append(ids.shape)
        if fate == "garbage" or (ids == GARBLER).any():
            outputs["total"] = outputs["total"].astype(np.float64)
        return {name: np.ascontiguousarray(outputs[name]) for name in wanted}


class WorkerHouse(PuppetHouse):
    """A PuppetHouse whose model runs in puppet processes."""

    @classmethod
    def of(cls, *, plan=(), start_ms=0, instances=1):
        plain = PuppetHouse.with_masked_double()
        workers = PuppetWorkers(None, start_ns=start_ms * MS)
        executable = Endangered(workers, plan)
        policy = replace(plain.model.policy, instances=instances)
        house = cls(executable, plain.model.signature, policy)
        workers.clock = house.clock
        house.workers = house.model.workers = house.engine.traffic.served["m"].workers = workers
        for puppet in house.puppets:
            puppet.work = work_of(house.model)
        return house

    def in_one_batch(self, rows, **fields):
        """All rows wait while the instance is busy, so that they share the next run."""
        first = ask(self, [1] * len(rows[0]))
        self.step()
        asked = [ask(self, row, **fields) for row in rows]
        self.puppet.finish()
        self.step()
        first.check_right()
        assert self.puppet.waiting[0][0].rows == len(rows)
        return asked


def test_a_run_whose_process_died_is_made_once_more_and_nobody_is_the_wiser():
    house = WorkerHouse.of(plan=["well", "die"], start_ms=300)
    asked = house.in_one_batch([[2], [3], [4]])
    finish_all(house)
    for one in asked:
        one.check_right()
    assert house.executable.shapes == [(1, 1), (3, 1), (3, 1)]
    assert house.workers.restarts == 1


@pytest.mark.parametrize("guilty", range(8))
def test_only_who_kills_its_process_by_itself_gets_an_error(guilty):
    house = WorkerHouse.of()
    rows = [[KILLER if number == guilty else number + 20] for number in range(8)]
    asked = house.in_one_batch(rows)
    finish_all(house)
    for number, one in enumerate(asked):
        if number == guilty:
            assert str(one.error) == (
                "model 'm' lost its process over this request: it ended by signal SIGKILL"
            )
            assert one.error.status == 500
        else:
            one.check_right()
    # Twice 8, 4 + 4, 2 + 2, 1 + 1: once more than a model that raises.
    assert len(house.executable.shapes) == 1 + 2 + 2 * 3
    statistics = house.engine.statistics("m")["model_stats"][0]["inference_stats"]
    assert (statistics["success"]["count"], statistics["fail"]["count"]) == (8, 1)


def test_a_lone_killer_kills_twice():
    house = WorkerHouse.of()
    asked = ask(house, [KILLER])
    finish_all(house)
    assert isinstance(asked.error, ModelFailed)
    assert house.workers.restarts == 1
    later = ask(house, [5])
    finish_all(house)
    later.check_right()


def test_who_has_no_time_for_another_try_is_told_so_and_the_others_are_tried():
    house = WorkerHouse.of(plan=["well", "die"], start_ms=300)
    first = ask(house, [1])
    house.step()
    short = [ask(house, [number], budget_ms=250) for number in (2, 3)]
    long = [ask(house, [number], budget_ms=5000) for number in (4, 5)]
    house.puppet.finish()
    house.step()
    finish_all(house)
    first.check_right()
    for one in short:
        assert isinstance(one.error, Expired)
        assert one.error.status == 504
    for one in long:
        one.check_right()
    assert house.executable.shapes[-1] == (2, 1)


def test_nobody_is_run_again_when_the_budgets_are_spent():
    house = WorkerHouse.of(plan=["well", "die"], start_ms=3000)
    asked = house.in_one_batch([[2], [3]], budget_ms=500)
    finish_all(house)
    assert {type(one.error) for one in asked} == {Expired}
    assert len(house.executable.shapes) == 2
    assert house.workers.waits_s[0] <= 0.5


def test_a_process_that_cannot_be_started_is_a_503_at_once():
    house = WorkerHouse.of(plan=["well", "die"])
    asked = house.in_one_batch([[2], [3]])
    house.workers.can_start = False
    finish_all(house)
    assert {(type(one.error), one.error.status) for one in asked} == {(NotReady, 503)}
    assert not house.engine.is_ready()
    assert house.engine.is_live(), "another server would fare no better"


def test_a_model_without_a_process_is_not_ready_until_there_is_one():
    house = WorkerHouse.of(start_ms=300)
    assert house.engine.is_ready()
    assert house.engine.model("m").is_ready
    house.workers.living = 0
    assert not house.engine.is_ready()
    assert not house.engine.model("m").is_ready
    asked = ask(house, [5])
    finish_all(house)
    asked.check_right()
    assert house.engine.is_ready()


def test_a_run_that_waits_for_a_process_leaves_the_device_to_others():
    house = WorkerHouse.of(plan=["die"], start_ms=300)
    seen = []
    post = house.puppet.post
    house.puppet.post = replace(post, paused=lambda run: (seen.append(run.id), post.paused(run)))
    asked = ask(house, [2])
    house.step()
    (run, _), *_ = house.puppet.waiting
    finish_all(house)
    asked.check_right()
    assert seen == [run.id]


@dataclass
class Story:
    """What was asked of a house, and what is known to be guilty."""

    house: WorkerHouse
    asked: list = field(default_factory=list)

    def judge(self):
        for one in self.asked:
            assert len(one.replies) == 1, "each is answered exactly once"
            (reply,) = one.replies
            guilty = GUILTY & {number for row in one.rows for number in row}
            if isinstance(reply, Answer):
                assert not guilty
                one.check_right()
            elif isinstance(reply, ModelFailed):
                assert guilty or self.house.was_unlucky, "nobody pays for another's fault"
            else:
                assert isinstance(reply, Expired)


fates = st.lists(st.sampled_from(["well", "well", "die", "raise", "hang", "garbage"]), max_size=12)
members = st.lists(
    st.one_of(st.integers(1, 12), st.sampled_from(sorted(GUILTY))), min_size=1, max_size=8
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(fates, st.lists(members, min_size=1, max_size=4), st.sampled_from([0, 30, 900]),
       st.sampled_from([200, 5000, 10_000_000]))  # fmt: skip
def test_whatever_becomes_of_runs_each_request_is_answered_once_and_right(
    plan, waves, start_ms, budget_ms
):
    house = WorkerHouse.of(plan=plan, start_ms=start_ms)
    # A fate that strikes a lone request twice cannot be told from its own fault.
    house.was_unlucky = any(fate != "well" for fate in plan)
    story = Story(house)
    for wave in waves:
        story.asked += [ask(house, [number], budget_ms=budget_ms) for number in wave]
        house.step()
    finish_all(house)
    house.check()
    assert not house.engine.traffic.pending
    story.judge()
    house.executable.plan.clear()
    after = ask(house, [2])
    finish_all(house)
    after.check_right()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 12) | st.just(KILLER), min_size=1, max_size=8))
def test_with_time_enough_only_killers_pay(numbers):
    house = WorkerHouse.of()
    asked = house.in_one_batch([[number] for number in numbers], budget_ms=10_000_000)
    finish_all(house)
    for number, one in zip(numbers, asked, strict=True):
        if number == KILLER:
            assert isinstance(one.error, ModelFailed)
        else:
            one.check_right()


def test_outcomes_tell_the_core_who_was_guilty():
    outcomes = []
    house = WorkerHouse.of(plan=["well", "die"])
    finished = house.puppet.post.finished
    house.puppet.post = replace(
        house.puppet.post,
        finished=lambda run, results, outcome: (
            outcomes.append(outcome),
            finished(run, results, outcome),
        ),
    )
    house.in_one_batch([[2], [3]])
    finish_all(house)
    assert isinstance(outcomes[0], Done)
    assert outcomes[1] == Failed(), "what was made twice teaches nothing"


def test_who_expires_while_a_process_is_replaced_is_counted_as_expired():
    house = WorkerHouse.of(plan=["well", "die"], start_ms=300)
    asked = house.in_one_batch([[2], [3]], budget_ms=200)
    finish_all(house)
    assert all(isinstance(one.error, Expired) for one in asked)
    counted = house.engine.counts.models["m"]
    assert (counted.answered, counted.failed, counted.expired) == (1, 0, 2)


def test_a_death_is_told_apart_from_no_process():
    workers = PuppetWorkers(None)
    assert WorkerDied("x", workers).is_suspect
    assert not WorkerDied("x", workers, is_suspect=False).is_suspect
