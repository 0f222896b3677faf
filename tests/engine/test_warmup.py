"""Every size that a run may have has run before anybody waits for it."""

from dataclasses import dataclass, field

import numpy as np
from tests.support.puppets import MS, ManualClock
from tests.support.workers import PuppetWorkers

from xirang.core.cost import CostModel, Sample
from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.extent import Shapes
from xirang.engine.model import Model
from xirang.engine.warmup import TIMED_NS, timed, warm_up

RUN_NS = 10 * MS


@dataclass
class Timed:
    """Takes ten milliseconds a run; refuses rows of length 13."""

    clock: ManualClock
    seen: list = field(default_factory=list)
    run_ns: int = RUN_NS
    platform = "timed"
    is_reentrant = keeps_inputs = True
    inputs = outputs = (
        TensorSpec("x", "INT64", (None, None)),
        TensorSpec("mask", "INT64", (None, None)),
        TensorSpec("word", "BYTES", (None,)),
    )

    def run(self, inputs, wanted):
        assert inputs["x"].shape == inputs["mask"].shape
        assert (inputs["mask"] == 1).all()
        assert inputs["word"].tolist() == [b""] * len(inputs["x"])
        if inputs["x"].shape[1] == 13:
            raise ValueError("thirteen")
        self.clock.time_ns += self.run_ns
        self.seen.append(inputs["x"].shape)
        return {name: np.asarray(inputs[name]) for name in wanted}


def made(shapes, *, rows=8, elements_max=None):
    clock = ManualClock()
    layouts = {"x": Layout(ties=(Tie(1),)), "mask": Layout(ties=(Tie(1),), is_mask=True)}
    cost = CostModel()
    cost.fit([Sample(rows, length, RUN_NS) for rows in (1, 4) for length in (2, 8)])
    executable = Timed(clock)
    return Model(
        "m",
        executable,
        Signature(executable.inputs, executable.outputs, True, layouts, layouts),
        Policy(max_batch_size=rows, elements_max=elements_max),
        budget_ns=1,
        cost=cost,
        shapes=shapes,
    )


def warmed(shapes, *, lengths_run=(), ran=(), seconds=1.0, **fields):
    model = made(shapes, **fields)
    executable = model.executable
    sizes = warm_up(
        model, lengths_run=lengths_run, ran=ran, seconds=seconds, clock=executable.clock
    )
    assert [(rows, (length,)) for rows, length in executable.seen] == sizes
    return executable.seen


def test_a_few_warm_sizes_are_timed_small_middle_and_large():
    model = made(Shapes((0,)))
    sizes = [(rows, (length,)) for length in (2, 8) for rows in (1, 3, 4)]
    samples = timed(model, sizes, clock=model.executable.clock)
    assert samples == [Sample(1, 2, RUN_NS), Sample(1, 8, RUN_NS), Sample(4, 8, RUN_NS)]
    assert len(model.executable.seen) == 6, "the better of two"
    assert timed(model, [], clock=model.executable.clock) == []


def test_nothing_is_timed_for_long():
    model = made(Shapes((0,)))
    model.executable.run_ns = TIMED_NS
    samples = timed(model, [(1, (2,)), (4, (8,))], clock=model.executable.clock)
    assert samples == [Sample(1, 2, TIMED_NS)]


def test_every_size_of_a_frozen_model_is_run_small_ones_first():
    shapes = Shapes((0,), lengths=(4, 16), row_sizes=(1, 8))
    assert warmed(shapes) == [(1, 4), (1, 16), (8, 4), (8, 16)]


def test_of_a_dynamic_model_the_corners_are_run():
    found = warmed(Shapes((0,), length_max=64), lengths_run=[(5, 9, 32)], elements_max=128)
    assert found == [(1, 5), (8, 5), (1, 64), (2, 64)]


def test_what_is_warm_is_not_run_again():
    shapes = Shapes((0,), lengths=(4,))
    assert warmed(shapes, ran={(1, (4,))}) == [(8, 4)]


def test_no_run_is_begun_that_would_last_too_long():
    shapes = Shapes((0,), lengths=(4, 8, 16), row_sizes=(1,))
    assert warmed(shapes, seconds=0.025) == [(1, 4), (1, 8)]
    assert warmed(shapes, seconds=0.005) == []


def test_what_the_model_refuses_is_passed_over():
    assert warmed(Shapes((0,), lengths=(13, 16), row_sizes=(1,))) == [(1, 16)]


def test_a_model_of_unknown_lengths_is_not_guessed_at():
    assert warmed(Shapes((0,))) == []


def test_every_process_of_a_model_runs_every_size():
    """They take their turns, so a size is run as often as there are processes."""
    model = made(Shapes(paddable=(0,)))
    model.workers = PuppetWorkers(None)
    model.workers.living = 3
    arguments = {"lengths_run": [[2, 8]], "ran": [(1, (2,))], "seconds": 5.0}
    warmed = warm_up(model, **arguments, clock=model.executable.clock)
    assert (1, (2,)) in warmed, "one of them has run it already, the others have not"
    assert model.executable.seen == [
        shape for size in warmed for shape in [(size[0], *size[1])] * 3
    ]
