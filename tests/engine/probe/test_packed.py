"""A model that takes rows end to end is never padded, if it keeps them apart."""

import numpy as np
import pytest
from tests.support.made import CountingClock

from xirang.core.signature import Layout, TensorSpec, Tie
from xirang.engine.probe import Kind, probe
from xirang.tensors.packed import OFFSETS


class Means:
    """The mean of each row, and each element less that mean; `leak` mixes rows end to end."""

    platform, is_reentrant, keeps_inputs, is_packed = "puppet", True, False, True
    inputs = (TensorSpec("x", "FP32", ("n", "length")),)
    outputs = (TensorSpec("mean", "FP32", ("n",)), TensorSpec("rest", "FP32", ("n", "length")))

    def __init__(self, leak=0.0):
        self.leak = leak

    def run(self, inputs, wanted):
        x, bounds = inputs["x"], inputs.get(OFFSETS)
        if bounds is None:
            return {"mean": x.mean(1), "rest": x - x.mean(1, keepdims=True)}
        rows = np.split(x, bounds[1:-1])
        means = [row.mean() + self.leak * x.max() for row in rows]
        rest = [row - mean for row, mean in zip(rows, means, strict=True)]
        return {"mean": np.array(means, np.float32), "rest": np.concatenate(rest)}


def probed(executable):
    return probe(executable, rows_max=4, length_max=None, clock=CountingClock())


def test_rows_end_to_end_need_no_padding():
    findings = probed(Means())
    assert findings.kind in {Kind.EXACT, Kind.TOLERANT}
    assert (findings.is_packed, findings.can_batch, findings.can_pad) == (True, True, False)
    assert findings.verdict.endswith("; rows stand end to end, unpadded")
    assert findings.signature.output_layouts == {"rest": Layout(ties=(Tie(1),))}


@pytest.mark.parametrize("leak", [0.01, 1.0])
def test_rows_that_change_each_other_end_to_end_are_not_packed(leak):
    findings = probed(Means(leak))
    assert (findings.kind, findings.is_packed) == (Kind.PAD_UNSAFE, False)
