"""Models come, are replaced and go, and nobody who is in is lost."""

import asyncio
import threading

import numpy as np
import pytest

from xirang.core.policy import Policy
from xirang.core.signature import Signature, TensorSpec
from xirang.core.snapshot import ModelSnapshot, Snapshot
from xirang.engine.call import Call
from xirang.engine.engine import Engine
from xirang.engine.lifecycle import UNLOADED, Farewells, Roster, State, named
from xirang.engine.model import Model
from xirang.errors import NotReady, UnknownModel
from xirang.tensors.tensor import of_array


def model(version="1"):
    return gated(0, version)


# ---------------------------------------------------------------------- the roster


def test_the_greatest_version_answers_for_a_name():
    roster = Roster()
    versions = {version: model(version) for version in ("2", "10", "1")}
    for each in versions.values():
        roster.put(each)
    assert roster.find("m") is versions["10"]
    assert roster.find("m", "2") is versions["2"]
    assert roster.versions("m") == ("1", "2", "10")
    roster.note("m", "10", State.UNLOADING)
    assert roster.find("m") is versions["2"]


def said(roster, name, version=None):
    with pytest.raises((UnknownModel, NotReady)) as raised:
        roster.find(name, version)
    return type(raised.value), str(raised.value)


def test_who_is_not_there_is_told_so_in_tritons_words():
    roster = Roster()
    words = "Request for unknown model: 'm'"
    assert said(roster, "m") == (UnknownModel, f"{words} is not found")
    roster.note("m", "1", State.LOADING)
    assert said(roster, "m") == (NotReady, "model 'm' is not loaded yet")
    assert said(roster, "m", "1") == (NotReady, f"{words} version 1 is not at ready state")
    roster.note("m", "1", State.UNAVAILABLE, "broken")
    assert said(roster, "m") == (UnknownModel, f"{words} has no available versions")
    assert said(roster, "m", "2") == (UnknownModel, f"{words} version 2 is not found")
    loading = Roster(is_loading=True)
    assert said(loading, "m")[0] is NotReady


