"""PyTorch from a plan: the answers of the program itself, whatever it does with its memory."""

import json
import threading
import warnings
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.support import planned_models  # noqa: E402
from tests.support.torch_models import Counter  # noqa: E402

from xirang.backends.executable import footprint_of  # noqa: E402
from xirang.backends.torch import torch_file, torch_module  # noqa: E402
from xirang.backends.torch_allocations import taken_bytes  # noqa: E402
from xirang.backends.torch_study import Feed  # noqa: E402
from xirang.core.memory.fitting import Measured, fit  # noqa: E402
from xirang.core.memory.polynomial import Polynomial  # noqa: E402
from xirang.errors import InvalidRequest  # noqa: E402
from xirang.memory.arena import HostArena, NoMemory  # noqa: E402

pytestmark = pytest.mark.slow

TINY = [(rows, length) for rows in (1, 2, 3) for length in (8, 16, 24)]
SHAPES = [(1, 1), (1, 8), (5, 7), (16, 33), (32, 64), (3, 200), (64, 12)]
ARENA_BYTES = 1 << 30


def ids_and_mask(dice, rows, length):
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": dice.integers(0, 100, (rows, length)), "mask": mask}


def floats(*rest):
    def make(dice, rows, length):
        sizes = [length if size is None else size for size in rest]
        return {"x": dice.standard_normal((rows, *sizes), np.float32)}

    return make


MODELS = {
    "encoder": (planned_models.Encoder, ids_and_mask, ({0, 1}, {0, 1})),
    "parts": (lambda: planned_models.Encoder(is_whole=False), ids_and_mask, ({0, 1}, {0, 1})),
    "pictures": (planned_models.Pictures, floats(3, 8, 8), ({0},)),
    "in place": (planned_models.InPlace, floats(None, 4), ({0, 1},)),
    "pieces": (planned_models.Pieces, floats(None, 4), ({0, 1},)),
    "turned": (planned_models.Turned, floats(6, 6), ({0},)),
    "squares": (planned_models.Squares, floats(5, 5), ({0},)),
    "many": (planned_models.Many, floats(None, 4), ({0, 1},)),
    "recurrent": (planned_models.Recurrent, floats(6, 4), ({0},)),
    "longer": (planned_models.Longer, floats(None, 4), ({0, 1},)),
}


def inputs_of_all(feeds):
    sizes = [
        Measured(feed.rows, feed.length, sum(x.nbytes for x in feed.inputs.values()))
        for feed in feeds
    ]
    found, is_exact = fit(sizes)
    assert is_exact
    # Each begins at a multiple of 64 bytes.
    return [found, Polynomial((128, 0, 0, 0, 0, 0))]


class Served:
    """A program in a room, and the same as PyTorch runs it by itself."""

    def __init__(self, folder, module, inputs_of, free):
        torch.manual_seed(0)
        self.inputs_of = inputs_of
        example = [torch.from_numpy(x) for x in self.inputs(3, 24).values()]
        dims = [torch.export.Dim("rows", min=1, max=64), torch.export.Dim("length", min=1, max=512)]
        shapes = tuple({axis: dims[axis] for axis in axes} for axes in free)
        path = folder / "m.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module.eval(), tuple(example), dynamic_shapes=shapes)
        torch.export.save(program, path)
        self.model, self.plain = torch_file(path, is_governed=True), torch_file(path)
        self.names = [spec.name for spec in self.model.outputs]
        self.feeds = [Feed(*size, self.inputs(*size)) for size in TINY]
        self.footprint = self.model.study(self.feeds, inputs_of_all(self.feeds), (8, 64, 256))
        if self.footprint is not None:
            self.arena = HostArena(ARENA_BYTES)
            self.room = self.footprint.room(self.arena)

    def inputs(self, rows, length):
        return self.inputs_of(np.random.default_rng(rows * length), rows, length)

    def run(self, inputs, *, lease_bytes=None, room=None, length=None):
        room = room or self.room
        rows, *rest = next(iter(inputs.values())).shape
        length = length or rest[0]
        need = self.footprint.peak_bytes(rows, length)
        room.open(rows, length, need if lease_bytes is None else lease_bytes)
        # What is read before it is written is not a number.
        room._arena.view(0, np.uint8, (need,))[...] = 255
        own = {name: room.take(array.shape, array.dtype) for name, array in inputs.items()}
        for name, array in inputs.items():
            own[name][...] = array
        return room.run(self.model, own, self.names)

    def differs(self, inputs, outputs):
        expected = self.plain.run(inputs, self.names)
        return [
            name
            for name in self.names
            if not np.array_equal(outputs[name], expected[name], equal_nan=name != "which")
        ]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            make, inputs_of, free = MODELS[name]
            made[name] = Served(tmp_path_factory.mktemp("m"), make(), inputs_of, free)
        return made[name]

    return get


