"""A model of PyTorch on a device, from a plan and from graphs, all over puppets on the CPU."""

import logging
import warnings
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.backends.test_torch_planned import MODELS, SHAPES, TINY, inputs_of_all  # noqa: E402
from tests.support.accelerator import Accelerator  # noqa: E402
from tests.support.cuda_driver import Driver  # noqa: E402

from xirang.backends import torch_graphs  # noqa: E402
from xirang.backends.torch import TorchExecutable, torch_file  # noqa: E402
from xirang.backends.torch_place import DevicePlace  # noqa: E402
from xirang.backends.torch_program import open_exported  # noqa: E402
from xirang.backends.torch_study import Feed  # noqa: E402
from xirang.memory.arena import NoMemory  # noqa: E402
from xirang.memory.cuda_arena import SLAB_BYTES  # noqa: E402

pytestmark = pytest.mark.slow

SLABS = 256
RESERVED = SLABS * SLAB_BYTES
CAPTURED = ("encoder", "in place", "pieces", "turned", "longer")
"""Those whose outputs all lie in the plan."""


class Served:
    """A program on the puppet, and the same as PyTorch runs it by itself on the CPU."""

    def __init__(self, folder, name):
        make, self.inputs_of, free = MODELS[name]
        torch.manual_seed(0)
        example = [torch.from_numpy(x) for x in self.inputs(3, 24).values()]
        dims = [torch.export.Dim("rows", min=1, max=64), torch.export.Dim("length", min=1, max=512)]
        shapes = tuple({axis: dims[axis] for axis in axes} for axes in free)
        path = folder / "m.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(make().eval(), tuple(example), dynamic_shapes=shapes)
        torch.export.save(program, path)
        self.plain = torch_file(path, device="cpu")
        self.driver = Driver(slabs=SLABS)
        self.puppet = Accelerator(self.driver)
        opened = open_exported(path, device="cpu")
        self.model = TorchExecutable(opened, DevicePlace(self.puppet), is_governed=True)
        self.names = [spec.name for spec in self.model.outputs]
        feeds = [Feed(*size, self.inputs(*size)) for size in TINY]
        self.footprint = self.model.study(feeds, inputs_of_all(feeds), (8, 64, 256))
        assert self.footprint is not None, self.model.planning
        self.new_room()

    def new_room(self):
        self.arena = self.footprint.arena(RESERVED)
        self.room = self.footprint.room(self.arena)
        self.puppet.fails = None
        self.puppet.log.clear()
        return self.room

    def inputs(self, rows, length, seed=0):
        return self.inputs_of(np.random.default_rng((rows * length, seed)), rows, length)

    def run(self, inputs, length, *, lease_bytes=None):
        rows = len(next(iter(inputs.values())))
        room = self.room
        room.open(rows, length, lease_bytes or self.footprint.peak_bytes(rows, length))
        own = {name: room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return room.run(self.model, own, self.names)

    def is_right(self, inputs, outputs):
        expected = self.plain.run(inputs, self.names)
        return all(
            np.array_equal(outputs[name], expected[name], equal_nan=name != "which")
            or np.abs(outputs[name] - expected[name]).max() <= 1e-6 * np.abs(expected[name]).max()
            for name in self.names
        )

    def runs(self, rows, length, times, *, first=0):
        """Whether all of some runs of one shape, each of other inputs, are right."""
        right = []
        for seed in range(first, first + times):
            inputs = self.inputs(rows, length, seed)
            right.append(self.is_right(inputs, self.run(inputs, length)))
        return all(right)

    def count(self, what):
        return self.puppet.log.count(what)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = {}

    def get(name="encoder"):
        if name not in made:
            made[name] = Served(tmp_path_factory.mktemp("m"), name)
        made[name].new_room()
        return made[name]

    return get


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_the_cpu_at_shapes_that_it_has_not_seen(served, name):
    model = served(name)
    for rows, length in SHAPES:
        assert model.runs(rows, length, 1)
        assert model.room.is_planned
    assert model.count("sent") == 0  # all inputs went by the pinned arena
    assert model.count("wait") == len(SHAPES)


@pytest.mark.parametrize("name", CAPTURED)
def test_what_comes_often_is_captured_once_and_is_right_for_other_inputs(served, name):
    model = served(name)
    assert model.runs(5, 7, 10)
    assert model.runs(3, 9, torch_graphs.HOT - 1)
    assert model.count("capture") == 1
    assert model.count("replay") == model.room.graphs.replays == 11 - torch_graphs.HOT


def test_shapes_in_turns_are_right_whether_they_are_captured_or_not(served):
    model = served()
    for seed in range(12):
        for n in range(torch_graphs.GRAPHS_MAX + 4):
            inputs = model.inputs(1 + n, 8 + n, seed)
            assert model.is_right(inputs, model.run(inputs, 8 + n))
    assert len(model.room.graphs) == torch_graphs.GRAPHS_MAX
    assert model.count("capture") == torch_graphs.GRAPHS_MAX


def test_a_shape_that_comes_much_more_often_takes_the_place_of_another(served):
    model = served()
    for n in range(torch_graphs.GRAPHS_MAX):
        assert model.runs(1 + n, 8, torch_graphs.HOT + (n > 0))
    assert model.runs(20, 8, 2 * torch_graphs.HOT)
    assert len(model.room.graphs) == torch_graphs.GRAPHS_MAX
    assert model.count("capture") == torch_graphs.GRAPHS_MAX
    assert model.runs(20, 8, 1)
    assert model.count("capture") == torch_graphs.GRAPHS_MAX + 1
    assert model.runs(1, 8, 1)  # the coldest: it runs on without
    assert model.count("capture") == torch_graphs.GRAPHS_MAX + 1


def test_counts_of_shapes_do_not_grow_without_end(served):
    graphs = torch_graphs.Graphs(lambda act: (lambda: None, act()))
    for n in range(10 * torch_graphs.SEEN_MAX):
        for _ in range(2):
            graphs.run(n, tuple, reach_bytes=0, outside_bytes=0)
    assert len(graphs._counts) <= torch_graphs.SEEN_MAX


def test_a_capture_that_fails_costs_one_line_and_no_answer(served, caplog):
    model = served()
    model.puppet.fails = RuntimeError("operation not permitted\nwhen stream is capturing")
    with caplog.at_level(logging.INFO, "xirang.backends.torch_graphs"):
        assert model.runs(5, 7, 6)
        assert model.runs(6, 7, 6)
    assert model.count("capture") == 1
    said = [r.getMessage() for r in caplog.records if r.name == torch_graphs.log.name]
    assert said == ["no graphs are captured: operation not permitted"]


def test_what_gives_something_outside_of_the_plan_is_not_captured_and_says_so(served):
    model = served("many")
    assert model.runs(5, 7, 6)
    assert model.count("capture") == 0
    assert "no place in the plan" in model.room.graphs.refusal


def test_large_runs_are_not_captured(served, monkeypatch):
    monkeypatch.setattr(torch_graphs, "OUTSIDE_BYTES", 1)
    model = served()
    assert model.runs(5, 7, 6)
    assert model.count("capture") == 0


def test_a_graph_whose_pages_went_is_captured_anew(served):
    model = served()
    assert model.runs(32, 64, 6)
    need = model.footprint.peak_bytes(32, 64)
    model.arena.resize(need, 0)
    own = range(model.arena.base_address, model.arena.base_address + RESERVED)
    assert not [at for at in model.driver.mapped if at in own]
    assert model.runs(32, 64, 2, first=6)
    assert (model.count("capture"), model.count("cut")) == (2, 1)


def test_a_tail_beyond_it_may_go(served):
    model = served()
    assert model.runs(5, 7, 6)
    assert model.runs(64, 200, 1)
    model.arena.resize(model.footprint.peak_bytes(64, 200), model.footprint.peak_bytes(5, 7))
    assert model.runs(5, 7, 2, first=6)
    assert model.count("capture") == 1


def test_what_lies_outside_of_the_plan_has_no_pages_in_the_arena(served):
    model = served("parts")
    before = len(model.driver.created)
    assert model.runs(16, 64, 1)
    outside = model.footprint.outside_bytes(16, 64)
    lease = model.footprint.peak_bytes(16, 64)
    assert outside >= 16 << 20
    mapped = (len(model.driver.created) - before) * SLAB_BYTES
    assert mapped <= lease - outside + SLAB_BYTES


def test_inputs_that_were_made_anew_on_the_way_are_staged_too(served):
    model = served()
    inputs = model.inputs(5, 7)
    model.room.open(5, 7, 4 * model.footprint.peak_bytes(5, 7))
    assert model.is_right(inputs, model.room.run(model.model, inputs, model.names))
    assert (model.room.is_planned, model.count("sent")) == (True, 0)


def test_a_lease_that_is_too_small_is_refused_with_what_would_do(served):
    model = served()
    inputs = model.inputs(5, 7)
    with pytest.raises(NoMemory) as caught:
        model.run(inputs, 7, lease_bytes=1 << 12)
    needed = caught.value.needed_bytes
    assert model.is_right(inputs, model.run(inputs, 7, lease_bytes=needed))


def test_a_device_that_has_no_more_says_so_and_goes_on(served):
    model = served()
    assert model.runs(5, 7, 1)
    model.driver.slabs, before = len(model.driver.created), model.driver.slabs
    with pytest.raises(NoMemory, match="CUDA driver cannot"):
        model.run(model.inputs(64, 200), 200)
    model.driver.slabs = before
    assert model.runs(64, 200, 1)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_whatever_comes_and_goes_no_answer_is_wrong(served, seed):
    """Shapes that come often and others, cuts of the arena, captures and memory that fail."""
    model, dice = served(), Random(seed)
    often = [(dice.randint(1, 8), dice.choice([5, 8, 17])) for _ in range(12)]
    reach = refused = 0
    for number in range(150):
        rows, length = dice.choice(often)
        if dice.random() < 0.15:
            rows, length = dice.randint(1, 64), dice.choice([3, 40, 300])
        if dice.random() < 0.1:
            keep = dice.randrange(reach + 1)
            model.arena.resize(reach, keep)
            reach = keep
        model.driver.slabs = SLABS if dice.random() < 0.7 else len(model.driver.created)
        need = model.footprint.peak_bytes(rows, length)
        reach = max(reach, need)
        inputs = model.inputs(rows, length, number)
        try:
            outputs = model.run(inputs, length)
        except NoMemory:
            refused += 1
        else:
            assert model.is_right(inputs, outputs)
        if number == 120:
            model.puppet.fails = RuntimeError("no more graphs")
    model.driver.slabs = SLABS
    assert refused
    assert model.count("replay") > 30
    assert model.count("capture") >= len(model.room.graphs)


def test_a_run_that_fails_is_waited_for_too(served, monkeypatch):
    model = served()

    def fail(tensor):
        raise RuntimeError("the device is gone")

    monkeypatch.setattr(model.puppet, "to_host", fail)
    with pytest.raises(RuntimeError, match="gone"):
        model.run(model.inputs(5, 7), 7)
    assert model.count("wait") == 1


def test_outside_of_a_room_it_runs_as_always(served):
    model = served()
    inputs = model.inputs(5, 7)
    assert model.is_right(inputs, model.model.run(inputs, model.names))
    assert model.count("sent") == len(inputs)
