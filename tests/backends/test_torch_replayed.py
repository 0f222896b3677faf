"""PyTorch as it is, in our arenas: the same bits, each allocation where it was planned."""

import json
import threading
import warnings
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings, strategies as st  # noqa: E402
from tests.support import planned_models, replayed_models  # noqa: E402
from tests.support.replayed_models import declared, pictures, tokens, tokens_and_mask  # noqa: E402
from tests.support.torch_native import (  # noqa: E402
    ARENA_BYTES,
    Replayed,
    alike,
    eager,
    needs_allocator,
)

from xirang.backends.executable import OutOfMemory  # noqa: E402
from xirang.backends.torch import torch_file  # noqa: E402
from xirang.backends.torch_allocations import taken_bytes  # noqa: E402
from xirang.memory.arena import HostArena, NoMemory  # noqa: E402

pytestmark = pytest.mark.slow

SHAPES = [(1, 1), (1, 8), (5, 7), (16, 33), (32, 64), (3, 200), (64, 12)]
FLOATS = {"x": ("FP32", ["tokens", 4])}
SIDE = 32


@pytest.fixture(scope="module", autouse=True)
def _native():
    needs_allocator()


def encoder():
    torch.manual_seed(0)
    says = {name: ("INT64", ["tokens"]) for name in ("ids", "mask")}
    module = declared(planned_models.Encoder(), says, {"vector": ("FP32", [32])})
    return Replayed(*eager(module), ids_and_mask)


def ids_and_mask(dice, rows, length):
    mask = np.ones((rows, length), np.int64)
    mask[0, length // 2 + 1 :] = 0
    return {"ids": dice.integers(0, 100, (rows, length)), "mask": mask}


def residual():
    torch.manual_seed(0)
    says = {"x": ("FP32", [3, SIDE, SIDE])}
    module = declared(replayed_models.Residual(), says, {"scores": ("FP32", [10])})
    # Its size is fixed, so that its runs have no length.
    return Replayed(
        *eager(module),
        lambda dice, rows, _: pictures(dice, rows, SIDE),
        sizes=[(rows, 1) for rows in (1, 2, 3)],
        lengths=(1,),
    )


def script(folder, how):
    torch.manual_seed(0)
    module = replayed_models.Residual().eval()
    says = {"inputs": {"x": ["FP32", [3, SIDE, SIDE]]}, "outputs": {"scores": ["FP32", [10]]}}
    path = folder / f"{how}.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = torch.zeros(2, 3, SIDE, SIDE)
        made = torch.jit.script(module) if how == "script" else torch.jit.trace(module, example)
        torch.jit.save(made, path, _extra_files={"_xirang_signature": json.dumps(says)})
    return Replayed(
        torch_file(path, is_governed=True),
        torch_file(path),
        lambda dice, rows, _: pictures(dice, rows, SIDE),
        sizes=[(rows, 1) for rows in (1, 2, 3)],
        lengths=(1,),
    )


def text_script(folder):
    torch.manual_seed(0)
    module, example = planned_models.Encoder().eval(), ids_and_mask(np.random.default_rng(0), 3, 24)
    says = {
        "inputs": {name: ["INT64", ["tokens"]] for name in example},
        "outputs": {"vector": ["FP32", [32]]},
    }
    path = folder / "encoder.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensors = tuple(torch.from_numpy(x) for x in example.values())
        made = torch.jit.trace(module, tensors, check_trace=False)
        torch.jit.save(made, path, _extra_files={"_xirang_signature": json.dumps(says)})
    return Replayed(torch_file(path, is_governed=True), torch_file(path), ids_and_mask)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = {}
    ways = {
        "encoder": encoder,
        "residual": residual,
        "script": lambda: script(tmp_path_factory.mktemp("m"), "script"),
        "trace": lambda: script(tmp_path_factory.mktemp("m"), "trace"),
        "text script": lambda: text_script(tmp_path_factory.mktemp("m")),
    }

    def get(name):
        if name not in made:
            made[name] = ways[name]()
        return made[name]

    return get


def ask(model, size, *, seed=1, **options):
    inputs = model.inputs_of(np.random.default_rng(seed), *size)
    outputs = model.run(inputs, size=size, **options)
    assert model.is_same(inputs, outputs), size
    return outputs


def learned(model, size):
    """Runs until it goes by a plan, which is three times at most."""
    for _ in range(4):
        ask(model, size)
        if model.room.is_planned:
            return
        model.footprint.settle()
    raise AssertionError(f"{size} is never planned")


# ---------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bits_in_exactly_the_memory_that_was_foreseen(served, shape):
    model = served("encoder")
    assert "each of" in model.model.planning
    assert "is_reentrant is not true" in model.model.planning
    ask(model, shape)
    assert model.told.hits == model.told.requests > 10
    assert model.room.is_planned
    assert model.room.peak_bytes == model.footprint.peak_bytes(*shape)
    assert model.told.leftover_bytes == model.told.spilled_bytes == 0


@pytest.mark.parametrize("name", ["residual", "script", "trace"])
def test_convolutions_are_planned_whatever_way_they_go(served, name):
    """One row, some, and sixteen or more go three ways in oneDNN; the last is learned."""
    model = served(name)
    for rows in (1, 2, 5, 15, 16, 40):
        learned(model, (rows, 1))
    for rows in (1, 4, 30, 2, 16, 7, 1, 40):
        ask(model, (rows, 1))
        assert model.room.is_planned, rows
        assert model.told.spilled_bytes == 0


def test_a_lease_is_as_large_as_what_pytorch_has_alive(served):
    model = served("encoder")
    ask(model, (32, 64))
    inputs = sum(x.nbytes for x in ids_and_mask(np.random.default_rng(0), 32, 64).values())
    alive = model.told.alive_peak_bytes + inputs
    assert alive <= model.footprint.peak_bytes(32, 64) <= 1.01 * alive


def test_torchscript_writes_activations_over_their_arguments(served):
    model = served("text script")
    ask(model, (32, 64))
    assert model.room.is_planned
    inputs = model.inputs_of(np.random.default_rng(0), 32, 64)
    with torch.inference_mode():
        alone = taken_bytes(lambda: model.plain.run(inputs, model.names))
    assert model.footprint.peak_bytes(32, 64) <= 0.75 * alone


def test_answers_stay_when_the_next_run_overwrites_the_arena(served):
    for name, size in (("encoder", (4, 9)), ("residual", (3, 1))):
        model = served(name)
        first = model.inputs_of(np.random.default_rng(2), *size)
        outputs = model.run(first, size=size)
        for _ in range(3):
            ask(model, (8, 30) if name == "encoder" else (8, 1))
        assert model.is_same(first, outputs)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10_000),
    sizes=st.lists(st.tuples(st.integers(1, 20), st.integers(2, 40)), min_size=4, max_size=8),
)
def test_whatever_order_of_layers_gives_the_same_bits(seed, sizes):
    torch.manual_seed(seed)
    module = declared(
        replayed_models.Drawn(seed),
        {"x": ("FP32", ["tokens", 8])},
        {"made": ("FP32", ["tokens", 8]), "sum": ("FP32", [8])},
    )
    model = Replayed(*eager(module), tokens(8))
    assert model.footprint is not None, model.model.planning
    for rows, half in sizes:
        ask(model, (rows, 2 * half))
        model.footprint.settle()
        assert model.told.leftover_bytes == 0


