"""Runs in leased memory: planned, or not as planned, or refused; never wrong."""

import gc
import threading

import numpy as np
import pytest
from tests.support.native import Scripted, library, needs_native, rows_of

from xirang.core.memory.law import Traced
from xirang.core.memory.lifetime import Allocate, Free, of_traffic
from xirang.core.memory.polynomial import Polynomial
from xirang.memory.arena import HostArena, NoMemory
from xirang.memory.footprint import NativeFootprint
from xirang.memory.room import KEPT_BYTES, recorded_alone, run_alone, trim_own

pytestmark = needs_native

SIZES = ((1, 4), (1, 8), (2, 4), (2, 8), (3, 4), (3, 8), (1, 12), (2, 12), (3, 12))


def usual(rows, length):
    """Three tensors, the second as large as length², the first not needed any more by then."""
    return [
        Allocate(256 * rows * length),
        Allocate(64 * rows * length * length),
        Free(0),
        Allocate(512 * rows * length),
        Free(1),
        Free(2),
    ]


def unusual(rows, length):
    """As if a mask were dropped: one tensor less, and another size."""
    return [Allocate(100 * rows * length), Allocate(1024 * rows * length), Free(1), Free(0)]


def footprint_of(script=usual):
    samples = [Traced(*size, of_traffic(script(*size))) for size in SIZES]
    return NativeFootprint(library(), samples, [Polynomial((0, 0, 0, 4, 0, 0))], (4, 64))


class Instance:
    """A room, the pages behind it and a model that runs in it."""

    def __init__(self, footprint=None, script=usual):
        self.footprint = footprint or footprint_of()
        self.arena = HostArena(1 << 30)
        self.room = self.footprint.room(self.arena)
        self.model = Scripted(script)

    def run(self, rows, length, lease_bytes=None):
        need = self.footprint.peak_bytes(rows, length)
        self.room.open(rows, length, need if lease_bytes is None else lease_bytes)
        inputs = rows_of(rows, length)
        x = self.room.take(inputs["x"].shape, np.float32)
        x[:] = inputs["x"]
        outputs = self.room.run(self.model, {"x": x}, ["y"])
        assert (outputs["y"] == 2).all()
        assert not np.shares_memory(outputs["y"], self.arena._bytes)
        return outputs

    def is_inside(self, address):
        base = self.arena.base_address
        return base <= address < base + self.arena.reserved_bytes


@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (5, 7), (8, 64), (33, 100)])
def test_a_run_takes_exactly_what_was_predicted(shape):
    instance = Instance()
    instance.run(*shape)
    assert instance.room.is_planned
    assert instance.room.peak_bytes == instance.footprint.peak_bytes(*shape)
    assert all(instance.is_inside(address) for address, _ in instance.model.addresses)


def test_inputs_lie_at_the_bottom_and_the_rest_above():
    instance = Instance()
    instance.run(3, 5)
    lowest = min(address for address, _ in instance.model.addresses)
    assert lowest == instance.arena.base_address + 64  # 3 × 5 floats take a line of 64 bytes


def test_a_lease_that_grows_leaves_the_inputs_where_they_are():
    instance = Instance()
    need = instance.footprint.peak_bytes(2, 8)
    instance.room.open(2, 8, 1000)
    x = instance.room.take((2, 8), np.float32)
    x[:] = 1
    with pytest.raises(NoMemory) as raised:
        instance.room.run(instance.model, {"x": x}, ["y"])
    assert raised.value.needed_bytes == need
    instance.room.extend(need)
    outputs = instance.room.run(instance.model, {"x": x}, ["y"])
    assert (outputs["y"] == 2).all()
    assert instance.room.is_planned


def test_without_room_an_input_lies_anywhere():
    instance = Instance()
    instance.room.open(1, 1, 100)
    assert np.shares_memory(instance.room.take((25,), np.float32), instance.arena._bytes)
    assert not np.shares_memory(instance.room.take((1,), np.float32), instance.arena._bytes)
    assert instance.room.take((2,), object).dtype == object


@pytest.mark.parametrize("shape", [(1, 8), (8, 64)])
def test_a_lease_that_is_too_small_is_refused_before_the_run_begins(shape):
    instance = Instance()
    need = instance.footprint.peak_bytes(*shape)
    with pytest.raises(NoMemory, match=f"take {need} bytes; the lease has {need - 1}"):
        instance.run(*shape, lease_bytes=need - 1)
    assert instance.model.addresses == []
    instance.run(*shape)
    assert instance.room.is_planned


