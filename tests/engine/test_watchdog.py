"""Runs that do not end: noticed, said once, and the truth about who can still run."""

import asyncio
import logging
import threading

import pytest
from tests.support.asking import ask, finish_all
from tests.support.puppets import MS, PuppetHouse, PuppetInstance
from tests.support.workers import PuppetWorkers

from xirang.core.cost import CostModel
from xirang.core.policy import Policy
from xirang.core.request import NEVER_NS, Request
from xirang.core.run import Run, Trigger
from xirang.engine import instances
from xirang.engine.call import Terms
from xirang.engine.engine import Engine
from xirang.engine.extent import Extent
from xirang.engine.pending import Served
from xirang.engine.watchdog import HANG_NS, Watchdog
from xirang.errors import Expired

SECOND = 1000 * MS
HANG_S = HANG_NS // SECOND


def pass_seconds(house, count):
    for _ in range(count):
        house.advance(SECOND)


@pytest.fixture
def hanging():
    """A house with one request in a run that has taken longer than any may."""
    house = PuppetHouse.with_masked_double()
    asked = ask(house, [2], budget_ms=10_000)
    house.step()
    pass_seconds(house, HANG_S - 1)
    assert house.engine.is_ready()
    assert not asked.replies
    pass_seconds(house, 3)
    return house, asked


def test_a_run_that_hangs_is_said_once(caplog):
    house = PuppetHouse.with_masked_double()
    ask(house, [2])
    house.step()
    with caplog.at_level(logging.ERROR, "xirang.engine.watchdog"):
        pass_seconds(house, 2 * HANG_S)
    assert [record.message for record in caplog.records] == [
        "instance 0 of model m hangs: its run 1 has taken more than 60.0 s"
    ]


def test_whose_budget_is_spent_is_told_so_and_the_late_answer_is_dropped(hanging):
    house, asked = hanging
    assert isinstance(asked.error, Expired)
    house.puppet.finish()
    house.step()
    assert len(asked.replies) == 1
    house.check()
    statistics = house.engine.statistics("m")["model_stats"][0]["inference_stats"]
    assert (statistics["success"]["count"], statistics["fail"]["count"]) == (0, 1)


def test_whose_budget_is_not_spent_gets_the_late_answer():
    house = PuppetHouse.with_masked_double()
    first = ask(house, [1])
    house.step()
    short, long = ask(house, [2], budget_ms=50_000), ask(house, [3], budget_ms=1_000_000)
    house.puppet.finish()
    house.step()
    first.check_right()
    pass_seconds(house, HANG_S + 2)
    assert isinstance(short.error, Expired)
    assert not long.replies
    finish_all(house)
    long.check_right()


def test_a_model_is_not_ready_while_none_of_its_instances_can_run(hanging):
    house, _ = hanging
    assert not house.engine.is_ready()
    assert not house.engine.model("m").is_ready
    assert house.engine.is_live(), "it may come back"
    house.puppet.finish()
    house.step()
    assert house.engine.is_ready()
    assert house.engine.model("m").is_ready


def test_beyond_hope_the_server_is_not_live(hanging):
    house, _ = hanging
    pass_seconds(house, HANG_S)
    assert not house.engine.is_live()
    house.puppet.finish()
    house.step()
    assert house.engine.is_live()


def test_one_of_two_instances_is_enough_to_be_ready():
    house = PuppetHouse.with_masked_double(instances=2)
    ask(house, [2])
    house.step()
    pass_seconds(house, 3 * HANG_S)
    assert house.engine.traffic.watchdog.stalled("m") == 1
    assert house.engine.is_ready()
    assert house.engine.is_live()
    later = ask(house, [3])
    house.step()
    house.puppets[1].finish()
    house.step()
    later.check_right()


