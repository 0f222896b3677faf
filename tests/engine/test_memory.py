"""Pages follow the pool in its order, and runs wait for theirs; an engine under a small pool."""

import asyncio
import threading
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
from tests.support.core import fixed_shape
from tests.support.workers import PuppetWorkers

from xirang.core.memory.account import Claim
from xirang.core.memory.arena import Resize
from xirang.core.memory.polynomial import Polynomial
from xirang.core.memory.pool import PoolSettings
from xirang.core.policy import Policy
from xirang.core.request import Request
from xirang.core.run import Run, Trigger
from xirang.core.scheduler import Scheduler
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.engine import Engine
from xirang.engine.memory import Housing, Pages, Place
from xirang.engine.model import Model
from xirang.errors import InvalidSetting, TooLarge
from xirang.memory.arena import NoMemory

SLAB = 64 << 10
ROWS = (Polynomial((0, SLAB, 0, 0, 0, 0)),)


def on_a_loop(test):
    @wraps(test)
    def run():
        asyncio.run(asyncio.wait_for(test(), 30))

    return run


class PuppetArena:
    """Notes what becomes of it; refuses to reach beyond what the test says."""

    log: list
    most = 1 << 40
    gate = None

    def __init__(self, reserved_bytes):
        self.reserved_bytes = reserved_bytes
        self.name = len(self.made)
        self.made.append(self)

    def resize(self, before_bytes, after_bytes):
        if self.gate is not None:
            self.gate.wait()
        if after_bytes > self.most:
            raise NoMemory(f"no {after_bytes} bytes")
        self.log.append((self.name, before_bytes, after_bytes))

    def close(self):
        self.log.append((self.name, "closed"))


@pytest.fixture
def arenas(monkeypatch):
    monkeypatch.setattr(PuppetArena, "log", [], raising=False)
    monkeypatch.setattr(PuppetArena, "made", [], raising=False)
    monkeypatch.setattr(PuppetArena, "most", 1 << 40)
    monkeypatch.setattr(PuppetArena, "gate", None)
    return PuppetArena


def pages_of(arenas, count=2):
    pages = Pages(arenas)
    for number in range(count):
        pages.open(number, 1 << 20)
    return pages


def test_pages_move_in_the_pools_order(arenas):
    pages = pages_of(arenas)
    pages.carry_out([Resize(0, 0, 700)])
    pages.carry_out([Resize(0, 700, 500), Resize(1, 0, 500), Resize(7, 0, 5)])
    assert pages.wait(1, 500) == 500
    assert arenas.log == [(0, 0, 700), (0, 700, 500), (1, 0, 500)]


