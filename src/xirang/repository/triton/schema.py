"""The fields of a Triton model configuration, by name and in Triton's order.

A field that is `UNSET` by default tells whether it was given, as messages of protobuf do. `Opaque`
stands for a block that is read but not looked into: it has no meaning here.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
UInt32 = Annotated[int, Meta(ge=0, lt=2**32)]
UInt64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # msgspec holds no greater bound

Opaque = dict[str, Any]

DataType = Literal[
    "TYPE_INVALID",
    "TYPE_BOOL",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
    "TYPE_BF16",
]
Format = Literal["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"]
InstanceKind = Literal["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"]
TimeoutAction = Literal["REJECT", "DELAY"]
Importance = Literal["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"]
BatchInputKind = Literal[
    "BATCH_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT",
    "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
    "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
    "BATCH_ITEM_SHAPE",
    "BATCH_ITEM_SHAPE_FLATTEN",
]
BatchOutputKind = Literal["BATCH_SCATTER_WITH_INPUT_SHAPE"]


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One block. Of the fields in `ONE_OF` at most one may be given."""

    ONE_OF: ClassVar[tuple[str, ...]] = ()


class Reshape(Message):
    """The shape as the model has it, where clients see another."""

    shape: list[Int64] = []


class Input(Message):
    """One input as clients see it; without the batch axis if the model batches."""

    name: str = ""
    data_type: DataType = "TYPE_INVALID"
    format: Format = "FORMAT_NONE"
    dims: list[Int64] = []
    reshape: Reshape | UnsetType = UNSET
    is_shape_tensor: bool = False
    allow_ragged_batch: bool = False
    optional: bool = False
    is_non_linear_format_io: bool = False


class Output(Message):
    """One output as clients see it."""

    name: str = ""
    data_type: DataType = "TYPE_INVALID"
    dims: list[Int64] = []
    reshape: Reshape | UnsetType = UNSET
    label_filename: str = ""
    is_shape_tensor: bool = False
    is_non_linear_format_io: bool = False


class BatchInput(Message):
    """An input that is made from the sizes of a batch."""

    kind: BatchInputKind = "BATCH_ELEMENT_COUNT"
    target_name: list[str] = []
    data_type: DataType = "TYPE_INVALID"
    source_input: list[str] = []


class BatchOutput(Message):
    """An output that is cut by the sizes of a batch."""

    target_name: list[str] = []
    kind: BatchOutputKind = "BATCH_SCATTER_WITH_INPUT_SHAPE"
    source_input: list[str] = []


class InstanceGroup(Message):
    """How many runs there may be at once, and where."""

    name: str = ""
    kind: InstanceKind = "KIND_AUTO"
    count: Int32 = 0
    rate_limiter: Opaque | UnsetType = UNSET
    gpus: list[Int32] = []
    secondary_devices: list[Opaque] = []
    profile: list[str] = []
    passive: bool = False
    host_policy: str = ""


class Latest(Message):
    """Serve the greatest version numbers."""

    num_versions: UInt32 = 0


class All(Message):
    """Serve every version."""


class Specific(Message):
    """Serve these versions."""

    versions: list[Int64] = []


class VersionPolicy(Message):
    """Which versions are served."""

    ONE_OF: ClassVar[tuple[str, ...]] = ("latest", "all", "specific")

    latest: Latest | UnsetType = UNSET
    all: All | UnsetType = UNSET
    specific: Specific | UnsetType = UNSET


class Pinned(Message):
    """Whether transfers go through pinned memory."""

    enable: bool = False


class Optimization(Message):
    """Wishes to the backend; xirang takes none of them."""

    graph: Opaque | UnsetType = UNSET
    priority: Importance = "PRIORITY_DEFAULT"
    cuda: Opaque | UnsetType = UNSET
    execution_accelerators: Opaque | UnsetType = UNSET
    input_pinned_memory: Pinned = field(default_factory=lambda: Pinned(enable=True))
    output_pinned_memory: Pinned = field(default_factory=lambda: Pinned(enable=True))
    gather_kernel_buffer_threshold: UInt32 = 0
    eager_batching: bool = False


class QueuePolicy(Message):
    """How long and how many requests wait."""

    timeout_action: TimeoutAction = "REJECT"
    default_timeout_microseconds: UInt64 = 0
    allow_timeout_override: bool = False
    max_queue_size: UInt32 = 0


class DynamicBatching(Message):
    """How waiting requests become batches."""

    preferred_batch_size: list[Int32] = []
    max_queue_delay_microseconds: UInt64 = 0
    preserve_ordering: bool = False
    priority_levels: UInt64 = 0
    default_priority_level: UInt64 = 0
    default_queue_policy: QueuePolicy | UnsetType = UNSET
    priority_queue_policy: dict[int, QueuePolicy] = {}


class EnsembleStep(Message):
    """One call of another model."""

    model_name: str = ""
    model_version: Int64 = -1
    input_map: dict[str, str] = {}
    output_map: dict[str, str] = {}
    model_namespace: str = ""


class EnsembleScheduling(Message):
    """What an ensemble is made of."""

    step: list[EnsembleStep] = []


class Parameter(Message):
    """The value of one of a backend's own settings."""

    string_value: str = ""


class WarmupInput(Message):
    """Where one input of a warm-up sample comes from."""

    ONE_OF: ClassVar[tuple[str, ...]] = ("zero_data", "random_data", "input_data_file")

    data_type: DataType = "TYPE_INVALID"
    dims: list[Int64] = []
    zero_data: bool | UnsetType = UNSET
    random_data: bool | UnsetType = UNSET
    input_data_file: str | UnsetType = UNSET


class Warmup(Message):
    """A sample that is run at load."""

    name: str = ""
    batch_size: UInt32 = 0
    inputs: dict[str, WarmupInput] = {}
    count: UInt32 = 0


class Transactions(Message):
    """How many answers a request has."""

    decoupled: bool = False


class ResponseCache(Message):
    """Whether answers are kept and given again."""

    enable: bool = False


class ModelConfig(Message):
    """A model's whole configuration."""

    ONE_OF: ClassVar[tuple[str, ...]] = (
        "dynamic_batching",
        "sequence_batching",
        "ensemble_scheduling",
    )

    name: str = ""
    platform: str = ""
    backend: str = ""
    runtime: str = ""
    version_policy: VersionPolicy | UnsetType = UNSET
    max_batch_size: Int32 = 0
    input: list[Input] = []
    output: list[Output] = []
    batch_input: list[BatchInput] = []
    batch_output: list[BatchOutput] = []
    optimization: Optimization | UnsetType = UNSET
    dynamic_batching: DynamicBatching | UnsetType = UNSET
    sequence_batching: Opaque | UnsetType = UNSET
    ensemble_scheduling: EnsembleScheduling | UnsetType = UNSET
    instance_group: list[InstanceGroup] = []
    default_model_filename: str = ""
    cc_model_filenames: dict[str, str] = {}
    metric_tags: dict[str, str] = {}
    parameters: dict[str, Parameter] = {}
    model_warmup: list[Warmup] = []
    model_operations: Opaque | UnsetType = UNSET
    model_transaction_policy: Transactions | UnsetType = UNSET
    model_repository_agents: Opaque | UnsetType = UNSET
    response_cache: ResponseCache | UnsetType = UNSET
    model_metrics: Opaque | UnsetType = UNSET
