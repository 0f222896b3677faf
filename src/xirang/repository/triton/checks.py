"""What Triton refuses in a model configuration, and what it fills in before any model is looked at.

The sentences are Triton's own, because people search for them.
"""

from collections.abc import Iterator
from math import prod
from pathlib import Path

from msgspec import UNSET

from xirang.errors import InvalidSetting
from xirang.repository.triton.schema import (
    DynamicBatching,
    Input,
    Latest,
    ModelConfig,
    Optimization,
    Output,
    QueuePolicy,
    VersionPolicy,
)
from xirang.repository.triton.wiring import is_ensemble, wiring_faults

ONNX, TORCH, PYTHON = "onnxruntime", "pytorch", "python"

_PLATFORMS = {"onnxruntime_onnx": ONNX, "pytorch_libtorch": TORCH, "torch_aoti": TORCH}
_PLATFORM_OF = {"model.onnx": "onnxruntime_onnx", "model.pt": "pytorch_libtorch"}
_FILES = {"model.onnx": ONNX, "model.pt2": TORCH, "model.pt": TORCH, "model.py": PYTHON}
_FILE_OF = {ONNX: ("model.onnx",), TORCH: ("model.pt2", "model.pt"), PYTHON: ("model.py",)}


def checked(config: ModelConfig, name: str) -> ModelConfig:
    """The configuration of a model, with what Triton fills in.

    Args:
        config: As read; it is changed in place.
        name: Of the model's folder.

    Raises:
        InvalidSetting: It contradicts itself, or asks for what is not there.
    """
    for fault in _faults(config, name):
        raise InvalidSetting(fault)
    config.name = name
    if config.version_policy is UNSET:
        config.version_policy = VersionPolicy(latest=Latest(num_versions=1))
    if config.optimization is UNSET:
        config.optimization = Optimization()
    batching = config.dynamic_batching
    if batching and not batching.preferred_batch_size and config.max_batch_size:
        batching.preferred_batch_size = [config.max_batch_size]
    return config


def with_backend(config: ModelConfig, version: Path) -> ModelConfig:
    """The configuration with a backend and a file, found out from a version's folder if not told.

    Raises:
        InvalidSetting: There is no backend of that name, or no file to find it out from.
    """
    if not config.backend and config.platform:
        config.backend = _PLATFORMS.get(config.platform, "")
        if not config.backend:
            raise InvalidSetting(f"unexpected platform type '{config.platform}' for {config.name}")
    named = config.default_model_filename
    if not config.backend:
        there = [named] if named in _FILES else [f for f in _FILES if (version / f).exists()]
        if not there:
            raise InvalidSetting(
                f"Could not determine backend for model '{config.name}' with no backend in model "
                f"configuration; expected one of {', '.join(_FILES)} in {version.name}/"
            )
        config.backend = _FILES[there[0]]
    if config.backend not in _FILE_OF:
        raise InvalidSetting(
            f"unable to find backend library for backend '{config.backend}'; "
            f"served are {', '.join(_FILE_OF)}"
        )
    if not named:
        files = _FILE_OF[config.backend]
        config.default_model_filename = next((f for f in files if (version / f).exists()), files[0])
    config.platform = config.platform or _PLATFORM_OF.get(config.default_model_filename, "")
    _check_backend(config)
    return config


def _check_backend(config: ModelConfig) -> None:
    """Refuse what only some backends can do, and what none can."""
    asks = f"model '{config.name}' asks for what is not served"
    optional = [each.name for each in config.input if each.optional]
    if optional and config.backend != PYTHON:
        raise InvalidSetting(
            f"{asks}: optional inputs: {', '.join(optional)}, save from backend {PYTHON}"
        )
    transactions, cache = config.model_transaction_policy, config.response_cache
    if transactions is UNSET or not transactions.decoupled:
        return
    if config.backend != PYTHON:
        raise InvalidSetting(
            f"{asks}: model_transaction_policy: a request with several answers, save from backend "
            f"{PYTHON}"
        )
    if cache is not UNSET and cache.enable:
        raise InvalidSetting(f"{asks}: response_cache: the several answers of a decoupled model")