def test_the_loop_does_not_wait_for_pages_but_the_run_does(arenas, monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(arenas, "gate", gate)
    pages = pages_of(arenas)
    pages.carry_out([Resize(0, 0, 100)])
    reached = []
    runner = threading.Thread(target=lambda: reached.append(pages.wait(0, 100)))
    runner.start()
    assert reached == []
    gate.set()
    runner.join()
    assert reached == [100]


def test_what_the_system_refuses_is_asked_for_again_by_the_next_run(arenas, monkeypatch, caplog):
    monkeypatch.setattr(arenas, "most", 300)
    pages = pages_of(arenas)
    pages.carry_out([Resize(0, 0, 200), Resize(0, 200, 400)])
    assert pages.wait(0, 400) == 200
    assert "no 400 bytes" in caplog.text
    monkeypatch.setattr(arenas, "most", 500)
    assert pages.wait(0, 400) == 400
    assert arenas.log == [(0, 0, 200), (0, 200, 400)]


def test_an_arena_in_which_a_run_hangs_is_left_to_it(arenas):
    pages = pages_of(arenas)
    pages.close(0, in_use=True)
    pages.close(1)
    pages.settle()
    assert arenas.log == [(1, "closed")]


class PuppetRoom:
    """Runs at once, and says that it took what it was told."""

    def __init__(self, arena=None, per_row=SLAB, own=0):
        self.arena = arena
        self.per_row = per_row
        self.own = own
        self.peak_bytes = 0
        self.is_planned = True
        self.opened = []

    def take(self, shape, dtype):
        return np.empty(shape, dtype)

    def extend(self, lease_bytes):
        rows, length, _ = self.opened[-1]
        self.opened.append((rows, length, lease_bytes))

    def open(self, rows, length, lease_bytes):
        self.opened.append((rows, length, lease_bytes))

    def run(self, executable, inputs, wanted):
        rows, _, lease_bytes = self.opened[-1]
        need_bytes = rows * self.per_row
        if need_bytes > lease_bytes:
            raise NoMemory(f"{need_bytes} of {lease_bytes}", needed_bytes=need_bytes)
        outputs = executable.run(inputs, wanted)
        self.peak_bytes = need_bytes - self.own
        return outputs


def run_of(lease_bytes):
    requests = (Request(1, "m", 0, 1),)
    return Run(1, "m", 0, requests, 1, 1, Trigger.ALONE, 0, 1, 0, 0, lease_bytes=lease_bytes)


class Echo:
    platform = "echo"
    is_reentrant = keeps_inputs = True
    inputs = outputs = (TensorSpec("x", "FP32", (None, 2)),)

    def __init__(self, footprint=None, gate=None):
        self.footprint = footprint
        self.gate = gate
        self.rows = []

    def run(self, inputs, wanted):
        if self.gate is not None:
            self.gate.wait()
        self.rows.append(len(inputs["x"]))
        return {name: inputs[name] + 1 for name in wanted}


def test_a_place_hands_on_the_lease_in_whole_slabs_and_tells_the_peak_in_whole_kib(arenas):
    pages = pages_of(arenas)
    room = PuppetRoom(per_row=1000, own=300)
    place = Place(pages, 0, room, slab_bytes=SLAB, extend=lambda *_: False)
    pages.carry_out([Resize(0, 0, 2 * SLAB)])
    place.begin(run_of(SLAB + 1))
    inputs = {"x": np.zeros((2, 2), np.float32)}
    assert place.open(2, 7) == room.take
    place.run(Echo(), inputs, ["x"])
    assert room.opened == [(2, 7, 2 * SLAB)]
    assert place.peak_bytes == 2048
    place.open(1, 7)
    place.run(Echo(), inputs, ["x"])
    assert place.peak_bytes == 2048, "of all parts of the run"


class PuppetFootprint:
    """A law of a slab a row, and rooms that obey it, or take more."""

    peaks = ROWS

    def __init__(self, per_row=SLAB):
        self.per_row = per_row
        self.rooms = []

    def room(self, arena):
        self.rooms.append(PuppetRoom(arena, self.per_row))
        return self.rooms[-1]


def engine_of(slabs):
    pool = PoolSettings(slabs * SLAB, slab_bytes=SLAB)
    return Engine(scheduler=Scheduler(devices={"cpu": 2}, pool=pool))


def model_of(name="m", *, executable=None, instances=1, **claim):
    executable = executable or Echo(PuppetFootprint())
    return Model(
        name,
        executable,
        Signature(Echo.inputs, Echo.inputs, is_batched=True),
        Policy(instances=instances, efficiency=0.0, max_batch_size=64),
        10_000_000_000,
        cost=fixed_shape(5, 1),
        claim=Claim(ROWS, **claim),
    )


def rows(count):
    return {"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}


def committed(engine):
    return {s.model: s.committed_bytes for s in engine._look()[1].memory.shares}


@on_a_loop
async def test_everybody_is_answered_from_leased_memory():
    async with engine_of(20) as engine:
        model = model_of(instances=2)
        engine.add(model)
        answers = await asyncio.gather(*[engine.infer("m", rows(3)) for _ in range(20)])
        for answer in answers:
            np.testing.assert_array_equal(answer["x"], rows(3)["x"] + 1)
        opened = [each for room in model.executable.footprint.rooms for each in room.opened]
        assert sum(count for count, _, _ in opened) == 60
        assert all(count * SLAB <= lease_bytes <= 20 * SLAB for count, _, lease_bytes in opened)
        engine.check_integrity()


@on_a_loop
async def test_a_request_of_more_rows_than_there_is_memory_for_is_parted():
    async with engine_of(8) as engine:
        engine.add(model_of())
        answer = await engine.infer("m", rows(30))
        np.testing.assert_array_equal(answer["x"], rows(30)["x"] + 1)


@on_a_loop
async def test_a_row_that_can_never_fit_is_refused_with_the_numbers():
    async with engine_of(8) as engine:
        engine.add(model_of(limit_bytes=4 * SLAB, fixed_bytes=4 * SLAB))
        with pytest.raises(TooLarge, match=rf"needs {SLAB} bytes of memory, .* may have 0"):
            await engine.infer("m", rows(1))


@on_a_loop
async def test_a_run_that_needs_more_than_its_lease_gets_more_in_place_and_later_ones_at_once():
    async with engine_of(40) as engine:
        model = model_of(executable=Echo(PuppetFootprint(per_row=3 * SLAB)))
        engine.add(model)
        for _ in range(2):
            answer = await engine.infer("m", rows(8))
            np.testing.assert_array_equal(answer["x"], rows(8)["x"] + 1)
        opened = model.executable.footprint.rooms[0].opened
        assert opened == [(8, 1, 8 * SLAB), (8, 1, 24 * SLAB), (8, 1, 24 * SLAB)]


@on_a_loop
async def test_a_run_that_needs_more_than_there_is_goes_in_parts():
    async with engine_of(9) as engine:
        model = model_of(executable=Echo(PuppetFootprint(per_row=3 * SLAB)))
        engine.add(model)
        answers = await asyncio.gather(*[engine.infer("m", rows(1)) for _ in range(8)])
        for answer in answers:
            np.testing.assert_array_equal(answer["x"], rows(1)["x"] + 1)
        assert max(model.executable.rows) <= 3


@on_a_loop
async def test_a_model_whose_promise_does_not_fit_is_not_added():
    async with engine_of(8) as engine:
        engine.add(model_of("a", guarantee_bytes=6 * SLAB))
        with pytest.raises(InvalidSetting, match="no memory for model 'b'"):
            engine.add(model_of("b", guarantee_bytes=3 * SLAB))
        assert engine.model_names() == ["a"]


@on_a_loop
async def test_who_may_go_is_unloaded_if_another_does_not_fit_otherwise():
    async with engine_of(8) as engine:
        for name, held in (("a", 3), ("b", 2), ("stays", 2)):
            engine.add(model_of(name, fixed_bytes=held * SLAB, may_go=name != "stays"))
        await engine.infer("a", rows(1))
        fresh = model_of("c", fixed_bytes=3 * SLAB)
        with pytest.raises(InvalidSetting, match="it holds 196608 bytes"):
            engine.add(fresh)
        await engine.evictions.make_room(fresh)
        engine.add(fresh)
        assert engine.model_names() == ["a", "stays", "c"], "b had not run for longer"
        engine.check_integrity()


@on_a_loop
async def test_nobody_goes_if_that_would_not_be_enough():
    async with engine_of(8) as engine:
        engine.add(model_of("a", fixed_bytes=3 * SLAB, may_go=True))
        engine.add(model_of("stays", fixed_bytes=4 * SLAB))
        await engine.evictions.make_room(model_of("c", fixed_bytes=5 * SLAB))
        await engine.evictions.make_room(model_of("d", fixed_bytes=SLAB))
        assert engine.model_names() == ["a", "stays"]


@on_a_loop
async def test_a_keeper_unloads_who_is_his():
    gone = []
    async with engine_of(8) as engine:

        async def unload(model):
            gone.append(model.name)
            await engine.unload(model.name, model.version)

        engine.evictions.keeper = lambda model: asyncio.ensure_future(unload(model))
        engine.add(model_of("a", fixed_bytes=6 * SLAB, may_go=True))
        await engine.evictions.make_room(model_of("c", fixed_bytes=5 * SLAB))
        assert (gone, engine.model_names()) == (["a"], [])


@on_a_loop
async def test_who_is_refused_has_no_processes_any_more():
    async with engine_of(8) as engine:
        model = model_of("a", fixed_bytes=9 * SLAB)
        model.workers = PuppetWorkers(None)
        with pytest.raises(InvalidSetting, match="no memory for model 'a'"):
            engine.add(model)
        assert model.workers.is_closed


@on_a_loop
async def test_a_model_without_a_law_holds_its_weights_and_takes_no_leases():
    async with engine_of(8) as engine:
        model = model_of("a", executable=Echo(), fixed_bytes=5 * SLAB)
        model.claim = replace(model.claim, peaks=())
        engine.add(model)
        engine.add(model_of("b"))
        await asyncio.gather(*[engine.infer("a", rows(60)) for _ in range(5)])
        a, _ = engine.memory()["shares"]
        assert (a["fixed_bytes"], a["committed_bytes"]) == (5 * SLAB, 0)
        await engine.infer("b", rows(8))
        assert committed(engine) == {"a": 0, "b": 3 * SLAB}
        engine.check_integrity()


@on_a_loop
async def test_who_is_unloaded_during_a_run_is_answered_and_leaves_nothing():
    gate = threading.Event()
    async with engine_of(8) as engine:
        engine.add(model_of(executable=Echo(PuppetFootprint(), gate), fixed_bytes=SLAB))
        waiting = asyncio.ensure_future(engine.infer("m", rows(3)))
        await asyncio.sleep(0)
        leaving = asyncio.ensure_future(engine.unload("m", "1"))
        await asyncio.sleep(0)
        gate.set()
        np.testing.assert_array_equal((await waiting)["x"], rows(3)["x"] + 1)
        await leaving
        assert engine._look()[1].memory.held_bytes == 0
        engine.add(model_of())
        await engine.infer("m", rows(2))


def test_whoever_hangs_keeps_its_pages_when_its_model_goes(arenas):
    pool = PoolSettings(8 * SLAB, slab_bytes=SLAB)
    scheduler = Scheduler(devices={"cpu": 2}, pool=pool)
    housing = Housing(scheduler, Pages(arenas))
    executable = Echo(PuppetFootprint())
    scheduler.add_model("m", Policy(instances=2), fixed_shape(5, 1), Claim(ROWS))
    for _ in range(2):
        housing.place("m", executable, lambda *_: False)
    account = scheduler.ledger.accounts["m"]
    for instance in (0, 1):
        assert account.lease(instance, 2, 1) is None
    for instance in (0, 1):
        account.release(instance, now_ns=1)
    scheduler.remove_model("m")
    housing.close("m", in_use=[0])
    housing.pages.settle()
    assert arenas.log == [(1, 0, 2 * SLAB), (1, 2 * SLAB, 0), (1, "closed")]


@on_a_loop
async def test_who_closes_gives_all_pages_back():
    async with engine_of(8) as engine:
        model = model_of()
        engine.add(model)
        await engine.infer("m", rows(3))
    engine.traffic.housing.pages.settle()
    (room,) = model.executable.footprint.rooms
    assert room.arena.reserved_bytes == 0


@on_a_loop
async def test_who_may_go_goes_when_others_need_its_memory():
    async with engine_of(8) as engine:
        engine.add(model_of("a", fixed_bytes=7 * SLAB, may_go=True))
        engine.add(model_of("b"))
        gate = threading.Event()
        engine.add(model_of("c", executable=Echo(PuppetFootprint(), gate)))
        busy = asyncio.ensure_future(engine.infer("c", rows(1)))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(engine.infer("b", rows(1)))
        await asyncio.sleep(0)
        while "a" in engine.model_names():  # noqa: ASYNC110 - the loop has its turn
            await asyncio.sleep(0)
        np.testing.assert_array_equal((await waiting)["x"], rows(1)["x"] + 1)
        gate.set()
        await busy


@on_a_loop
async def test_a_smaller_capacity_takes_idle_pages_at_once():
    async with engine_of(16) as engine:
        engine.add(model_of())
        await engine.infer("m", rows(12))
        assert committed(engine) == {"m": 12 * SLAB}
        engine.resize_pool(4 * SLAB)
        assert committed(engine) == {"m": 4 * SLAB}
        answer = await engine.infer("m", rows(12))
        np.testing.assert_array_equal(answer["x"], rows(12)["x"] + 1)


@on_a_loop
async def test_operators_see_each_share_in_bytes():
    async with engine_of(16) as engine:
        engine.add(model_of(fixed_bytes=SLAB))
        await engine.infer("m", rows(3))
        told = engine.memory()
        assert (told["capacity_bytes"], told["held_bytes"]) == (16 * SLAB, 4 * SLAB)
        (share,) = told["shares"]
        assert share["model"] == "m"
        assert share["counts"]["grow"] == 1


@on_a_loop
async def test_without_a_pool_a_claim_is_nothing():
    async with Engine() as engine:
        model = model_of(limit_bytes=1)
        engine.add(model)
        await engine.infer("m", rows(12))
        assert model.executable.footprint.rooms == []
        assert engine.memory() == {}
