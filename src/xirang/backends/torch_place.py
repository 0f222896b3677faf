"""Where PyTorch runs: on the CPU over numpy's own memory, or on a CUDA device through copies."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array

Call = Callable[[dict[str, Any]], dict[str, Any]]
"""A model over tensors by name."""


class Place(Protocol):
    """Takes arrays to where the model is, and its outputs back.

    Attributes:
        device: As PyTorch names it.
    """

    device: str

    def run(self, call: Call, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Call the model; the outputs share no memory with the inputs."""
        ...


def place_of(device: str, *, threads: int) -> Place:
    """The place that a setting names.

    Args:
        device: `auto` (CUDA where there is some), `cpu`, `cuda` or `cuda:N`.
        threads: Threads inside one run on the CPU.

    Raises:
        InvalidSetting: There is no such device.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and not count):
        return CpuPlace(threads=threads)
    name = "cuda:0" if device in {"auto", "cuda"} else device
    if name not in {f"cuda:{index}" for index in range(count)}:
        raise InvalidSetting(
            f"there is no device '{device}'; expected auto, cpu or one of {count} CUDA devices"
        )
    return CudaPlace(name)


class CpuPlace:
    """The CPU: inputs are numpy's memory, seen as tensors, and outputs are PyTorch's, as arrays."""

    device = "cpu"

    def __init__(self, *, threads: int) -> None:
        self._threads = threads

    def run(self, call: Call, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """See `Place.run`."""
        import torch

        # PyTorch holds this number for each thread (MKL's is the process's), so it is set in the
        # thread that runs: models with different settings may live in one server.
        if torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        tensors = {name: _tensor(array) for name, array in inputs.items()}
        given = {tensor.untyped_storage().data_ptr() for tensor in tensors.values()}
        outputs = call(tensors)
        return {name: _array(tensor, given) for name, tensor in outputs.items()}


class CudaPlace:
    """A CUDA device: pinned copies in and out, and a stream for each thread that runs."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._local = threading.local()

    def run(self, call: Call, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """See `Place.run`."""
        import torch

        stream = getattr(self._local, "stream", None)
        if stream is None:
            torch.cuda.synchronize(self.device)  # the weights came on another stream
            stream = self._local.stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            tensors = {
                name: _tensor(array).pin_memory().to(self.device, non_blocking=True)
                for name, array in inputs.items()
            }
            hosts = {name: _to_host(tensor) for name, tensor in call(tensors).items()}
        stream.synchronize()
        return {name: host.numpy() for name, host in hosts.items()}


def _tensor(array: Array) -> Any:
    import torch

    # What PyTorch cannot look at in place: it knows no read-only memory and no negative strides.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def _array(tensor: Any, given: set[int]) -> Array:
    tensor = _with_numpy_type(tensor)
    if tensor.untyped_storage().data_ptr() in given:
        tensor = tensor.clone()  # a view of an input
    array: Array = tensor.numpy(force=True)
    return array


def _to_host(tensor: Any) -> Any:
    import torch

    tensor = _with_numpy_type(tensor)
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def _with_numpy_type(tensor: Any) -> Any:
    import torch

    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def numpy_type(dtype: Any) -> "np.dtype[Any] | None":
    """The numpy type in which tensors of a PyTorch type come and go; None if there is none."""
    import torch

    try:
        return _with_numpy_type(torch.empty(0, dtype=dtype)).numpy().dtype  # type: ignore[no-any-return]
    except (TypeError, RuntimeError):
        return None