def test_several_threads_in_a_run_allocate_from_the_system(served):
    says = {"x": ("FP32", [3, SIDE, SIDE])}
    module = declared(replayed_models.Residual(), says, {"scores": ("FP32", [10])})
    model = Replayed(
        *eager(module, threads=2),
        lambda dice, rows, _: pictures(dice, rows, SIDE),
        sizes=[(rows, 1) for rows in (1, 2, 3)],
        lengths=(1,),
    )
    for rows in (2, 8, 2, 8):
        ask(model, (rows, 1))
        model.footprint.settle()
    assert model.told.leftover_bytes == 0
    torch.set_num_threads(1)


# ---------------------------------------------------------------------- limits


@pytest.mark.parametrize("length", [1, 24, 100, 256])
def test_the_largest_batch_of_a_budget_passes_and_one_row_more_does_not(served, length):
    model, budget = served("encoder"), 3_000_000
    rows = model.footprint.rows_max(length, budget)
    ask(model, (rows, length), lease_bytes=budget)
    with pytest.raises(NoMemory, match="the lease has 3000000") as refused:
        ask(model, (rows + 1, length), lease_bytes=budget)
    ask(model, (rows + 1, length), lease_bytes=refused.value.needed_bytes)
    assert model.room.is_planned


@pytest.mark.parametrize("name", ["encoder", "residual", "script", "trace", "text script"])
def test_the_allocator_refuses_at_each_call_in_turn(served, name):
    model = served(name)
    size = (3, 11) if name in {"encoder", "text script"} else (3, 1)
    learned(model, size)
    inputs = model.inputs_of(np.random.default_rng(4), *size)
    for number in range(model.told.requests):
        model.told.refuse_at = number
        try:
            with pytest.raises(OutOfMemory):
                model.run(inputs, size=size)
        finally:
            model.told.refuse_at = -1
        assert model.told.leftover_bytes == 0, "an error keeps nothing of the run that it ended"
        ask(model, size)
        assert model.room.is_planned


# ---------------------------------------------------------------------- unlike the last run


