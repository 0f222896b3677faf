"""At the engine's door: what is refused, with which error, and that nothing stays behind."""

import asyncio

import numpy as np
import pytest
from tests.support.asking import MS, ask, finish_all, masked_inputs
from tests.support.puppets import PuppetHouse

from xirang import Engine
from xirang.core.request import PRIORITY_LOW
from xirang.engine.call import Call
from xirang.errors import Expired, InvalidRequest, NotReady, TooBusy, UnknownModel


@pytest.fixture
def house():
    return PuppetHouse.with_masked_double(depth_max=3)


def submit(house, model="m", **fields):
    replies = []
    house.engine.submit(Call(model, masked_inputs([[1]]), replies.append, **fields))
    return replies


def test_a_full_queue_turns_away_and_says_when_to_come_back(house):
    running = ask(house, [1])
    house.step()
    waiting = [ask(house, [2, 3]) for _ in range(3)]
    with pytest.raises(TooBusy, match="Exceeds maximum queue size: 3 requests wait") as caught:
        ask(house, [4])
    assert caught.value.status == 429
    work_ns = 3 * house.model.cost.row_ns(2)
    assert caught.value.retry_after_ns == pytest.approx(work_ns, rel=0.01)
    finish_all(house)
    for asked in (running, *waiting):
        asked.check_right()
    again = ask(house, [4])
    finish_all(house)
    again.check_right()
    house.check()


def test_a_draining_engine_admits_nobody_and_answers_who_is_in(house):
    running = ask(house, [1])
    house.step()
    waiting = ask(house, [2])

    async def main():
        drained = asyncio.create_task(house.engine.drain())
        await asyncio.wait([drained], timeout=0)
        assert not drained.done()
        assert not house.engine.is_ready()
        finish_all(house)
        await drained

    asyncio.run(main())
    running.check_right()
    waiting.check_right()
    with pytest.raises(NotReady, match="shutting down"):
        ask(house, [3])


def test_a_budget_that_is_spent_already_is_refused(house):
    with pytest.raises(Expired, match="spent before the request arrived"):
        submit(house, budget_ns=0)
    house.check()


def test_the_models_budget_holds_for_who_brings_none(house):
    submit(house)
    (request,) = [pending.request for pending in house.engine.traffic.pending.values()]
    assert request.deadline_ns - request.arrival_ns == 1000 * MS


@pytest.mark.parametrize(("given", "kept"), [(0, 2), (1, 1), (2, 2), (3, 3), (9, PRIORITY_LOW)])
def test_priorities_are_those_of_the_protocol(house, given, kept):
    submit(house, priority=given)
    (request,) = [pending.request for pending in house.engine.traffic.pending.values()]
    assert request.priority == kept


def test_unknown_models_versions_and_outputs_are_named(house):
    with pytest.raises(UnknownModel, match="unknown model: 'other' is not found"):
        submit(house, "other")
    with pytest.raises(UnknownModel, match="'m' version 7 is not found"):
        submit(house, version="7")
    with pytest.raises(InvalidRequest, match=r"unexpected inference output 'no' .*'doubled'"):
        submit(house, outputs=("no",))
    assert submit(house, version="1") == []


def test_only_the_outputs_asked_for_are_computed_and_answered(house):
    total, doubled, both = (
        ask(house, [1, 2], outputs=names) for names in (("total",), ("doubled",), None)
    )
    finish_all(house)
    assert set(total.answer.outputs) == {"total"}
    assert set(doubled.answer.outputs) == {"doubled"}
    both.check_right()
    assert house.puppet.runs[0].rows == 3


def test_an_engine_without_a_loop_is_not_ready(house):
    engine = Engine(clock=house.clock)
    engine.add_lanes("m", house.model.policy, house.model.cost, lambda *_: None, model=house.model)
    assert not engine.is_ready()
    with pytest.raises(NotReady, match=r"await engine\.start\(\)"):
        engine.submit(Call("m", masked_inputs([[1]]), print))


def test_a_loading_engine_is_live_and_not_ready():
    async def main():
        engine = await Engine(is_loading=True).start()
        assert engine.is_live()
        assert not engine.is_ready()
        engine.set_loaded()
        assert engine.is_ready()
        await engine.close()
        assert not engine.is_ready()

    asyncio.run(main())


def test_draining_twice_waits_twice():
    async def main():
        engine, gate = await engine_with_gate()
        answer = asyncio.create_task(engine.infer("m", {"x": [[1]]}))
        await gate.entered.wait()
        drains = [asyncio.create_task(engine.drain()) for _ in range(2)]
        gate.open.set()
        await asyncio.gather(*drains)
        assert (await answer)["x"].tolist() == [[1]]
        await engine.close()

    asyncio.run(asyncio.wait_for(main(), 20))


async def engine_with_gate():
    from tests.support.gates import gated_model

    engine = await Engine().start()
    model, gate = gated_model(asyncio.get_running_loop())
    engine.add(model)
    return engine, gate


def test_infer_takes_lists_and_arrays_and_raises_what_is_wrong():
    async def main():
        engine, gate = await engine_with_gate()
        gate.open.set()
        async with engine:
            for x in ([[1, 2]], np.array([[1, 2]])):
                outputs = await engine.infer("m", {"x": x}, budget_ms=10_000, priority=1)
                assert outputs["x"].tolist() == [[1, 2]]
            with pytest.raises(UnknownModel):
                await engine.infer("other", {"x": [[1]]})
            with pytest.raises(InvalidRequest, match="datatype FP32; expected INT64"):
                await engine.infer("m", {"x": np.ones((1, 2), np.float32)})
            with pytest.raises(InvalidRequest, match="missing inputs"):
                await engine.infer("m", {})
            with pytest.raises(InvalidRequest, match="input 'x'"):
                await engine.infer("m", {"x": [[1], [1, 2]]})
            with pytest.raises(InvalidRequest, match="input 'x'"):
                await engine.infer("m", {"x": np.array([1j])})
            with pytest.raises(Expired):
                await engine.infer("m", {"x": [[1]]}, budget_ms=-1)
        with pytest.raises(NotReady):
            await engine.infer("m", {"x": [[1]]})

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_cancelled_infer_takes_its_request_back():
    async def main():
        engine, gate = await engine_with_gate()
        running = asyncio.create_task(engine.infer("m", {"x": [[1]]}))
        await gate.entered.wait()
        waiting = asyncio.create_task(engine.infer("m", {"x": [[2]]}))
        await asyncio.wait([waiting], timeout=0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        gate.open.set()
        assert (await running)["x"].tolist() == [[1]]
        await engine.close()
        assert gate.rows == [1]
        assert 'xirang_cancelled_total{model="m"} 1' in engine.metrics_text()

    asyncio.run(asyncio.wait_for(main(), 20))


def test_a_budget_that_is_spent_on_arrival_is_counted_as_expired(house):
    with pytest.raises(Expired, match="spent before"):
        submit(house, budget_ns=0)
    (model,) = house.engine.statistics("m")["model_stats"]
    assert model["inference_stats"]["fail"]["count"] == 1


def test_while_models_load_an_unknown_one_may_still_come():
    engine = Engine(is_loading=True)
    with pytest.raises(NotReady, match="not loaded yet"):
        engine.model("m")
    engine.set_loaded()
    with pytest.raises(UnknownModel, match="'m' is not found"):
        engine.model("m")


def test_no_outputs_named_means_all_of_them(house):
    answers = submit(house, outputs=())
    house.step()
    house.puppet.finish()
    house.step()
    assert list(answers[0].outputs) == ["doubled", "total"]
