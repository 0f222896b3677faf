"""The seam between the engine and the libraries that execute models."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from xirang.core.signature import TensorSpec
from xirang.tensors.tensor import Array


class Executable(Protocol):
    """A loaded model that maps input arrays to output arrays.

    `run` is called from instance threads, as many at once as the model has instances.

    Attributes:
        platform: The name that the Open Inference Protocol's clients expect.
        inputs: What it declares to take; the probe finds out what is true.
        outputs: What it declares to give.
        is_reentrant: Whether several threads may run it at once.
        keeps_inputs: Whether its outputs may share memory with its inputs.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_reentrant: bool
    keeps_inputs: bool

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The outputs that are wanted.

        Raises:
            InvalidRequest: The model refused the input itself.
            Exception: Anything that the library or the model raises.
        """
        ...
