"""A model that waits for its test: what is queued behind it is no matter of timing."""

import asyncio
import threading

from xirang.core.policy import Policy
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.model import Model

DEADLINE_S = 20


class Gate:
    """Gives its inputs back once it is open.

    Attributes:
        entered: Set on the loop when a run has come in.
        open: Set it to let runs pass.
        rows: Of each run.
    """

    platform, is_reentrant, keeps_inputs = "gate", True, True
    inputs = outputs = (TensorSpec("x", "INT64", (None, None)),)

    def __init__(self, loop):
        self.loop = loop
        self.entered = asyncio.Event()
        self.open = threading.Event()
        self.rows = []

    def run(self, inputs, wanted):
        self.rows.append(len(inputs["x"]))
        self.loop.call_soon_threadsafe(self.entered.set)
        assert self.open.wait(DEADLINE_S)
        return {name: inputs[name] for name in wanted}


def gated_model(loop):
    """A model `m` on one instance, and its gate."""
    gate = Gate(loop)
    signature = Signature(gate.inputs, gate.outputs, True)
    model = Model("m", gate, signature, Policy(max_batch_size=8), budget_ns=10**10)
    return model, gate