def test_the_largest_batch_passes_and_one_more_does_not():
    instance = Instance()
    for length in (1, 3, 8, 20, 64, 111):
        rows = instance.footprint.rows_max(length, 10_000_000)
        instance.run(rows, length, 10_000_000)
        with pytest.raises(NoMemory):
            instance.run(rows + 1, length, 10_000_000)


def test_an_unknown_trace_runs_and_is_learned():
    instance = Instance()
    footprint = instance.footprint
    instance.model.script = unusual
    instance.run(2, 8)
    assert not instance.room.is_planned
    instance.run(2, 8)
    footprint.settle()
    assert footprint.lessons == 1
    instance.run(2, 8)
    assert instance.room.is_planned
    instance.model.script = usual
    for _ in range(2):  # back to what it knows already
        instance.run(4, 8)
    assert instance.room.is_planned
    assert footprint.lessons == 1


def test_a_run_that_is_larger_than_foreseen_is_finished_all_the_same():
    instance = Instance(script=lambda rows, length: [Allocate(1 << 20), Allocate(1 << 20)])
    instance.run(1, 1)
    assert not instance.room.is_planned
    assert instance.room.peak_bytes >= 2 << 20
    need = instance.footprint.peak_bytes(1, 1)
    instance.run(1, 1)
    instance.footprint.settle()
    assert instance.footprint.peak_bytes(1, 1) >= 2 << 20 > need


def test_a_model_that_never_runs_twice_alike_is_not_studied_forever(monkeypatch):
    monkeypatch.setattr("xirang.memory.footprint.LESSONS_MAX", 5)
    dice = np.random.default_rng(0)
    instance = Instance(
        script=lambda *_: [Allocate(int(n)) for n in dice.integers(1, 1 << 20, dice.integers(1, 9))]
    )
    for _ in range(40):
        instance.run(1, 1)
        instance.footprint.settle()
    assert instance.footprint.lessons == 5
    assert len(instance.footprint._variants) <= 8


@pytest.mark.parametrize("script", [usual, unusual])
def test_each_request_may_be_refused_in_turn(script):
    instance = Instance(script=script)
    told = instance.room._ground.run
    for number in range(sum(isinstance(step, Allocate) for step in script(2, 8))):
        told.refuse_at = number
        with pytest.raises(MemoryError):
            instance.run(2, 8)
        assert told.leftover_bytes == 0
        told.refuse_at = -1
        instance.run(2, 8)


def test_a_run_that_fails_teaches_nothing():
    instance = Instance(script=unusual)
    instance.run(2, 8)  # not as planned: the next run is recorded
    told = instance.room._ground.run
    told.refuse_at = 1
    with pytest.raises(MemoryError):
        instance.run(2, 8)
    told.refuse_at = -1
    instance.footprint.settle()
    assert instance.footprint.lessons == 0
    for _ in range(2):
        instance.run(2, 8)
    instance.footprint.settle()
    assert instance.footprint.lessons == 1


def test_outputs_are_copied_only_if_they_lie_in_the_runs_memory():
    instance = Instance()

    class Echo:
        def run(self, inputs, wanted):
            return {"y": inputs["x"] + inputs["x"], "x": inputs["x"]}

    instance.room.open(2, 2, 1 << 20)
    x = instance.room.take((2, 2), np.float32)
    x[:] = 1
    outputs = instance.room.run(Echo(), {"x": x}, ["y", "x"])
    assert not np.shares_memory(outputs["x"], x)
    x[:] = 9
    assert outputs["x"].tolist() == [[1, 1], [1, 1]]


def test_two_models_share_an_arena_by_turns():
    first, second = Instance(), Instance(footprint_of(unusual), unusual)
    second.arena = first.arena
    second.room = second.footprint.room(first.arena)
    for shape in ((2, 8), (9, 30), (1, 1)):
        for instance in (first, second):
            instance.run(*shape)
            assert instance.room.is_planned


