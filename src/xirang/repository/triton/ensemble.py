"""Models made of models: a Triton ensemble, held against itself and against the models it names.

The sentences are Triton's own, because people search for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from xirang.backends.triton_python.configuration import spec_of
from xirang.config import ModelSettings
from xirang.core.policy import Policy
from xirang.core.signature import Signature, TensorSpec
from xirang.engine.extent import Shapes
from xirang.engine.model import Model
from xirang.engine.pipeline import Pipeline, Step
from xirang.errors import InvalidSetting, NotReady, UnknownModel
from xirang.repository.learned import Learned
from xirang.repository.load import Loaded
from xirang.repository.triton.checks import check_tensors
from xirang.repository.triton.schema import (
    EnsembleStep,
    Input,
    ModelConfig,
    Output,
    Transactions,
)
from xirang.repository.triton.wiring import ENSEMBLE, steps_of
from xirang.tensors.tensor import Array, data_type_of

Said = tuple[str, tuple[int, ...], str]
"""A tensor's datatype and shape, and who says so."""


class Finds(Protocol):
    """What knows the served models."""

    def find(self, name: str, version: str | None = None) -> Model:
        """The model that serves a name.

        Raises:
            UnknownModel: There is none.
            NotReady: There is, but not now.
        """
        ...

    def versions(self, name: str) -> Sequence[str]:
        """Its served versions."""
        ...

    def reason(self, name: str) -> str:
        """Why it is not served, as far as that is known."""
        ...


class Composition:
    """An ensemble in the place of an executable: its steps run, not it."""

    platform = ENSEMBLE
    is_reentrant = True
    keeps_inputs = False

    def __init__(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        """Show what clients see."""
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Never: the engine makes the steps."""
        raise AssertionError(f"an ensemble was run as a model, with {list(inputs)} for {wanted}")


def ensemble(config: ModelConfig, version: int, models: Finds, settings: ModelSettings) -> Loaded:
    """An ensemble, ready to serve.

    Args:
        config: Checked; it is left as it is.
        version: Its number.
        models: Those that serve now.
        settings: Of all models.

    Raises:
        InvalidSetting: It contradicts itself or a model, or a model is not there.
    """
    check_tensors(config)
    found = [_model_of(step, config, models) for step in steps_of(config)]
    for fault in _faults(config, found):
        raise InvalidSetting(fault)
    is_batched = config.max_batch_size > 0
    inputs = tuple(_spec(each, is_batched=is_batched) for each in config.input)
    outputs = tuple(_spec(each, is_batched=is_batched) for each in config.output)
    steps = [
        Step(
            step.model_name,
            _version(step),
            dict(step.input_map),
            dict(step.output_map),
            gets_rows=model.signature.is_batched and not is_batched,
        )
        for step, model in zip(steps_of(config), found, strict=True)
    ]
    rows_max = config.max_batch_size or None
    model = Model(
        name=config.name,
        version=str(version),
        executable=Composition(inputs, outputs),
        signature=Signature(inputs, outputs, is_batched=is_batched),
        policy=Policy(max_batch_size=rows_max or 1),
        budget_ns=int(settings.budget_ms * 1e6),
        shapes=Shapes(rows_max=rows_max),
        verdict="an ensemble: its steps share runs with whoever else asks their models",
        declared=_declared(config),
        pipeline=Pipeline(tuple(steps)),
    )
    return Loaded(model, None, Learned("", None), ENSEMBLE)


def _declared(config: ModelConfig) -> Mapping[str, Any]:
    shown = msgspec.structs.replace(
        config,
        platform=ENSEMBLE,
        optimization=msgspec.UNSET,
        model_transaction_policy=Transactions(),
    )
    told: Mapping[str, Any] = msgspec.to_builtins(shown)
    return told


def _spec(tensor: Input | Output, *, is_batched: bool) -> TensorSpec:
    return spec_of(tensor.name, tensor.data_type, tensor.dims, is_batched=is_batched)


def _version(step: EnsembleStep) -> str:
    return "" if step.model_version < 0 else str(step.model_version)


def _model_of(step: EnsembleStep, config: ModelConfig, models: Finds) -> Model:
    try:
        return models.find(step.model_name, _version(step) or None)
    except (UnknownModel, NotReady):
        pass
    if not models.versions(step.model_name):
        reason = models.reason(step.model_name)
        why = f" Model '{step.model_name}' loading failed with error: {reason};" if reason else ""
        raise InvalidSetting(
            f"ensemble '{config.name}' depends on '{step.model_name}' which has no loaded version."
            f"{why}"
        )
    raise InvalidSetting(
        f"ensemble '{config.name}' depends on '{step.model_name}' whose required version "
        f"{step.model_version} is not loaded."
    )


def _faults(config: ModelConfig, models: Sequence[Model]) -> Iterator[str]:
    """What is wrong between the ensemble and the models that it names."""
    name, is_batched = config.name, config.max_batch_size > 0
    known: dict[str, Said] = {}
    tensors: list[Input | Output] = [*config.input, *config.output]
    for tensor in tensors:
        spec = _spec(tensor, is_batched=is_batched)
        known[tensor.name] = (data_type_of(spec.datatype), spec.shape, name)
    for step, model in zip(steps_of(config), models, strict=True):
        yield from _limits(config, model)
        for sort, mapped, specs in (
            ("input", step.input_map, model.signature.inputs),
            ("output", step.output_map, model.signature.outputs),
        ):
            by_name = {spec.name: spec for spec in specs}
            for inner, tensor_name in mapped.items():
                found = by_name.get(inner)
                if found is None:
                    way = "mapping to" if sort == "input" else "mapped from"
                    yield (
                        f"in ensemble {name}, ensemble tensor {tensor_name} is {way} "
                        f"non-existing {sort} {inner} in model {model.name}"
                    )
                    continue
                shape = found.shape[1:] if model.signature.is_batched else found.shape
                shape = (-1, *shape) if is_batched else shape
                told = (data_type_of(found.datatype), shape, model.name)
                yield from _unlike(name, tensor_name, known.setdefault(tensor_name, told), told)
        for missing in sorted(
            set(model.signature.input_names) - set(step.input_map) - model.shapes.optional
        ):
            yield f"in ensemble {name}, input {missing} in model {model.name} is not mapped"


def _limits(config: ModelConfig, model: Model) -> Iterator[str]:
    name = config.name
    rows_max = model.declared.get("max_batch_size", config.max_batch_size)
    if rows_max < config.max_batch_size:
        yield (
            f"ensemble {name} allows maximum batch size {config.max_batch_size}, but it contains "
            f"model {model.name} which only allows maximum batch size to be {rows_max}"
        )
    if model.is_decoupled:
        yield f"ensemble {name} contains model {model.name}, which is decoupled: not served here"


def _unlike(name: str, tensor: str, one: Said, other: Said) -> Iterator[str]:
    where = f"in ensemble {name}, ensemble tensor {tensor}: inconsistent"
    (kind, shape, who), (other_kind, other_shape, other_who) = one, other
    if kind != other_kind:
        yield (
            f"{where} data type: {kind} is inferred from model {who} while {other_kind} is "
            f"inferred from model {other_who}"
        )
    fits = len(shape) == len(other_shape) and all(
        -1 in pair or pair[0] == pair[1] for pair in zip(shape, other_shape, strict=True)
    )
    if not fits:
        yield (
            f"{where} shape: {_told(shape)} is inferred from model {who} while "
            f"{_told(other_shape)} is inferred from model {other_who}"
        )


def _told(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
