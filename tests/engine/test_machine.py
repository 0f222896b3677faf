"""The pool follows the machine, and under pressure gives back at once what no run uses."""

import asyncio
import threading

import numpy as np
from tests.engine.test_memory import (
    SLAB,
    Echo,
    PuppetFootprint,
    committed,
    engine_of,
    model_of,
    on_a_loop,
    rows,
)
from tests.support.puppets import ManualClock

from xirang.engine.machine import SHORT, Machine


class Shared:
    def __init__(self):
        self.told = []

    def resize_pool(self, capacity_bytes, *, is_pressed=False):
        self.told.append((capacity_bytes, is_pressed))


class Readings:
    """What the system says, as a test wants it."""

    def __init__(self, capacity_bytes=100, pressure=0.0):
        self.capacity_bytes = capacity_bytes
        self.pressure = pressure

    def machine(self, shared):
        return Machine(
            shared,
            ManualClock(),
            capacity=lambda: self.capacity_bytes,
            pressure=lambda _now_ns: self.pressure,
        )


def test_it_tells_of_what_has_changed_and_of_nothing_else():
    shared, readings = Shared(), Readings()
    machine = readings.machine(shared)
    machine.look()
    readings.capacity_bytes = 70
    machine.look()
    machine.look()
    readings.capacity_bytes = None
    machine.look()
    assert shared.told == [(70, False)]


def test_it_says_at_each_look_that_memory_is_short_and_logs_it_once(caplog):
    shared, readings = Shared(), Readings(pressure=SHORT)
    machine = readings.machine(shared)
    machine.look()
    machine.look()
    readings.pressure = SHORT / 2
    machine.look()
    assert shared.told == [(100, True), (100, True)]
    assert caplog.text.count("short of memory") == 1


@on_a_loop
async def test_under_pressure_the_surplus_goes_at_once_and_runs_keep_what_they_have():
    gate = threading.Event()
    async with engine_of(30) as engine:
        engine.add(model_of("a", keep_bytes=2 * SLAB))
        engine.add(model_of("b", executable=Echo(PuppetFootprint(), gate)))
        await engine.infer("a", rows(12))
        running = asyncio.ensure_future(engine.infer("b", rows(3)))
        while committed(engine)["b"] == 0:  # noqa: ASYNC110 - the loop has its turn
            await asyncio.sleep(0)
        readings = Readings(30 * SLAB, pressure=1.0)
        readings.machine(engine).look()
        assert committed(engine) == {"a": 0, "b": 3 * SLAB}
        gate.set()
        np.testing.assert_array_equal((await running)["x"], rows(3)["x"] + 1)
        np.testing.assert_array_equal((await engine.infer("a", rows(9)))["x"], rows(9)["x"] + 1)
        engine.check_integrity()
