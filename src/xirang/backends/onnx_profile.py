"""What ONNX Runtime's own allocator did while a model ran, node by node.

The runtime's profile carries its arena's counters after each node. It is read in a process of its
own: the arena that splits its blocks exactly is shared by a whole process, its highest mark never
comes down, and a run that needs more memory than there is takes only that process along.
"""

import json
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xirang.backends.executable import OutOfMemory
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array

_ARENA = {
    "max_mem": 0,
    "arena_extend_strategy": -1,
    "initial_chunk_size_bytes": -1,
    # A block is split whenever that leaves something: what is in use is what was asked for.
    "max_dead_bytes_per_chunk": 1,
    "initial_growth_chunk_size_bytes": -1,
}


_ELEMENTS_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float": 4,
    "int64": 8,
    "uint64": 8,
    "double": 8,
}
"""As the profile names them; strings lie outside of the arena."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One node, after it ran and before the runtime freed what nobody needs any more.

    Attributes:
        name: Of the node.
        kind: Its operator.
        outputs_bytes: The size of each output.
        requested_bytes: By how much it raised what has been asked for.
        used_bytes: What is in use in the arena.
        peak_bytes: The most that ever was, within nodes too.
        held_bytes: What the arena has from the system.
    """

    name: str
    kind: str
    outputs_bytes: tuple[int, ...]
    requested_bytes: int
    used_bytes: int
    peak_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What was seen.

    Attributes:
        graph: The model as the runtime runs it, after its own optimisations: an ONNX file.
        runs: The nodes of each run, in the order in which they ran.
    """

    graph: bytes
    runs: tuple[tuple[Ran, ...], ...]


def profile(path: Path, feeds: Sequence[Mapping[str, Array]], *, is_default: bool) -> Profile:
    """Run a model on each feed, in order.

    Args:
        path: An ONNX file.
        feeds: Its inputs; small ones first, for a peak shows only above the earlier ones.
        is_default: Whether the runtime reuses and cuts blocks as it does unless told otherwise;
            else each tensor has a block of its own.

    Raises:
        InvalidSetting: The model cannot be loaded or run, or the runtime does not tell.
        OutOfMemory: There was not enough.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(_profile, str(path), list(feeds), is_default).result()
        except BrokenProcessPool:
            raise OutOfMemory("the process that ran the model was ended by the system") from None


def _profile(path: str, feeds: Sequence[Mapping[str, Array]], is_default: bool) -> Profile:  # noqa: FBT001 (crosses a process)
    try:
        import onnxruntime as ort
    except ImportError:
        raise InvalidSetting("this needs ONNX Runtime: pip install 'xirang[onnx]'") from None
    with TemporaryDirectory() as folder:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = f"{folder}/profile"
        options.optimized_model_filepath = f"{folder}/model.onnx"
        if not is_default:
            _keep_apart(ort, options)
        try:
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            for feed in feeds:
                session.run(None, feed)
            events = json.loads(Path(session.end_profiling()).read_bytes())
        except Exception as error:  # the runtime's errors share no public base class
            raise InvalidSetting(f"{path} cannot be traced: {error}") from None
        graph = Path(options.optimized_model_filepath).read_bytes()
    return Profile(graph, tuple(_runs(events)))


def _keep_apart(ort: Any, options: Any) -> None:
    options.enable_mem_reuse = options.enable_mem_pattern = False
    kind = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(kind, ort.OrtArenaCfg(_ARENA))
    options.add_session_config_entry("session.use_env_allocators", "1")


def _runs(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Ran, ...]]:
    nodes: list[Ran] = []
    for event in events:
        if event["name"] == "model_run":
            yield tuple(nodes)
            nodes = []
        elif event["cat"] == "Node" and event["name"].endswith("_kernel_time"):
            nodes.append(_ran(event["name"].removesuffix("_kernel_time"), event["args"]))


def _ran(name: str, told: Mapping[str, Any]) -> Ran:
    try:
        return Ran(
            name,
            told["op_name"],
            tuple(_size(output) for output in told["output_type_shape"]),
            int(told["mem_requested_in_use_delta"]),
            int(told["mem_bytes_in_use"]),
            int(told["mem_in_use_peak"]),
            int(told["mem_arena_held"]),
        )
    except KeyError as error:
        raise InvalidSetting(
            f"this ONNX Runtime does not tell its allocator's traffic ({error} is missing from its "
            "profile); 1.32 does"
        ) from None


def _size(output: Mapping[str, Sequence[int]]) -> int:
    ((kind, shape),) = output.items()
    return _ELEMENTS_BYTES.get(kind, 0) * prod(shape)