@pytest.fixture(autouse=True)
def _from_graphs(monkeypatch):
    """However little of a model a graph places, here that is what it does."""
    monkeypatch.setattr("xirang.backends.torch.allocator", lambda: None)


NEAR = ("parts", "recurrent")
"""Whose kernels go by how many rows there are, or by where they lie."""


@pytest.mark.parametrize("name", [name for name in MODELS if name not in NEAR])
def test_the_same_bits_at_shapes_that_it_has_not_seen(served, name):
    model = served(name)
    assert model.footprint is not None, model.model.planning
    assert "the same bits" in model.model.planning
    for shape in SHAPES:
        inputs = model.inputs(*shape)
        outputs = model.run(inputs, length=shape[1])
        assert model.room.is_planned
        assert not model.differs(inputs, outputs), shape


@pytest.mark.parametrize("name", NEAR)
def test_others_are_within_a_millionth(served, name):
    model = served(name)
    for shape in SHAPES:
        inputs = model.inputs(*shape)
        outputs = model.run(inputs)
        expected = model.plain.run(inputs, model.names)
        assert model.room.is_planned
        for output in model.names:
            difference = np.abs(outputs[output] - expected[output]).max()
            assert difference <= 1e-6 * np.abs(expected[output]).max()


def test_the_peak_is_known_and_less_than_without_a_plan(served):
    model = served("encoder")
    rows, length = 32, 64
    inputs = model.inputs(rows, length)
    foreseen = model.footprint.peak_bytes(rows, length)
    outside = model.footprint.outside_bytes(rows, length)
    program, tensors = model.room.program, tensors_of(inputs)
    model.room.open(rows, length, foreseen)
    with torch.inference_mode():
        model.room.call(tensors)
        assert taken_bytes(lambda: model.room.call(tensors)) <= outside
        alone = taken_bytes(lambda: model.plain.run(inputs, model.names))
    assert model.room.peak_bytes <= foreseen <= 0.8 * alone + sum(x.nbytes for x in inputs.values())
    assert max(peak.bytes_at(rows, length) for peak in model.footprint.peaks) >= foreseen
    assert all(block.root.node.name for block in program.outside)


def tensors_of(inputs):
    return {name: torch.from_numpy(array.copy()) for name, array in inputs.items()}


@pytest.mark.parametrize("length", [1, 8, 24, 100, 256])
def test_the_largest_batch_of_a_budget_passes_and_one_row_more_does_not(served, length):
    model, budget = served("encoder"), 3_000_000
    rows = model.footprint.rows_max(length, budget)
    assert rows > 0
    assert model.footprint.peak_bytes(rows, length) <= budget
    assert model.footprint.peak_bytes(rows + 1, length) > budget
    if rows < 64:
        model.run(model.inputs(rows, length), lease_bytes=budget)
        with pytest.raises(NoMemory, match="the lease has 3000000") as refused:
            model.run(model.inputs(rows + 1, length), lease_bytes=budget)
        needed = refused.value.needed_bytes
        inputs = model.inputs(rows + 1, length)
        assert not model.differs(inputs, model.run(inputs, lease_bytes=needed))


