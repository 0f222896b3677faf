"""A Triton configuration in xirang's own settings, and in words what they cannot say.

A `dynamic_batching` block has Triton's own meaning (batching.py). Without the block xirang's rules
hold, which batch better than none.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from msgspec import UNSET

from xirang.config import ModelSettings, model_settings
from xirang.core.rules import BatcherRules
from xirang.errors import InvalidSetting
from xirang.repository.triton.batching import SCHEDULER, mixes_shapes, rules_of, settings_of
from xirang.repository.triton.schema import ModelConfig, Optimization

OWN = "xirang."
"""Parameters that begin so are xirang's settings; Triton passes them by."""

_PLACES = ("learned", "length_histogram")
"""Settings that make the server read or write where a model's files must not lead it."""

_THREADS = "intra_op_thread_count"


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a model is to be served.

    Attributes:
        settings: All of them.
        unheeded: What the configuration says without effect here.
        rules: Of the batcher that it asks for; None where our own hold.
    """

    settings: ModelSettings
    unheeded: tuple[str, ...]
    rules: BatcherRules | None = None


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
    rules = rules_of(config)
    if config.dynamic_batching is not UNSET and rules is None:
        told |= settings_of(config.dynamic_batching, unheeded)
    told |= _parameters(config, unheeded)
    settings = model_settings(told, common, f"config.pbtxt of {config.name}")
    if own is not None:
        names = [field.name for field in fields(ModelSettings)]
        differing = {n: getattr(own, n) for n in names if getattr(own, n) != getattr(common, n)}
        settings = replace(settings, **differing)
    if 0 < settings.budget_ms <= settings.window_ms:
        settings = replace(settings, window_ms=settings.budget_ms / 2)
    return Meaning(settings.check(name=config.name), tuple(unheeded), rules)


def _parameters(config: ModelConfig, unheeded: list[str]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, parameter in config.parameters.items():
        own = name.removeprefix(OWN)
        if own == name:
            if name == _THREADS:
                told["threads"] = _threads(parameter.string_value)
            else:
                unheeded.append(f"parameters: {name}")
        elif own in _PLACES:
            raise InvalidSetting(f"parameter '{name}' names a place of the server's; not from here")
        elif own != SCHEDULER:
            told[own] = parameter.string_value
    return told


def _threads(text: str) -> int:
    try:
        return max(1, int(text))  # 0 is Triton's word for its default
    except ValueError:
        raise InvalidSetting(f"{_THREADS} is '{text}'; expected a whole number") from None


def _unheeded(config: ModelConfig) -> list[str]:
    """Fields without a meaning here; who leaves them at their defaults hears nothing."""
    optimization = config.optimization
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
        "input: allow_ragged_batch: rows are padded where that changes no answer": (
            any(each.allow_ragged_batch for each in config.input)
            and (rules_of(config) is None or not mixes_shapes(config))
        ),
        "input: format": any(each.format != "FORMAT_NONE" for each in config.input),
    }
    return [words for words, is_said in said.items() if is_said]
