"""Warm-up samples: what a configuration wants to be run before the model serves."""

import logging
from math import prod
from pathlib import Path

import numpy as np
from msgspec import UNSET

from xirang.backends.executable import Executable
from xirang.errors import InvalidSetting
from xirang.repository.triton.schema import ModelConfig, Warmup, WarmupInput
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

FOLDER = "warmup"
"""Of the model, with the files that samples name."""

COUNT_MAX = 10_000


def run_samples(config: ModelConfig, executable: Executable, folder: Path) -> None:
    """Run every sample as often as it is asked for.

    Args:
        config: Completed.
        executable: Takes inputs as clients see them.
        folder: Of the model.

    Raises:
        InvalidSetting: A sample cannot be run, and why.
    """
    for sample in config.model_warmup:
        try:
            inputs = _inputs(sample, config, folder)
            for _ in range(min(sample.count or 1, COUNT_MAX)):
                executable.run(inputs, [each.name for each in config.output])
        except Exception as error:
            raise InvalidSetting(f"failed to run warmup sample '{sample.name}': {error}") from error
        log.info("%s: ran warm-up sample %s", config.name, sample.name)


def _inputs(sample: Warmup, config: ModelConfig, folder: Path) -> dict[str, Array]:
    rows_max = config.max_batch_size
    if sample.batch_size > max(1, rows_max):
        raise InvalidSetting(
            f"batch size {sample.batch_size} for '{config.name}', max allowed is {rows_max}"
        )
    names = {each.name for each in config.input}
    if set(sample.inputs) != names:
        raise InvalidSetting(
            f"expected {len(names)} inputs but got {len(sample.inputs)} inputs for model "
            f"'{config.name}'. Got input(s) {sorted(sample.inputs)}, but missing required "
            f"input(s) {sorted(names - set(sample.inputs))}."
        )
    rows = [max(1, sample.batch_size)] if rows_max else []
    return {name: _array(name, told, rows, folder) for name, told in sample.inputs.items()}


def _array(name: str, told: WarmupInput, rows: list[int], folder: Path) -> Array:
    if any(size < 1 for size in told.dims):
        raise InvalidSetting(f"input '{name}' has dims {told.dims}; expected sizes of at least 1")
    shape = [*rows, *told.dims]
    if told.data_type == "TYPE_STRING":
        return np.full(shape, b"", np.object_)
    kind = NUMPY_TYPES.get(told.data_type.removeprefix("TYPE_"))
    if kind is None:
        raise InvalidSetting(f"input '{name}' must specify 'data_type'")
    if told.input_data_file is not UNSET:
        return _from_file(name, told.input_data_file, np.dtype(kind), shape, folder)
    if told.random_data is True:
        return np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    return np.zeros(shape, kind)


def _from_file(
    name: str, file: str, kind: "np.dtype[np.generic]", shape: list[int], folder: Path
) -> Array:
    path = (folder / FOLDER / file).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InvalidSetting(f"'{file}' is not in the model's folder")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidSetting(f"cannot read {FOLDER}/{file}: {error.strerror}") from error
    if len(data) != prod(shape) * kind.itemsize:
        raise InvalidSetting(
            f"{FOLDER}/{file} has {len(data)} bytes; expected {prod(shape) * kind.itemsize} "
            f"for input '{name}' of shape {shape}"
        )
    return np.frombuffer(data, kind).reshape(shape)