def test_a_refused_run_goes_on_in_place_when_its_lease_is_extended(served):
    model = served("encoder")
    inputs, room = model.inputs(4, 30), model.room
    with pytest.raises(NoMemory) as refused:
        model.run(inputs, lease_bytes=100_000)
    room.extend(refused.value.needed_bytes)
    assert not model.differs(inputs, room.run(model.model, inputs, model.names))
    assert room.is_planned


def test_answers_stay_when_the_next_run_overwrites_the_arena(served):
    for name in ("encoder", "squares", "in place", "pieces"):
        model = served(name)
        first = model.inputs(4, 9)
        outputs = model.run(first)
        model.run(model.inputs(8, 30))
        assert not model.differs(first, outputs)


def test_parts_are_copied_wherever_the_inputs_lie(served):
    model = served("pieces")
    first = model.inputs(4, 9)
    model.room.open(4, 9, 1 << 20)
    outputs = model.room.run(model.model, first, model.names)
    assert model.room.is_planned
    model.run(model.inputs(8, 30))
    assert not model.differs(first, outputs)


def test_inputs_from_elsewhere_and_inputs_that_are_not_dense_are_as_good(served):
    model = served("turned")
    inputs = model.inputs(3, 6)
    model.room.open(3, 6, 1 << 20)
    assert not model.differs(inputs, model.room.run(model.model, inputs, model.names))
    assert model.room.is_planned
    turned = {"x": np.ascontiguousarray(inputs["x"].transpose(0, 2, 1)).transpose(0, 2, 1)}
    assert not model.differs(turned, model.room.run(model.model, turned, model.names))
    assert not model.room.is_planned


def test_what_the_program_was_not_made_for_is_its_own_to_refuse(served):
    model = served("in place")
    with pytest.raises(InvalidRequest, match="refused its input"):
        model.run(model.inputs(65, 5))
    assert not model.room.is_planned


@pytest.mark.parametrize("wrong", [-1, 100, 1 << 40])
def test_an_index_that_no_table_has_is_the_requests_fault(served, wrong):
    model = served("encoder")
    inputs = model.inputs(3, 9)
    inputs["ids"][1, 2] = wrong
    with pytest.raises(InvalidRequest, match="index out of range"):
        model.run(inputs)
    good = model.inputs(3, 9)
    assert not model.differs(good, model.run(good))


def test_many_shapes_do_not_fill_memory(served):
    model = served("turned")
    for rows in range(1, 65):
        model.run(model.inputs(rows, 6))
    assert len(model.room._bound) <= 32


def test_two_models_in_two_threads_at_once_are_never_wrong(served):
    wrong = []

    def work(model, seed):
        dice = Random(seed)
        room = model.footprint.room(HostArena(ARENA_BYTES))
        for _ in range(40):
            inputs = model.inputs(dice.randint(1, 20), dice.randint(1, 60))
            outputs = model.run(inputs, room=room)
            if model.differs(inputs, outputs) or not room.is_planned:
                wrong.append(inputs)

    pairs = [(served(name), seed) for seed, name in enumerate(("encoder", "many") * 2)]
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_outside_of_a_room_it_runs_as_always(served):
    model = served("encoder")
    inputs = model.inputs(2, 8)
    assert not model.differs(inputs, model.model.run(inputs, model.names))


# ---------------------------------------------------------------------- programs at random

UNARY = ("relu", "tanh", "exp", "abs", "neg", "sigmoid", "clone", "contiguous")


