"""Executables that are a line of numpy, for models that no file could be."""

from itertools import count

from xirang.core.signature import TensorSpec

MS = 1_000_000


class CountingClock:
    """Every look at it takes a millisecond."""

    def __init__(self):
        self.ticks = count()

    def now_ns(self):
        return next(self.ticks) * MS


class Made:
    """A function from named arrays to named arrays, with what it declares.

    Inputs and outputs are names with dims; names with another datatype than FP32 stand in `whole`.
    """

    platform, is_reentrant, keeps_inputs = "made", True, False

    def __init__(self, function, inputs, outputs, *, whole=()):
        self.function = function
        self.inputs, self.outputs = (
            tuple(
                TensorSpec(name, "INT64" if name in whole else "FP32", tuple(dims))
                for name, dims in specs.items()
            )
            for specs in (inputs, outputs)
        )

    def run(self, inputs, wanted):
        made = self.function(**inputs)
        return {name: made[name] for name in wanted}