def test_threads_keep_to_their_own_arenas():
    footprint, wrong = footprint_of(), []

    def live(seed):
        instance, dice = Instance(footprint), np.random.default_rng(seed)
        for _ in range(200):
            instance.run(int(dice.integers(1, 20)), int(dice.integers(1, 60)))
            inside = all(instance.is_inside(address) for address, _ in instance.model.addresses)
            wrong.extend([seed] * (not (inside and instance.room.is_planned)))

    threads = [threading.Thread(target=live, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_without_a_lease_a_thread_has_an_arena_of_its_own_which_is_trimmed():
    model = Scripted(lambda rows, _: [Allocate(rows << 20)])
    found = run_alone(library(), model, rows_of(2, 3), ["y"])
    assert (found["y"] == 2).all()
    ((first, _),) = model.addresses
    run_alone(library(), model, rows_of(KEPT_BYTES >> 19, 3), ["y"])
    ((second, _),) = model.addresses
    assert first == second
    for _ in range(50):
        run_alone(library(), model, rows_of(1, 3), ["y"])
    from xirang.memory import room

    assert room._thread.own._touched <= KEPT_BYTES + (2 << 20)
    trim_own()
    assert room._thread.own._touched == 0
    run_alone(library(), model, rows_of(1, 3), ["y"])


def test_inside_of_a_room_nothing_else_is_begun():
    instance = Instance()

    class Around:
        def run(self, inputs, wanted):
            return run_alone(library(), instance.model, inputs, wanted)

    need = instance.footprint.peak_bytes(2, 8)
    instance.room.open(2, 8, need)
    instance.room.run(Around(), rows_of(2, 8), ["y"])
    assert instance.room.is_planned


def test_a_run_is_recorded_as_it_was():
    assert recorded_alone(library(), Scripted(usual), rows_of(2, 3), ["y"]) == usual(2, 3)


@pytest.mark.parametrize("after", [0, 1, 5])
def test_an_arena_that_is_closed_under_a_run_stays_until_that_has_ended(after):
    """Unloading a model takes its arenas away; a run that hangs in one may go on some day."""
    instance = Instance()

    def script(rows, length):
        for number, step in enumerate(usual(rows, length)):
            if number == after:
                instance.arena.close()
                HostArena(1 << 20)  # somebody else comes and goes meanwhile
                gc.collect()
            yield step

    instance.model.script = script
    outputs = instance.run(4, 9)
    assert (outputs["y"] == 2).all()
    assert instance.room.is_planned
    instance.model.script = usual
    with pytest.raises(NoMemory):
        instance.run(4, 9, 1 << 20)


def test_ten_thousand_shapes_leave_small_tables_and_the_same_plans(monkeypatch):
    monkeypatch.setattr("xirang.memory.footprint.CACHED_MAX", 256)
    instance = Instance()
    for number in range(10_000):
        instance.run(1 + number % 100, 1 + number // 100)
        assert instance.room.is_planned
    footprint = instance.footprint
    assert max(len(footprint._peaks), len(footprint._bests)) <= 256
    assert len(footprint._variants[0].structures) <= 6
    assert footprint.lessons == 0


def test_where_no_addresses_are_free_runs_go_on_without(monkeypatch):
    def refuse(_library):
        raise NoMemory("no addresses")

    monkeypatch.setattr("xirang.memory.room.OwnGround", refuse)
    found = []

    def live():
        found.append(run_alone(library(), Scripted(usual), rows_of(2, 3), ["y"]))

    thread = threading.Thread(target=live)
    thread.start()
    thread.join()
    assert (found[0]["y"] == 2).all()


def test_a_way_that_only_one_row_goes_is_planned_and_costs_others_nothing():
    def by_rows(rows, length):
        return unusual(rows, length) if rows == 1 else usual(rows, length)

    sizes = [(rows, length) for rows in (1, 2, 3, 4) for length in (4, 8, 12)]
    samples = [Traced(*size, of_traffic(by_rows(*size))) for size in sizes]
    found = NativeFootprint(library(), samples, [Polynomial((0, 0, 0, 4, 0, 0))], (4, 64))
    instance = Instance(found, by_rows)
    for rows in (1, 8, 1, 30, 2, 1):
        for length in (5, 33, 64):
            instance.run(rows, length)
            assert instance.room.is_planned, (rows, length)
    assert found.lessons == 0
    assert found.peak_bytes(30, 64) == footprint_of(usual).peak_bytes(30, 64)


def test_runs_of_a_shape_go_as_the_last_of_them_whatever_others_do():
    """As where a kernel is another from some size on, of which the tiny runs showed nothing."""

    def by_size(rows, length):
        large = [Allocate(4096 * rows * length), Free(0), Allocate(64 * rows * length), Free(1)]
        return large if rows > 10 else usual(rows, length)

    instance = Instance(footprint_of(usual), by_size)
    for _ in range(3):
        instance.run(16, 20)
        instance.footprint.settle()
    lessons = instance.footprint.lessons
    for rows, length in [(16, 20), (2, 8), (16, 20), (3, 9), (40, 30), (1, 4)] * 3:
        instance.run(rows, length)
        assert instance.room.is_planned, (rows, length)
        instance.footprint.settle()
    assert instance.footprint.lessons == lessons == 1


def test_rooms_that_are_gone_leave_nothing_behind():
    places = set()
    gc.collect()
    for _ in range(20):
        instance = Instance()
        instance.run(1, 1)
        places.add(instance.room._ground.run.arena % 1024)
        del instance
        gc.collect()
    assert len(places) == 1, "each takes the place of the one before"
