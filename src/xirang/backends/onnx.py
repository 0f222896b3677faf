"""ONNX Runtime."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from xirang.backends.executable import OutOfMemory
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting
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


class OnnxExecutable:
    """One session, run by all instances at once: ONNX Runtime's run is reentrant.

    Two threads in one session with one intra-op thread each do twice the work of one, more than
    one run with two threads does, and the weights are loaded once.
    """

    platform = "onnxruntime_onnx"
    is_reentrant = True
    keeps_inputs = False

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        """Load a model file.

        Args:
            path: An ONNX file.
            threads: Intra-op threads of one run.

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
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ort's errors share no public base class
            raise InvalidSetting(
                f"{path} is not a model that ONNX Runtime loads: {error}"
            ) from error
        self._refused = _refusals()
        self.inputs = tuple(_spec(node) for node in self._session.get_inputs())
        self.outputs = tuple(_spec(node) for node in self._session.get_outputs())
        self._words = [spec.name for spec in self.inputs if spec.datatype == "BYTES"]

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the session; see `Executable.run`."""
        if self._words:
            inputs = {**inputs, **{name: decoded(inputs[name], name) for name in self._words}}
        try:
            arrays = self._session.run(wanted, inputs)
        except self._refused as error:
            raise InvalidRequest(f"the model refused its input: {error}") from error
        except Exception as error:
            if _is_out_of_memory(error):
                raise OutOfMemory(str(error)) from error
            raise
        return dict(zip(wanted, arrays, strict=True))


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
