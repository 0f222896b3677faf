"""Inputs, outputs and the batch that a configuration leaves out, from the model itself.

The rule is that of Triton's ONNX Runtime backend: a model batches if the first axis of every input
and output is free, and gets a batch of four where the configuration names none.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.repository.triton.checks import check_tensors
from xirang.repository.triton.schema import (
    DynamicBatching,
    Input,
    ModelConfig,
    Output,
    Reshape,
)
from xirang.tensors.tensor import data_type_of

DEFAULT_MAX_BATCH_SIZE = 4


def completed(
    config: ModelConfig, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> ModelConfig:
    """The configuration with what it leaves out, held against the model.

    Args:
        config: As read and checked; it is changed in place.
        inputs: Of the model.
        outputs: Of the model.

    Raises:
        InvalidSetting: It contradicts the model.
    """
    can_batch = all(spec.shape[:1] == (-1,) for spec in (*inputs, *outputs))
    if not (config.input and config.output):
        _complete(config, inputs, outputs, can_batch=can_batch)
    check_tensors(config)
    if config.max_batch_size and not can_batch:
        raise InvalidSetting(
            f"model '{config.name}' has max_batch_size {config.max_batch_size}, but the first "
            "axis of its inputs and outputs is not free; expected max_batch_size: 0"
        )
    _check_against("input", config.input, inputs, config)
    _check_against("output", config.output, outputs, config)
    missing = {spec.name for spec in inputs} - {each.name for each in config.input}
    if missing:
        raise InvalidSetting(
            f"failed to load '{config.name}', configuration expects {len(config.input)} inputs, "
            f"model provides {len(inputs)}; missing {sorted(missing)}"
        )
    return config


def _complete(
    config: ModelConfig,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    can_batch: bool,
) -> None:
    if can_batch and not config.max_batch_size and not (config.input or config.output):
        config.max_batch_size = DEFAULT_MAX_BATCH_SIZE
        schedulers = (config.dynamic_batching, config.sequence_batching)
        if all(each is UNSET for each in schedulers):
            config.dynamic_batching = DynamicBatching(preferred_batch_size=[config.max_batch_size])
    is_batched = config.max_batch_size > 0
    if not config.input:
        config.input = [Input(**_told(spec, is_batched=is_batched)) for spec in inputs]
    if not config.output:
        config.output = [Output(**_told(spec, is_batched=is_batched)) for spec in outputs]


def _told(spec: TensorSpec, *, is_batched: bool) -> dict[str, Any]:
    dims = list(spec.shape[1:] if is_batched else spec.shape)
    told: dict[str, Any] = {"name": spec.name, "data_type": data_type_of(spec.datatype)}
    return told | ({"dims": dims} if dims else {"dims": [1], "reshape": Reshape()})


def _check_against(
    sort: str,
    told: Sequence[Input | Output],
    specs: Sequence[TensorSpec],
    config: ModelConfig,
) -> None:
    by_name = {spec.name: spec for spec in specs}
    for tensor in told:
        spec = by_name.get(tensor.name)
        if spec is None:
            raise InvalidSetting(
                f"unexpected inference {sort} '{tensor.name}', "
                f"allowed {sort}s are: {', '.join(by_name)}"
            )
        if tensor.data_type != data_type_of(spec.datatype):
            raise InvalidSetting(
                f"unexpected datatype {data_type_of(spec.datatype)} for inference {sort} "
                f"'{tensor.name}', expecting {tensor.data_type}"
            )
        shape = model_shape(tensor, is_batched=config.max_batch_size > 0)
        fits = len(shape) == len(spec.shape) and all(
            -1 in pair or pair[0] == pair[1] for pair in zip(shape, spec.shape, strict=True)
        )
        if not fits:
            raise InvalidSetting(
                f"model '{config.name}', tensor '{tensor.name}': the model expects "
                f"{len(spec.shape)} dimensions (shape {list(spec.shape)}) but the model "
                f"configuration specifies {len(shape)} dimensions (shape {shape})"
            )


def model_shape(tensor: Input | Output, *, is_batched: bool) -> list[int]:
    """The whole shape of a tensor as the model has it."""
    own = tensor.dims if tensor.reshape is UNSET else tensor.reshape.shape
    return [-1, *own] if is_batched else list(own)