def check_tensors(config: ModelConfig) -> None:
    """Refuse inputs and outputs that say too little or contradict themselves.

    Raises:
        InvalidSetting: Which one, and what was expected.
    """
    for sort, tensors in (("input", config.input), ("output", config.output)):
        for tensor in tensors:
            _check_tensor(sort, tensor, config)


def _check_tensor(sort: str, tensor: Input | Output, config: ModelConfig) -> None:
    where = f"model {sort} '{tensor.name}'"
    if not tensor.name:
        fault = f"model {sort} must specify 'name'"
    elif tensor.data_type == "TYPE_INVALID":
        fault = f"{where} must specify 'data_type'"
    elif not tensor.dims and not (config.max_batch_size and tensor.reshape is not UNSET):
        fault = f"{where} must specify 'dims'"
    elif any(size < 1 and size != -1 for size in tensor.dims):
        fault = (
            f"{where} dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
        )
    elif tensor.reshape is not UNSET and not _is_same_size(tensor.dims, tensor.reshape.shape):
        fault = f"{where} has different size for dims and reshape"
    else:
        return
    raise InvalidSetting(f"{fault} for {config.name}")


def _is_same_size(dims: list[int], shape: list[int]) -> bool:
    free, fixed = dims.count(-1), prod(size for size in dims if size != -1)
    return free == shape.count(-1) and fixed == prod(size for size in shape if size != -1)


def _faults(config: ModelConfig, name: str) -> Iterator[str]:
    if config.name not in {"", name}:
        yield (
            f"unexpected directory name '{name}' for model '{config.name}', "
            "directory name must equal model name"
        )
    if config.max_batch_size < 0:
        yield f"'max_batch_size' must be non-negative value for {name}"
    if config.dynamic_batching is not UNSET:
        for fault in _batching_faults(config.dynamic_batching, config.max_batch_size):
            yield f"{fault} for {name}"
    for number, group in enumerate(config.instance_group):
        if group.kind == "KIND_GPU" or group.gpus:
            yield (
                f"instance group {group.name or f'{name}_{number}'} of model {name} "
                "has kind KIND_GPU but no GPUs are available"
            )
    if is_ensemble(config):
        yield from wiring_faults(config, name)
    yield from _unserved(config, name)


def _batching_faults(batching: DynamicBatching, rows_max: int) -> Iterator[str]:
    if any(size <= 0 for size in batching.preferred_batch_size):
        yield "dynamic batching preferred size must be positive"
    if any(size > rows_max for size in batching.preferred_batch_size):
        yield "dynamic batching preferred size must be <= max batch size"
    levels = batching.priority_levels
    if levels and not 1 <= batching.default_priority_level <= levels:
        yield f"default priority level must be in range [1, {levels}]"
    if any(not 1 <= level <= levels for level in batching.priority_queue_policy):
        yield f"priority queue policy must have priority level in range [1, {levels}]"
    if batching.preserve_ordering:
        if levels > 1:
            yield "Only one priority level is allowed when 'preserve_ordering' is true"
        if any(policy.timeout_action == "DELAY" for policy in _policies(batching)):
            yield (
                "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true"
            )


def _policies(batching: DynamicBatching) -> list[QueuePolicy]:
    own = batching.default_queue_policy
    return [*batching.priority_queue_policy.values(), *([] if own is UNSET else [own])]


def _unserved(config: ModelConfig, name: str) -> Iterator[str]:
    """Blocks without which a model would answer something else than under Triton."""
    inputs = [each.name for each in config.input if each.is_shape_tensor]
    asked = {
        "sequence_batching: requests that belong together": config.sequence_batching is not UNSET,
        "batch_input, batch_output: tensors made from a batch": bool(
            config.batch_input or config.batch_output
        ),
        "model_operations: libraries of operators": config.model_operations is not UNSET,
        "model_repository_agents: files that are changed at load": (
            config.model_repository_agents is not UNSET
        ),
        f"shape tensors: {', '.join(inputs)}": bool(inputs),
    }
    for block, is_asked in asked.items():
        if is_asked:
            yield f"model '{name}' asks for what is not served: {block}"