def test_a_mask_of_ones_changes_the_trace_and_not_the_answer():
    module = declared(
        replayed_models.Masked(),
        {"x": ("FP32", ["tokens", 8]), "mask": ("INT64", ["tokens"])},
        {"y": ("FP32", ["tokens", 8])},
    )
    model = Replayed(*eager(module), tokens_and_mask)
    dice, planned = np.random.default_rng(5), []
    for turn in range(14):
        inputs = tokens_and_mask(dice, 4, 16)
        if 3 <= turn < 9:
            inputs["mask"][:] = 1
        assert model.is_same(inputs, model.run(inputs, size=(4, 16)))
        planned.append(model.room.is_planned)
        model.footprint.settle()
    assert planned[:4] == [True, True, True, False]
    assert planned[7:9] == [True, True], "it has learned the other way"
    assert planned[-2:] == [True, True], "and knows the first one still"


def test_what_a_model_keeps_stays_right_for_as_long_as_it_keeps_it():
    module = declared(replayed_models.Caching(), FLOATS, {"y": ("FP32", ["tokens", 4])})
    model = Replayed(*eager(module), tokens(4))
    for turn in range(4):
        for length in (8, 40, 41, 42, 8, 16, 100):
            ask(model, (3, length), seed=turn, lease_bytes=4 << 20)
            model.footprint.settle()
    for length in (8, 40, 41, 42, 100):
        ask(model, (3, length), lease_bytes=4 << 20)
    for length, kept in module.seen.items():
        expected = torch.arange(length * 4).reshape(length, 4).to(torch.float32).cos()
        assert torch.equal(kept, expected), length


def test_what_a_model_hands_from_run_to_run_is_not_in_the_runs_way():
    outputs = {"y": ("FP32", ["tokens", 4]), "last": ("FP32", [4])}
    twins = [declared(replayed_models.Remembering(), FLOATS, outputs) for _ in range(2)]
    (model, _), (_, plain) = (eager(module) for module in twins)
    served, dice = Replayed(model, plain, tokens(4)), np.random.default_rng(0)
    twins[1].last = twins[0].last.clone()
    for turn in range(12):
        size = (2 + turn % 3, 8 * (1 + turn % 2))
        inputs = tokens(4)(dice, *size)
        assert served.is_same(inputs, served.run(inputs, size=size)), turn
        assert served.room.is_planned
        assert served.told.leftover_bytes == 0, "it lies in the system's memory"


def test_an_error_in_the_middle_of_a_run_leaves_nothing():
    module = declared(replayed_models.Raising(), FLOATS, {"y": ("FP32", ["tokens", 4])})
    model = Replayed(*eager(module), tokens(4))
    bad = tokens(4)(np.random.default_rng(0), 3, 9)
    bad["x"][0, 0, 0] = -9
    kept = []
    for _ in range(3):
        with pytest.raises(ValueError, match="having made") as error:
            model.run(bad, size=(3, 9))
        kept.append(error)
        assert model.told.leftover_bytes == 0
        ask(model, (3, 9))
        assert model.room.is_planned


def test_two_models_in_two_threads_at_random_shapes(served):
    wrong, count = [], []
    models = [served("encoder"), served("residual")]
    for model in models:
        for rows in (1, 2, 15, 16):
            learned(model, (rows, 9 if model is models[0] else 1))

    def live(seed):
        dice = Random(seed)
        arena = HostArena(ARENA_BYTES)
        rooms = {model: model.footprint.room(arena) for model in models}
        for turn in range(40):
            model = dice.choice(models)
            size = (dice.randint(1, 20), dice.randint(1, 40) if model is models[0] else 1)
            inputs = model.inputs_of(np.random.default_rng(turn), *size)
            outputs = model.run(inputs, size=size, room=rooms[model], lease_bytes=64 << 20)
            if not model.is_same(inputs, outputs):
                wrong.append((seed, turn, size))
            count.append(1)

    threads = [threading.Thread(target=live, args=[seed]) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (wrong, len(count)) == ([], 80)


def test_an_arena_that_is_closed_under_a_run_stays_until_the_last_tensor_is_gone():
    held = []

    class Holding(torch.nn.Module):
        def forward(self, x):
            y = x * 3
            if held:
                held[0].close()  # as an unload does with that of a run that hangs
                held.append(y)
            return y + 1

    module = declared(Holding(), FLOATS, {"y": ("FP32", ["tokens", 4])})
    model = Replayed(*eager(module), tokens(4))
    held.append(model.arena)
    inputs = tokens(4)(np.random.default_rng(0), 3, 9)
    outputs = model.run(inputs, size=(3, 9))
    assert np.array_equal(outputs["y"], inputs["x"] * 3 + 1)
    assert np.array_equal(held[1].numpy(), inputs["x"] * 3)
    del held[1]
    other = Replayed(*eager(module), tokens(4))
    held.clear()
    assert alike(other.run(inputs, size=(3, 9)), outputs)
