"""A model that is served: what it takes, how it is scheduled, and what runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xirang.backends.executable import Executable, Workers
from xirang.backends.requests import is_decoupled
from xirang.core.cost import CostModel
from xirang.core.memory.account import Claim
from xirang.core.policy import Policy
from xirang.core.signature import Signature
from xirang.engine.extent import Extent, Gauge, Shapes, prepared
from xirang.engine.pipeline import Pipeline
from xirang.errors import InvalidRequest
from xirang.tensors.tensor import NUMPY_TYPES, Tensor, of_array


@dataclass(slots=True, eq=False)
class Model:
    """A loaded model with all that was found out about it.

    Attributes:
        name: Under which it is served.
        version: As clients name it.
        executable: What runs.
        signature: Its inputs and outputs, as the probe saw them.
        policy: How it is scheduled.
        cost: How long its runs take.
        budget_ns: The latency budget of a request that brings none.
        shapes: At which sizes it runs.
        verdict: What the probe said about batching, in words.
        overrides: What the configuration decided against the verdict, in words.
        is_probed: Whether its outputs' axes are known: if not, a lone request takes what it gives.
        output_names: Of the signature, kept at hand.
        declared: What its configuration says, in Triton's form; empty if there is none.
        labels: Output name to the names of its classes, where the configuration has them.
        lanes: Under which name it is scheduled; given by the engine.
        workers: The processes that it runs in; None if it runs in this one.
        load_ns: How long it took to load, to find out about it and to warm it.
        hang_ns: A run that takes longer, and 20 times its prediction, is taken for hung.
        claim: What it asks of the memory pool; None if its memory is not counted.
        stand_in: The model that answers instead at the last step of overload; empty for none.
        length_degraded: What it reads of longer requests at that step; 0 for all.
        optional_outputs: Outputs that it leaves out under overload, unless they are asked for.
        core_outputs: The others.
        pipeline: The steps that it is made of; None for a model that runs itself.
        is_decoupled: Whether a request may have another number of answers than one.
        keeps_answers: Whether the same request may be answered again without a run.
    """

    name: str
    executable: Executable
    signature: Signature
    policy: Policy
    budget_ns: int
    cost: CostModel = field(default_factory=CostModel)
    version: str = "1"
    shapes: Shapes = field(default_factory=Shapes)
    verdict: str = "not probed"
    overrides: tuple[str, ...] = ()
    is_probed: bool = True
    output_names: tuple[str, ...] = ()
    declared: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lanes: str = ""
    workers: Workers | None = None
    load_ns: int = 0
    hang_ns: int = 60_000_000_000
    stand_in: str = ""
    claim: Claim | None = None
    length_degraded: int = 0
    optional_outputs: tuple[str, ...] = ()
    core_outputs: tuple[str, ...] = field(init=False)
    keeps_answers: bool = False
    pipeline: Pipeline | None = None
    is_decoupled: bool = field(init=False)
    _gauge: Gauge = field(init=False)
    _short_gauge: Gauge = field(init=False)

    def __post_init__(self) -> None:
        self.is_decoupled = is_decoupled(self.executable)
        names = self.output_names = self.signature.output_names
        self.core_outputs = tuple(name for name in names if name not in self.optional_outputs)
        self._gauge = Gauge(self.name, self.signature, self.shapes)
        longest = min(self.length_degraded, self.shapes.length_max or self.length_degraded)
        short = replace(self.shapes, length_max=longest, can_crop=True)
        self._short_gauge = Gauge(self.name, self.signature, short)

    def admit(self, inputs: Mapping[str, Tensor]) -> Extent:
        """Hold a request's inputs against the signature.

        Raises:
            InvalidRequest: Says which input is wrong, how, and what was expected.
        """
        return self._gauge(inputs)

    def budget_of(self, asked_ns: int | None, priority: int) -> int:
        """The latency budget of a request that brings this one, or none, and this priority."""
        rules = self.policy.batcher
        if rules is not None:
            return rules.queue_of(rules.level_of(priority)).budget_ns(asked_ns)
        return self.budget_ns if asked_ns is None else asked_ns

    def tensor(self, name: str, value: Any) -> Tensor:
        """One input of a request: lists take the datatype that is expected, arrays are believed.

        Raises:
            InvalidRequest: It is no tensor.
        """
        dtype = None
        if not isinstance(value, np.ndarray):
            specs = self.signature.inputs
            dtype = next((NUMPY_TYPES[s.datatype] for s in specs if s.name == name), None)
        try:
            return of_array(np.asarray(value, dtype))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(
                f"input '{name}' of model '{self.name}' is not a tensor: {error}"
            ) from error

    def wanted(self, outputs: Sequence[str]) -> Sequence[str]:
        """The outputs that a request names.

        Raises:
            InvalidRequest: There is no such output.
        """
        for name in outputs:
            if name not in self.output_names:
                raise InvalidRequest(
                    f"unexpected inference output '{name}' for model '{self.name}'; "
                    f"expected one of {list(self.output_names)}"
                )
        return outputs

    def prepare(self, inputs: Mapping[str, Tensor], extent: Extent) -> Mapping[str, Tensor]:
        """A request's inputs as they enter a run: too long ones cut, left out masks made."""
        return prepared(inputs, extent, self.signature)

    def shortened(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:
        """The head of a request that is longer than a pressed server reads; None if it is not.

        Raises:
            InvalidRequest: See `admit`.
        """
        if not self.length_degraded:
            return None
        extent = self._short_gauge(inputs)
        return prepared(inputs, extent, self.signature) if extent.is_cropped else None

    def sizes(self, length: int) -> tuple[int, ...]:
        """The sizes that a length may be padded to; none if any will do."""
        return self._gauge.sizes[length]
