"""ONNX Runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xirang.backends.executable import Footprint, OutOfMemory
from xirang.backends.onnx_allocator import allocator, govern
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.memory.room import Runnable, run_alone, trim_own
from xirang.tensors.tensor import Array, decoded

_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}

SMALL, LULL = 4, 16
"""So many runs in a row, each of less than a fourth of the largest, end a wave."""


class OnnxExecutable:
    """One session, run by all instances at once: ONNX Runtime's run is reentrant.

    Two threads in one session with one intra-op thread each do twice the work of one, more than
    one run with two threads does, and the weights are loaded once.

    Attributes:
        footprint: What its runs take; None while that is not known.
        library: The allocator that it runs in; None for one of the runtime's own.
        is_bare: Whether its tensors are too small to be worth a place in an arena.
    """

    platform = "onnxruntime_onnx"
    is_reentrant = True
    keeps_inputs = False

    def __init__(self, path: Path, *, threads: int = 1, is_governed: bool = False) -> None:
        """Load a model file.

        Args:
            path: An ONNX file.
            threads: Intra-op threads of one run.
            is_governed: Whether its memory is to be planned and shared with other models.

        Raises:
            InvalidSetting: ONNX Runtime is not installed, or cannot load the file.
        """
        try:
            import onnxruntime as ort
        except ImportError as error:
            raise InvalidSetting(
                f"{path} needs ONNX Runtime: pip install 'xirang[onnx]'"
            ) from error
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Spinning burns an idle core and gains nothing at saturation.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        options.log_severity_level = 4  # we tell what failed, once
        self.footprint: Footprint | None = None
        self.is_bare = False
        self.library = allocator() if is_governed else None
        if is_governed:
            govern(options, self.library)
        try:
            session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ort's errors share no public base class
            raise InvalidSetting(
                f"{path} is not a model that ONNX Runtime loads: {error}"
            ) from error
        self.inputs = tuple(_spec(node) for node in session.get_inputs())
        self.outputs = tuple(_spec(node) for node in session.get_outputs())
        words = [spec.name for spec in self.inputs if spec.datatype == "BYTES"]
        bare = _Session(session, words)
        self._bare: Runnable = bare
        if is_governed and self.library is None:
            self._bare = _Shrinking(bare)

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the session; see `Executable.run`."""
        if self.library is None or self.is_bare:
            return self._bare.run(inputs, wanted)
        return run_alone(self.library, self._bare, inputs, wanted)

    def trim(self) -> None:
        """Give back what this thread's runs without a lease have left."""
        if self.library is not None:
            trim_own()


class _Session:
    """The runtime's session; its outputs may lie in memory that is the run's."""

    def __init__(self, session: Any, words: Sequence[str]) -> None:
        self._session = session
        self._words = words
        self._refused = _refusals()

    def run(
        self, inputs: Mapping[str, Array], wanted: Sequence[str], options: Any = None
    ) -> dict[str, Array]:
        """Run it, and say in our words what it raises."""
        if self._words:
            inputs = {**inputs, **{name: decoded(inputs[name], name) for name in self._words}}
        try:
            arrays = self._session.run(wanted, inputs, options)
        except self._refused as error:
            raise InvalidRequest(f"the model refused its input: {error}") from error
        except Exception as error:
            if _is_out_of_memory(error):
                raise OutOfMemory(str(error)) from error
            raise
        return dict(zip(wanted, arrays, strict=True))


class _Shrinking:
    """A session in the runtime's own arena, which is shrunk when runs have become small.

    That costs a run a fifth of its time, so it is done once after a wave, not always.
    """

    def __init__(self, session: _Session) -> None:
        import onnxruntime as ort

        self._session = session
        self._options = ort.RunOptions()
        self._options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._largest = self._lull = 0

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run it, and shrink after a row of small ones."""
        elements = sum([array.size for array in inputs.values()])
        self._largest = max(self._largest, elements)
        self._lull = self._lull + 1 if elements * SMALL < self._largest else 0
        if self._lull < LULL:
            return self._session.run(inputs, wanted)
        self._largest, self._lull = elements, 0
        return self._session.run(inputs, wanted, self._options)


def _refusals() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return (state.InvalidArgument,)


def _is_out_of_memory(error: Exception) -> bool:
    """ONNX Runtime has no class of its own for it: the arena says one thing, malloc the other."""
    return any(words in str(error) for words in ("Failed to allocate memory", "bad_alloc"))


def _spec(node: object) -> TensorSpec:
    kind, shape, name = node.type, node.shape, node.name  # type: ignore[attr-defined]
    datatype = _DATATYPES.get(kind)
    if datatype is None:
        raise InvalidSetting(
            f"tensor '{name}' has type {kind}; expected one of {', '.join(_DATATYPES)}"
        )
    # A dim without a usable name is unknown: None, '?' and unk__749 tie nothing together.
    dims = tuple(
        dim if isinstance(dim, int) else None if dim in {None, "?", ""} else str(dim)
        for dim in shape
    )
    return TensorSpec(name, datatype, dims)