class Mixed(torch.nn.Module):
    """Operations in an order drawn by lot, over tensors [rows, n, n] of any strides."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.LayerNorm(6)

    def forward(self, x):
        dice, made = Random(self.seed), [x * 0.5]
        for _ in range(24):
            made.append(self._next(dice, dice.choice(made), dice.choice(made)))
        return made[-1], made[-1][:, 0], dice.choice(made).sum(1)

    def _next(self, dice, one, other):  # noqa: PLR0911 (one way each)
        match dice.randrange(10):
            case 0 | 1:
                return getattr(one, dice.choice(UNARY))().clamp(-3, 3)
            case 2:
                return one + other
            case 3:
                return one.transpose(1, 2)
            case 4:
                return torch.softmax(one @ other, -1)
            case 5:
                return self.linear(one)
            case 6:
                return self.norm(one) * other
            case 7:
                return torch.cat([one[:, 2:], other[:, :2]], 1)
            case 8:
                written = one.clone()
                written[:, 1:].mul_(0.5).add_(other[:, :1])
                return written
            case _:
                return one.transpose(1, 2).reshape(-1, 36).view(-1, 6, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_whatever_order_of_operations_gives_the_same_answers(tmp_path, seed):
    model = Served(tmp_path, Mixed(seed), floats(6, 6), ({0},))
    assert model.footprint is not None, model.model.planning
    for rows in (1, 2, 7, 30, 64):
        inputs = model.inputs(rows, 6)
        outputs = model.run(inputs)
        expected = model.plain.run(inputs, model.names)
        assert model.room.is_planned
        for name in model.names:
            np.testing.assert_allclose(outputs[name], expected[name], 1e-5, 1e-6)


# ---------------------------------------------------------------------- without a plan


def test_shapes_that_hang_on_data_have_no_plan_and_say_so(tmp_path):
    model = Served(tmp_path, planned_models.Chosen(), floats(4), ({0},))
    assert model.footprint is None
    assert model.model.planning == "runs unplanned: its shapes depend on its data"
    inputs = model.inputs(3, 1)
    assert not model.differs(inputs, model.model.run(inputs, model.names))


def test_what_keeps_something_has_no_plan(tmp_path):
    model = Served(tmp_path, Counter(), floats(4), ({0},))
    assert "it may keep something from call to call" in model.model.planning


def test_a_module_is_planned_if_it_says_that_it_keeps_nothing():
    module = planned_models.Encoder()
    module.inputs = {name: ("INT64", ["tokens"]) for name in ("ids", "mask")}
    module.outputs = {"vector": ("FP32", [32])}
    dice = np.random.default_rng(0)
    feeds = [Feed(*size, ids_and_mask(dice, *size)) for size in TINY]
    closed = torch_module(module, name="m", is_governed=True)
    assert closed.study(feeds, inputs_of_all(feeds), (8, 64)) is None
    assert "is_reentrant is not true" in closed.planning
    module.is_reentrant = True
    model = torch_module(module, name="m", is_governed=True)
    model.footprint = model.study(feeds, inputs_of_all(feeds), (8, 64))
    assert footprint_of(model) is not None, model.planning
    room = model.footprint.room(HostArena(ARENA_BYTES))
    for size in SHAPES:
        inputs = ids_and_mask(dice, *size)
        room.open(*size, model.footprint.peak_bytes(*size))
        outputs = room.run(model, inputs, ["vector"])
        assert room.is_planned
        assert np.array_equal(outputs["vector"], closed.run(inputs, ["vector"])["vector"])


def test_torchscript_has_no_plan(tmp_path):
    said = {"inputs": {"input": ["FP32", [4]]}, "outputs": {"y": ["FP32", [4]]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(torch.nn.ReLU())
        torch.jit.save(
            script, tmp_path / "m.pt", _extra_files={"_xirang_signature": json.dumps(said)}
        )
    model = torch_file(tmp_path / "m.pt", is_governed=True)
    assert model.study([Feed(1, 1, {"x": np.ones((1, 4), np.float32)})], [], (1,)) is None
    assert model.planning == "runs unplanned: TorchScript has no graph that could be planned"
