"""What clients may know about a model: metadata and configuration, in the v2 protocol's words."""

from dataclasses import dataclass
from typing import Any

from xirang.core.signature import TensorSpec
from xirang.engine.model import Model


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Metadata, readiness and configuration of one model.

    Attributes:
        name: Under which it is served.
        version: The one version that is served.
        platform: Which library executes it.
        inputs: With -1 where a dim may vary.
        outputs: The same.
        is_ready: Whether it takes requests.
        config: JSON-able, in the keys of Triton's model configuration and an own `xirang` part.
    """

    name: str
    version: str
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_ready: bool
    config: dict[str, Any]


def describe(model: Model, *, is_ready: bool) -> ModelInfo:
    """A model as its clients may see it."""
    signature = model.signature
    return ModelInfo(
        name=model.name,
        version=model.version,
        platform=model.executable.platform,
        inputs=signature.inputs,
        outputs=signature.outputs,
        is_ready=is_ready,
        config=_config(model),
    )


def _config(model: Model) -> dict[str, Any]:
    policy, signature = model.policy, model.signature
    platform = model.executable.platform
    is_batched = signature.is_batched
    return {
        "name": model.name,
        "platform": platform,
        "backend": platform.partition("_")[0],
        "max_batch_size": policy.max_batch_size if is_batched else 0,
        "input": [_io(spec, is_batched=is_batched) for spec in signature.inputs],
        "output": [_io(spec, is_batched=is_batched) for spec in signature.outputs],
        "instance_group": [{"name": model.name, "kind": "KIND_CPU", "count": policy.instances}],
        "dynamic_batching": {"max_queue_delay_microseconds": policy.window_ns_max // 1000},
        "xirang": {
            "batching": policy.batching.value,
            "budget_ms": model.budget_ns / 1e6,
            "window_ms_max": policy.window_ns_max / 1e6,
            "efficiency": policy.efficiency,
            "depth_max": policy.depth_max,
            "elements_max": policy.elements_max,
            "length_max": model.length_max,
            "can_pad": policy.can_pad,
            "verdict": model.verdict,
            "cost_ns": list(model.cost.weights),
        },
    }


def _io(spec: TensorSpec, *, is_batched: bool) -> dict[str, Any]:
    dims = spec.shape[1:] if is_batched else spec.shape
    kind = "TYPE_STRING" if spec.datatype == "BYTES" else f"TYPE_{spec.datatype}"
    return {"name": spec.name, "data_type": kind, "dims": list(dims)}