def test_a_hanging_run_leaves_the_device_to_other_models(hanging):
    house, _ = hanging
    others = []

    def make(_name, post):
        others.append(PuppetInstance(lambda members, *, clock: None, post))
        return others[0]

    house.engine.add_lanes("other", Policy(), CostModel(), make)
    now_ns = house.clock.now_ns()
    extent, times = Extent(rows=1, length=1, group=None), (now_ns, now_ns + SECOND)
    house.engine.traffic.enter("other", None, extent, times, Terms(), lambda *_: None)
    house.advance(MS * 100)
    assert len(others[0].runs) == 1, "the device holds one run at once, and one hangs"


def test_a_drain_does_not_wait_for_a_run_that_hangs(hanging):
    house, _ = hanging
    assert not house.engine.traffic.pending
    assert asyncio.run(house.engine.drain()) is None


def test_a_model_that_hangs_can_be_unloaded(monkeypatch):
    monkeypatch.setattr(instances, "CLOSE_S_MAX", 0.01)
    gate = threading.Event()

    async def unload():
        engine = await Engine().start()
        model = PuppetHouse.with_masked_double().model
        run = model.executable.run
        model.executable.run = lambda *given: gate.wait() and run(*given)
        model.hang_ns = 1
        engine.add(model)
        with pytest.raises(Expired):
            await engine.infer("m", {"ids": [[1]], "attention_mask": [[1]]}, budget_ms=100)
        (instance,) = engine.traffic.served["m"].instances
        await engine.unload("m", "1")
        assert instance._thread.is_alive()
        gate.set()
        await asyncio.to_thread(instance._thread.join)  # its result comes late and finds nobody
        await engine.close()

    asyncio.run(asyncio.wait_for(unload(), 30))


def run_of(predicted_ns):
    request = Request(1, "m", 0, NEVER_NS)
    return Run(1, "m", 0, (request,), 1, 1, Trigger.ALONE, 0, predicted_ns, 0, 0)


def test_a_long_run_that_was_foreseen_is_not_taken_for_hung():
    house = PuppetHouse.with_masked_double()
    stalled = []
    workers = PuppetWorkers(house.clock)
    dog = Watchdog(house.clock, on_stall=stalled.append, on_tick=stalled.append)
    dog.attach(house.loop)
    dog.guard("m", Served(Policy(), None, workers), hang_ns=HANG_NS)
    dog.began(run_of(predicted_ns=5 * SECOND))
    pass_seconds(house, 99)
    assert not stalled
    pass_seconds(house, 3)
    assert len(stalled) == 1
    assert workers.hang_s == 100, "nor is its process ended before"


def test_what_runs_in_processes_never_makes_the_server_unlive():
    house, noted = PuppetHouse.with_masked_double(), []
    dog = Watchdog(house.clock, on_stall=noted.append, on_tick=noted.append)
    dog.attach(house.loop)
    dog.guard("m", Served(Policy(), None, PuppetWorkers(house.clock)), hang_ns=HANG_NS)
    dog.began(run_of(predicted_ns=1))
    pass_seconds(house, 1000)
    assert (dog.can_run("m"), dog.is_live()) == (False, True)
    dog.pause(*noted)
    assert dog.ended(run_of(predicted_ns=1))
    assert dog.can_run("m")


def test_what_is_heard_of_a_run_whose_model_has_gone_is_for_nobody():
    house = PuppetHouse.with_masked_double()
    dog = Watchdog(house.clock, on_stall=print, on_tick=print)
    dog.attach(house.loop)
    dog.guard("m", Served(Policy(), None, PuppetWorkers(house.clock)), hang_ns=HANG_NS)
    run = run_of(predicted_ns=1)
    dog.began(run)
    assert dog.forget("m") == [run]
    assert not dog.knows(run)
    assert not dog.pause(run)


def test_the_timer_rests_while_nothing_runs():
    house = PuppetHouse.with_masked_double()
    asked = ask(house, [2])
    finish_all(house)
    asked.check_right()
    assert house.loop.next_timer_ns() is None