def test_the_index_says_what_is_known():
    roster = Roster()
    roster.others = lambda: ["asleep", "m"]
    roster.put(model("2"))
    roster.note("m", "1", State.UNAVAILABLE, UNLOADED)
    roster.note("bad", "", State.UNAVAILABLE, "line 3")
    assert roster.index() == [
        {"name": "asleep"},
        {"name": "bad", "state": "UNAVAILABLE", "reason": "line 3"},
        {"name": "m", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
        {"name": "m", "version": "2", "state": "READY"},
    ]
    assert roster.index(only_ready=True) == [{"name": "m", "version": "2", "state": "READY"}]


def test_whole_is_when_all_that_was_wanted_serves():
    roster = Roster()
    roster.put(model())
    assert roster.is_whole()
    roster.note("m", "1", State.UNAVAILABLE, UNLOADED)
    assert roster.is_whole()
    roster.note("bad", "", State.UNAVAILABLE, "line 3")
    assert not roster.is_whole()
    roster.forgive("bad")
    assert roster.is_whole()
    roster.note("new", "1", State.LOADING)
    assert not roster.is_whole()
    roster.forgive("new")
    assert not roster.is_whole()


# ---------------------------------------------------------------------- farewells


def test_a_farewell_ends_with_the_last_answer():
    async def run():
        farewells = Farewells()
        await farewells.wait("empty", 0)
        waiting = asyncio.ensure_future(farewells.wait("m", 3))
        await asyncio.sleep(0)
        assert farewells
        farewells.note("other", 5)
        farewells.note("m", 2)
        await asyncio.sleep(0)
        assert not waiting.done()
        farewells.note("m", 1)
        await waiting
        assert not farewells

    asyncio.run(run())


# ---------------------------------------------------------------------- the engine


class Gated:
    """x + its number, as soon as its gate is open."""

    platform, is_reentrant, keeps_inputs = "puppet", True, False
    inputs = (TensorSpec("x", "INT64", ("batch", 1)),)
    outputs = (TensorSpec("y", "INT64", ("batch", 1)),)

    def __init__(self, number):
        self.number = number
        self.gate = threading.Event()

    def run(self, inputs, wanted):
        assert self.gate.wait(20)
        return {"y": inputs["x"] + self.number}


def gated(number, version="1", *, is_open=False):
    executable = Gated(number)
    if is_open:
        executable.gate.set()
    return Model(
        name="m",
        version=version,
        executable=executable,
        signature=Signature(executable.inputs, executable.outputs, is_batched=True),
        policy=Policy(max_batch_size=2),
        budget_ns=10**11,
    )


def ask(engine, answers, version=None, *, rows=1):
    x = of_array(np.zeros((rows, 1), np.int64))
    return engine.submit(Call("m", {"x": x}, answers.append, version))


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is awaited happens on a thread
        await asyncio.sleep(0)


def values(answers):
    return [(each.version, each.outputs["y"].ravel().tolist()) for each in answers]


def test_who_is_in_is_answered_by_the_old_model_and_who_comes_by_the_new():
    async def run():
        old, new = gated(1), gated(100, is_open=True)
        async with Engine() as engine:
            engine.add(old)
            before, after = [], []
            ask(engine, before)
            ask(engine, before, rows=5)  # cut into three runs
            leaving = asyncio.ensure_future(engine.replace(new))
            ask(engine, after)
            assert not leaving.done()
            old.executable.gate.set()
            await leaving
            await until(lambda: after)
            engine.check_integrity()
            assert values(before) == [("1", [1]), ("1", [1] * 5)]
            assert values(after) == [("1", [100])]
            await asyncio.sleep(0)
            assert engine.index() == [{"name": "m", "version": "1", "state": "READY"}]
            (counted,) = engine.statistics("m")["model_stats"]
            assert counted["inference_stats"]["success"]["count"] == 5  # parts count singly
            assert engine.metrics_text().count('xirang_waiting{model="m"}') == 1

    asyncio.run(run())


def test_a_new_version_goes_on_with_the_series_of_the_old():
    async def run():
        async with Engine() as engine:
            engine.add(gated(1, "1", is_open=True))
            answers = []
            ask(engine, answers)
            await until(lambda: answers)
            await engine.replace(gated(2, "2", is_open=True), version="1")
            ask(engine, answers)
            await until(lambda: len(answers) == 2)
            assert values(answers) == [("1", [1]), ("2", [2])]
            await asyncio.sleep(0)  # counted at the end of the loop's turn
            (counted,) = engine.statistics("m")["model_stats"]
            assert (counted["version"], counted["execution_count"]) == ("2", 2)
            assert engine.index()[0] == {
                "name": "m",
                "version": "1",
                "state": "UNAVAILABLE",
                "reason": UNLOADED,
            }
            assert engine.is_ready()

    asyncio.run(run())


def test_versions_side_by_side_are_addressed_and_counted_apart():
    async def run():
        async with Engine() as engine:
            for number in (1, 2, 10):
                engine.add(gated(number, str(number), is_open=True))
            answers = []
            for version in (None, "1", "2"):
                ask(engine, answers, version)
            await until(lambda: len(answers) == 3)
            assert sorted(values(answers)) == [("1", [1]), ("10", [10]), ("2", [2])]
            await asyncio.sleep(0)
            counted = engine.statistics("m")["model_stats"]
            assert [(each["version"], each["execution_count"]) for each in counted] == [
                ("1", 1),
                ("2", 1),
                ("10", 1),
            ]
            assert engine.model("m").versions == ("1", "2", "10")
            assert engine.model("m", "2").versions == ("2",)
            text = engine.metrics_text()
            assert 'nv_inference_count{model="m",version="10"} 1' in text
            assert len(text.splitlines()) == len(set(text.splitlines()))

    asyncio.run(run())


def test_an_unloaded_model_answers_who_is_in_and_is_unknown_to_who_comes():
    async def run():
        model = gated(1)
        async with Engine() as engine:
            engine.add(model)
            answers, late = [], []
            ask(engine, answers)
            waiting = ask(engine, late)
            leaving = asyncio.ensure_future(engine.unload("m", "1"))
            with pytest.raises(UnknownModel, match="has no available versions"):
                ask(engine, answers)
            assert engine.index()[0]["state"] == "UNLOADING"
            waiting.cancel()  # gone before it ran, or dropped: no farewell waits for it
            assert not leaving.done()
            model.executable.gate.set()
            await leaving
            assert values(answers) == [("1", [1])]
            assert engine.index()[0]["reason"] == UNLOADED
            engine.check_integrity()
            engine.add(gated(7, is_open=True))
            ask(engine, answers)
            await until(lambda: len(answers) == 2)
            assert values(answers)[1] == ("1", [7])

    asyncio.run(run())


def test_a_model_is_replaced_again_while_the_one_before_still_leaves():
    async def run():
        models = [gated(number) for number in range(4)]
        async with Engine() as engine:
            engine.add(models[0])
            answers, leaving = [], []
            for number, each in enumerate(models):
                if number:
                    leaving.append(asyncio.ensure_future(engine.replace(each)))
                ask(engine, answers)
                await asyncio.sleep(0)
            for each in reversed(models):
                each.executable.gate.set()
            await asyncio.gather(*leaving)
            await until(lambda: len(answers) == 4)
            assert sorted(value for _, (value,) in values(answers)) == [0, 1, 2, 3]
            engine.check_integrity()

    asyncio.run(run())


def test_with_a_model_missing_the_server_is_not_ready_but_the_others_are():
    async def run():
        async with Engine() as engine:
            engine.add(gated(1, is_open=True))
            engine.roster.note("bad", "", State.UNAVAILABLE, "line 3")
            assert not engine.is_ready()
            assert engine.model("m").is_ready
            engine.needs_all = False
            assert engine.is_ready()

    asyncio.run(run())


def test_lanes_of_one_name_are_told_together():
    def one(name, waiting):
        return ModelSnapshot(name, waiting, 1, 10, 0.5, 3, 4, ())

    snapshot = Snapshot((one("m", 1), one("n", 5), one("m@2", 2)), is_draining=False)
    found = named(snapshot, lambda lanes: lanes.partition("@")[0]).models
    assert [(each.model, each.waiting, each.running) for each in found] == [
        ("m", 3, 2),
        ("n", 5, 1),
    ]
