"""What a Triton ensemble says of its own steps, before any model is looked at.

The sentences are Triton's own, save where it has none for what is wrong.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from xirang.repository.triton.schema import EnsembleStep, ModelConfig

ENSEMBLE = "ensemble"
"""The platform of such models."""


def is_ensemble(config: ModelConfig) -> bool:
    """Whether the configuration is that of an ensemble."""
    return config.platform == ENSEMBLE or config.ensemble_scheduling is not UNSET


def steps_of(config: ModelConfig) -> list[EnsembleStep]:
    """The steps; none for a model that is no ensemble."""
    scheduling = config.ensemble_scheduling
    return [] if scheduling is UNSET else scheduling.step


def wiring_faults(config: ModelConfig, name: str) -> Iterator[str]:
    """What is wrong between the steps.

    Args:
        config: Of the ensemble.
        name: Of the model's folder.
    """
    steps = steps_of(config)
    if config.instance_group:
        yield f"instance group should not be specified for ensemble '{name}'"
    if not steps:
        yield f"must specify 'step' for ensemble '{name}'"
    yield from _step_faults(config, steps, name)
    given = {tensor.name for tensor in config.input}
    given.update(tensor for step in steps for tensor in step.output_map.values())
    used = {tensor for step in steps for tensor in step.input_map.values()}
    for taken in config.input:
        if taken.name not in used:
            yield f"ensemble input '{taken.name}' for ensemble '{name}' is not used"
    for wanted in config.output:
        if wanted.name not in given:
            yield f"ensemble output '{wanted.name}' for ensemble '{name}' is not used"
    for tensor in sorted(used - given):
        yield f"ensemble tensor '{tensor}' of ensemble '{name}' is given by no step and no input"
    if stuck := _stuck(config, steps):
        yield (
            f"circular dependency between the steps of ensemble '{name}': "
            f"{', '.join(stuck)} would never come to be"
        )


def _step_faults(config: ModelConfig, steps: Sequence[EnsembleStep], name: str) -> Iterator[str]:
    given = {tensor.name for tensor in config.input}
    for number, step in enumerate(steps):
        for field in ("model_name", "input_map", "output_map"):
            if not getattr(step, field):
                yield f"must specify '{field}' in step {number} of ensemble '{name}'"
        for tensor in step.output_map.values():
            if tensor in given:
                yield (
                    f"ensemble tensor '{tensor}' can appear in an output map only once for "
                    f"ensemble '{name}' step {number}"
                )
            given.add(tensor)


def _stuck(config: ModelConfig, steps: Sequence[EnsembleStep]) -> list[str]:
    """Tensors that wait for each other."""
    there = {tensor.name for tensor in config.input}
    left = list(steps)
    while ready := [step for step in left if there.issuperset(step.input_map.values())]:
        left = [step for step in left if step not in ready]
        there.update(tensor for step in ready for tensor in step.output_map.values())
    return sorted({tensor for step in left for tensor in step.output_map.values()})
