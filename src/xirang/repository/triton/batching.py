"""A `dynamic_batching` block: the rules that it asks for, or, if its owner wants that, our own."""

from typing import Any

from msgspec import UNSET

from xirang.config import scheduler_hold
from xirang.core.request import NEVER_NS, PRIORITY_LOW, PRIORITY_NORMAL
from xirang.core.rules import BatcherRules, QueueRules
from xirang.errors import InvalidSetting
from xirang.repository.triton.schema import DynamicBatching, ModelConfig, QueuePolicy

SCHEDULER = "scheduler"
"""The parameter `xirang.scheduler`: whose rules hold where there is a block."""

_BUDGET_MS_LEAST = 0.001


def rules_of(config: ModelConfig) -> BatcherRules | None:
    """The rules of the batcher that a configuration asks for; None where our own hold.

    Raises:
        InvalidSetting: There is no such scheduler.
    """
    asked = config.parameters.get(f"xirang.{SCHEDULER}")
    name = "triton" if asked is None else asked.string_value
    if name not in {"triton", "xirang"}:
        raise InvalidSetting(
            f"parameter 'xirang.{SCHEDULER}' of {config.name} is '{name}'; "
            "expected triton or xirang"
        )
    batching = config.dynamic_batching
    if batching is UNSET or not config.max_batch_size or name == "xirang":
        return None
    own = batching.default_queue_policy
    return BatcherRules(
        preferred=tuple(sorted(set(batching.preferred_batch_size))),
        delay_ns=_ns(batching.max_queue_delay_microseconds),
        levels=batching.priority_levels,
        level_default=batching.default_priority_level,
        queue=QueueRules() if own is UNSET else _queue_rules(own),
        queues=tuple(
            (level, _queue_rules(policy))
            for level, policy in sorted(batching.priority_queue_policy.items())
        ),
        is_ordered=batching.preserve_ordering,
        held=scheduler_hold(),
    )


def mixes_shapes(config: ModelConfig) -> bool:
    """Whether requests of different shapes may share a batch."""
    varying = [each for each in config.input if -1 in each.dims]
    return bool(varying) and all(each.allow_ragged_batch for each in varying)


def _queue_rules(policy: QueuePolicy) -> QueueRules:
    return QueueRules(
        timeout_ns=_ns(policy.default_timeout_microseconds),
        can_override=policy.allow_timeout_override,
        is_kept=policy.timeout_action == "DELAY",
        depth_max=policy.max_queue_size,
    )


def _ns(microseconds: int) -> int:
    return min(1000 * microseconds, NEVER_NS)


def settings_of(batching: DynamicBatching, unheeded: list[str]) -> dict[str, Any]:
    """The settings that come closest to a block, where our own rules hold all the same.

    Args:
        batching: The block.
        unheeded: Gets what it says without effect.
    """
    delay_ms = batching.max_queue_delay_microseconds / 1000
    # Without a delay Triton sends what is there as soon as an instance is free.
    told: dict[str, Any] = {"window_ms": delay_ms, "efficiency": 1.0 if delay_ms else 0.0}
    policy = batching.default_queue_policy
    if policy is not UNSET:
        told |= _budget_and_queue(policy, unheeded)
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


def _budget_and_queue(policy: QueuePolicy, unheeded: list[str]) -> dict[str, Any]:
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
