"""A house without a clock, a loop or threads: everything happens when a test says so."""

from dataclasses import dataclass, field

import numpy as np

from xirang.core.cost import CostModel, Sample
from xirang.core.policy import Policy
from xirang.core.signature import Layout, Signature, TensorSpec, Tie
from xirang.engine.engine import Engine
from xirang.engine.extent import Shapes
from xirang.engine.faults import execute
from xirang.engine.model import Model
from xirang.engine.work import TensorWork

MS = 1_000_000


@dataclass
class ManualClock:
    """The time is what the test says."""

    time_ns: int = 0

    def now_ns(self):
        return self.time_ns


@dataclass(eq=False)
class ManualTimer:
    due_ns: int
    callback: object
    is_cancelled: bool = False

    def cancel(self):
        self.is_cancelled = True


@dataclass
class ManualLoop:
    """The part of a loop that the driver uses, stepped by hand."""

    clock: ManualClock
    ready: list = field(default_factory=list)
    timers: list = field(default_factory=list)

    def call_soon(self, callback, *arguments):
        self.ready.append((callback, arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s, callback):
        timer = ManualTimer(self.clock.time_ns + round(delay_s * 1e9), callback)
        self.timers.append(timer)
        return timer

    def step(self):
        """Run what is ready, and what that makes ready, and timers that are due."""
        while self.ready or self._due():
            ready, self.ready = self.ready, []
            for callback, arguments in ready:
                callback(*arguments)
            for timer in self._due():
                self.timers.remove(timer)
                timer.callback()

    def next_timer_ns(self):
        return min((t.due_ns for t in self.timers if not t.is_cancelled), default=None)

    def _due(self):
        return [t for t in self.timers if not t.is_cancelled and t.due_ns <= self.clock.time_ns]


class PuppetInstance:
    """Takes runs like an instance, and runs one when it is told."""

    def __init__(self, work, post):
        self.work, self.post = work, post
        self.runs, self.waiting = [], []

    def start(self, run, members):
        self.runs.append(run)
        self.waiting.append((run, members))

    def finish(self):
        """Run the oldest waiting run now."""
        run, members = self.waiting.pop(0)
        results, outcome = execute(
            run, members, self.work, clock=self.post.clock, pause=lambda: self.post.paused(run)
        )
        self.post.finished(run, results, outcome)

    def close(self):
        assert not self.waiting


class MaskedDouble:
    """ids·mask·2 and the sum over the row; raises on an id of 13."""

    platform, is_reentrant, keeps_inputs = "puppet", True, True
    inputs = (
        TensorSpec("ids", "INT64", ("batch", "length")),
        TensorSpec("attention_mask", "INT64", ("batch", "length")),
    )
    outputs = (
        TensorSpec("doubled", "INT64", ("batch", "length")),
        TensorSpec("total", "INT64", ("batch", 1)),
    )

    def __init__(self):
        self.shapes = []

    def run(self, inputs, wanted):
        ids = inputs["ids"] * inputs["attention_mask"]
        self.shapes.append(ids.shape)
        if (ids == 13).any():
            raise ValueError("thirteen")
        outputs = {"doubled": ids * 2, "total": ids.sum(axis=1, keepdims=True)}
        return {name: np.ascontiguousarray(outputs[name]) for name in wanted}


class PuppetHouse:
    """An engine with one model `m` on puppet instances."""

    def __init__(self, executable, signature, policy, *, cost=None, budget_ms=1000, shapes=None):
        self.clock = ManualClock()
        self.loop = ManualLoop(self.clock)
        self.executable = executable
        self.engine = Engine(parallelism=policy.instances, clock=self.clock)
        self.model = Model(
            name="m",
            executable=executable,
            signature=signature,
            policy=policy,
            budget_ns=budget_ms * MS,
            shapes=shapes or Shapes(tuple(range(signature.lengths)) if policy.can_pad else ()),
            cost=cost or CostModel(),
        )
        self.puppets = []

        def make(_name, post):
            puppet = PuppetInstance(TensorWork(self.model, executable), post)
            self.puppets.append(puppet)
            return puppet

        self.engine.add_lanes("m", policy, self.model.cost, make, model=self.model)
        self.engine.attach(self.loop)

    @classmethod
    def with_masked_double(cls, *, shapes=None, **changes):
        executable = MaskedDouble()
        tied = Layout(ties=(Tie(1),))
        signature = Signature(
            executable.inputs,
            executable.outputs,
            True,
            {"ids": tied, "attention_mask": tied},
            {"doubled": tied},
        )
        settings = {"can_pad": True, "max_batch_size": 8} | changes
        cost = CostModel()
        cost.fit(
            [Sample(rows, n, 2 * MS + rows * n * MS // 10) for rows in (1, 2, 4) for n in (8, 64)]
            * 4
        )
        return cls(executable, signature, Policy(**settings), cost=cost, shapes=shapes)

    @property
    def puppet(self):
        return self.puppets[0]

    def step(self):
        self.loop.step()

    def advance(self, passed_ns):
        self.clock.time_ns += passed_ns
        self.loop.step()

    def check(self):
        self.engine.check_integrity()
