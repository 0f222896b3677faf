"""A Triton configuration in xirang's own settings, and in words what they cannot say.

The fields of a `dynamic_batching` block keep their meaning as far as the scheduler has it. Without
the block xirang's own rules hold, which batch better than none.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from msgspec import UNSET

from xirang.config import ModelSettings, model_settings
from xirang.core.request import PRIORITY_LOW, PRIORITY_NORMAL
from xirang.errors import InvalidSetting
from xirang.repository.triton.schema import (
    DynamicBatching,
    ModelConfig,
    Optimization,
    QueuePolicy,
)

OWN = "xirang."
"""Parameters that begin so are xirang's settings; Triton passes them by."""

_PLACES = ("learned", "length_histogram")
"""Settings that make the server read or write where a model's files must not lead it."""

_THREADS = "intra_op_thread_count"
_BUDGET_MS_LEAST = 0.001


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a model is to be served.

    Attributes:
        settings: All of them.
        unheeded: What the configuration says without effect here.
    """

    settings: ModelSettings
    unheeded: tuple[str, ...]


def meaning_of(
    config: ModelConfig, common: ModelSettings, own: ModelSettings | None = None
) -> Meaning:
    """What a configuration asks for.

    Args:
        config: Checked, but not completed: what nobody wrote is left to xirang.
        common: The settings of all models; the configuration goes over them.
        own: The operator's settings of this one; what is not as in `common` goes over all.

    Raises:
        InvalidSetting: A parameter of xirang is unknown or impossible.
    """
    told: dict[str, Any] = {}
    unheeded = _unheeded(config)
    if config.max_batch_size:
        told["max_batch_size"] = config.max_batch_size
    instances = sum(group.count or 1 for group in config.instance_group)
    if instances:
        told["instances"] = instances
    if config.response_cache is not UNSET:
        told["cache"] = config.response_cache.enable
    if config.dynamic_batching is not UNSET:
        told |= _batching(config.dynamic_batching, unheeded)
    told |= _parameters(config, unheeded)
    settings = model_settings(told, common, f"config.pbtxt of {config.name}")
    if own is not None:
        names = [field.name for field in fields(ModelSettings)]
        differing = {n: getattr(own, n) for n in names if getattr(own, n) != getattr(common, n)}
        settings = replace(settings, **differing)
    if 0 < settings.budget_ms <= settings.window_ms:
        settings = replace(settings, window_ms=settings.budget_ms / 2)
    return Meaning(settings.check(name=config.name), tuple(unheeded))


def _batching(batching: DynamicBatching, unheeded: list[str]) -> dict[str, Any]:
    delay_ms = batching.max_queue_delay_microseconds / 1000
    # Without a delay Triton sends what is there as soon as an instance is free.
    told: dict[str, Any] = {"window_ms": delay_ms, "efficiency": 1.0 if delay_ms else 0.0}
    policy = batching.default_queue_policy
    if policy is not UNSET:
        told |= _queue(policy, unheeded)
    preferred = set(batching.preferred_batch_size)
    levels, normal = batching.priority_levels, batching.default_priority_level
    told_not = {
        "preferred_batch_size: a batch goes when it pays, whatever its size": len(preferred) > 1,
        "preserve_ordering: answers come as they are ready": batching.preserve_ordering,
        "priority_queue_policy: all priorities wait alike": bool(batching.priority_queue_policy),
        f"priority_levels: there are {PRIORITY_LOW}, and {PRIORITY_NORMAL} is the default": (
            levels > 0 and (levels, normal) != (PRIORITY_LOW, PRIORITY_NORMAL)
        ),
    }
    unheeded += [words for words, is_told in told_not.items() if is_told]
    return told


def _queue(policy: QueuePolicy, unheeded: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if policy.max_queue_size:
        told["queue"] = policy.max_queue_size
    if policy.default_timeout_microseconds:
        told["budget_ms"] = max(policy.default_timeout_microseconds / 1000, _BUDGET_MS_LEAST)
        if policy.timeout_action == "DELAY":
            unheeded.append("timeout_action: DELAY: a request that is late is answered 504")
        if not policy.allow_timeout_override:
            unheeded.append("allow_timeout_override: false: a request may bring its own budget")
    return told


def _parameters(config: ModelConfig, unheeded: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, parameter in config.parameters.items():
        own = name.removeprefix(OWN)
        if own in _PLACES:
            raise InvalidSetting(f"parameter '{name}' names a place of the server's; not from here")
        if own != name:
            told[own] = parameter.string_value
        elif name == _THREADS:
            told["threads"] = _threads(parameter.string_value)
        else:
            unheeded.append(f"parameters: {name}")
    return told


def _threads(text: str) -> int:
    try:
        return max(1, int(text))  # 0 is Triton's word for its default
    except ValueError:
        raise InvalidSetting(f"{_THREADS} is '{text}'; expected a whole number") from None


def _unheeded(config: ModelConfig) -> list[str]:
    """Fields without a meaning here; who leaves them at their defaults hears nothing."""
    optimization, policy = config.optimization, config.version_policy
    said = {
        "runtime": bool(config.runtime),
        "cc_model_filenames": bool(config.cc_model_filenames),
        "metric_tags": bool(config.metric_tags),
        "model_metrics": config.model_metrics is not UNSET,
        "optimization": optimization is not UNSET and optimization != Optimization(),
        "instance_group: rate_limiter": any(
            group.rate_limiter is not UNSET for group in config.instance_group
        ),
        "instance_group: profile, secondary_devices, host_policy": any(
            group.profile or group.secondary_devices or group.host_policy
            for group in config.instance_group
        ),
        "input: allow_ragged_batch: rows are padded where that changes no answer": any(
            each.allow_ragged_batch for each in config.input
        ),
        "input: format": any(each.format != "FORMAT_NONE" for each in config.input),
    }
    assert policy is not UNSET
    return [words for words, is_said in said.items() if is_said]
