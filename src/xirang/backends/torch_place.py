"""Where PyTorch runs: on the CPU over numpy's own memory, or on a CUDA device through copies."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from xirang.backends.torch_cuda import Accelerator, Cuda
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import Array

Call = Callable[[dict[str, Any]], dict[str, Any]]
"""A model over tensors by name."""

Send = Callable[[Array], Any]
"""Takes an input to where the model is, as a tensor; None if that is for the place to do."""


class Place(Protocol):
    """Takes arrays to where the model is, and its outputs back.

    Attributes:
        device: As settings name it.
        target: As tensors have it.
    """

    device: str
    target: str

    @property
    def accelerator(self) -> Accelerator | None:
        """The device beside the CPU; None for the CPU."""
        ...

    def run(
        self, call: Call, inputs: Mapping[str, Array], send: Send | None = None
    ) -> dict[str, Array]:
        """Call the model; the outputs share no memory with the inputs.

        Args:
            call: The model.
            inputs: Arrays.
            send: Of the room in which the run is, if it is in one.
        """
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
    return DevicePlace(Cuda(name))


class CpuPlace:
    """The CPU: inputs are numpy's memory, seen as tensors, and outputs are PyTorch's, as arrays."""

    device = target = "cpu"
    accelerator = None

    def __init__(self, *, threads: int) -> None:
        self._threads = threads

    def run(
        self, call: Call, inputs: Mapping[str, Array], send: Send | None = None
    ) -> dict[str, Array]:
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


class DevicePlace:
    """A device beside the CPU: pinned copies in and out, and a stream for each thread that runs."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.device, self.target = accelerator.device, accelerator.target

    def run(
        self, call: Call, inputs: Mapping[str, Array], send: Send | None = None
    ) -> dict[str, Array]:
        """See `Place.run`."""
        there = self.accelerator
        with there.inside():
            try:
                tensors = {name: self._sent(array, send) for name, array in inputs.items()}
                outputs = call(tensors).items()
                hosts = {name: there.to_host(with_numpy_type(each)) for name, each in outputs}
            finally:  # also of a run that failed: its memory is somebody else's next
                there.wait()
        return {name: host.numpy() for name, host in hosts.items()}

    def _sent(self, array: Array, send: Send | None) -> Any:
        found = None if send is None else send(array)
        return self.accelerator.sent(_tensor(array)) if found is None else found


def _tensor(array: Array) -> Any:
    import torch

    # What PyTorch cannot look at in place: it knows no read-only memory and no negative strides.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def _array(tensor: Any, given: set[int]) -> Array:
    tensor = with_numpy_type(tensor)
    if tensor.untyped_storage().data_ptr() in given:
        tensor = tensor.clone()  # a view of an input
    array: Array = tensor.numpy(force=True)
    return array


def with_numpy_type(tensor: Any) -> Any:
    """A tensor as it is, or in the type in which numpy can have it."""
    import torch

    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor


def numpy_type(dtype: Any) -> "np.dtype[Any] | None":
    """The numpy type in which tensors of a PyTorch type come and go; None if there is none."""
    import torch

    try:
        return with_numpy_type(torch.empty(0, dtype=dtype)).numpy().dtype  # type: ignore[no-any-return]
    except (TypeError, RuntimeError):
        return None
