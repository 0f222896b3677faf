"""Models made of models: which steps there are, and what flows from one to another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a model.

    Attributes:
        model: Its name.
        version: Empty for whichever serves.
        inputs: Name of the model's input to name of the tensor that it takes.
        outputs: Name of the model's output to name of the tensor that it gives.
        gets_rows: Whether the model takes rows where the pipeline has none: one is put in front.
    """

    model: str
    version: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    gets_rows: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """All steps, in the order of the configuration; each tensor is given at most once.

    Attributes:
        steps: They.
    """

    steps: tuple[Step, ...]

    def needed(self, wanted: Sequence[str]) -> tuple[int, ...]:
        """Numbers of the steps without which these tensors would not come to be."""
        givers = {
            tensor: number
            for number, step in enumerate(self.steps)
            for tensor in step.outputs.values()
        }
        found: set[int] = set()
        sought = list(wanted)
        while sought:
            number = givers.get(sought.pop())
            if number is not None and number not in found:
                found.add(number)
                sought += self.steps[number].inputs.values()
        return tuple(sorted(found))

    def models(self) -> frozenset[str]:
        """Names of the models that it is made of."""
        return frozenset(step.model for step in self.steps)
