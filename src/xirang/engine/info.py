"""What clients may know about a model: metadata and configuration, in the v2 protocol's words."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xirang.core.signature import Layout, TensorSpec
from xirang.engine.model import Model
from xirang.tensors.tensor import data_type_of


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Metadata, readiness and configuration of one model.

    Attributes:
        name: Under which it is served.
        version: The one that serves.
        versions: All that are served, or the one that was asked for.
        platform: Which library executes it.
        inputs: With -1 where a dim may vary.
        outputs: The same.
        is_ready: Whether it takes requests.
        budget_ns: Latency budget of a request that brings none.
        config: JSON-able, in the keys of Triton's model configuration and an own `xirang` part.
        labels: Output name to the names of its classes, where they are known.
    """

    name: str
    version: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_ready: bool
    budget_ns: int
    config: dict[str, Any]
    labels: Mapping[str, tuple[str, ...]]


def describe(model: Model, versions: tuple[str, ...], *, is_ready: bool) -> ModelInfo:
    """A model as its clients may see it."""
    signature = model.signature
    return ModelInfo(
        name=model.name,
        version=model.version,
        versions=versions,
        platform=model.executable.platform,
        inputs=signature.inputs,
        outputs=signature.outputs,
        is_ready=is_ready,
        budget_ns=model.budget_ns,
        config=_config(model),
        labels=model.labels,
    )


def _config(model: Model) -> dict[str, Any]:
    policy, signature = model.policy, model.signature
    platform = model.executable.platform
    is_batched = signature.is_batched
    taken = {name: signature.input_layout(name) for name in signature.input_names}
    given = {name: signature.output_layout(name) for name in signature.output_names}
    told = {
        "name": model.name,
        "platform": platform,
        "backend": platform.partition("_")[0],
        "max_batch_size": policy.max_batch_size if is_batched else 0,
        "input": [_io(spec, taken[spec.name], is_batched=is_batched) for spec in signature.inputs],
        "output": [
            _io(spec, given[spec.name], is_batched=is_batched) for spec in signature.outputs
        ],
        "instance_group": [{"name": model.name, "kind": _kind(model), "count": policy.instances}],
        "dynamic_batching": {"max_queue_delay_microseconds": policy.window_ns_max // 1000},
        "xirang": {
            "batching": policy.batching.value,
            "budget_ms": model.budget_ns / 1e6,
            "window_ms_max": policy.window_ns_max / 1e6,
            "efficiency": policy.efficiency,
            "depth_max": policy.depth_max,
            "elements_max": policy.elements_max,
            "length_max": model.shapes.length_max,
            "lengths": list(model.shapes.lengths),
            "batch_sizes": list(model.shapes.row_sizes),
            "request_rows_max": model.shapes.rows_max,
            "paddable": list(model.shapes.paddable),
            "can_pad": policy.can_pad,
            "verdict": model.verdict,
            "planning": str(getattr(model.executable, "planning", "")),
            "overrides": list(model.overrides),
            "inputs": {name: _layout(layout) for name, layout in taken.items()},
            "outputs": {name: _layout(layout) for name, layout in given.items()},
            "cost_ns": list(model.cost.weights),
        },
    }
    # What its configuration says stands as it is; what was found out is told beside it.
    return {**model.declared, "xirang": told["xirang"]} if model.declared else told


def _kind(model: Model) -> str:
    device = str(getattr(model.executable, "device", "cpu"))
    return "KIND_GPU" if device.startswith("cuda") else "KIND_CPU"


def _io(spec: TensorSpec, layout: Layout, *, is_batched: bool) -> dict[str, Any]:
    rows_axis = layout.batch_axis if is_batched else None
    dims = [size for axis, size in enumerate(spec.shape) if axis != rows_axis]
    return {"name": spec.name, "data_type": data_type_of(spec.datatype), "dims": dims}


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "batch_axis": layout.batch_axis,
        "lengths": [
            {
                "axis": tie.axis,
                "length": tie.length,
                "stride": tie.stride,
                "offset": tie.offset,
                "factor": tie.factor,
            }
            for tie in layout.ties
        ],
        "pad_value": layout.pad_value,
        "is_mask": layout.is_mask,
    }
