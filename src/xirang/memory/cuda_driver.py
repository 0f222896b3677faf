"""The CUDA driver, as far as arenas need it: calls that say in words what could not be done."""

from functools import cache
from threading import Lock
from typing import Any

from xirang.errors import InvalidSetting
from xirang.memory.arena import NoMemory
from xirang.memory.machine import PART

capturing = Lock()
"""Held while a graph is captured: nobody unmaps memory or waits for the device meanwhile."""


class CudaDriver:
    """The driver's way to one device.

    Attributes:
        device: Its number.
        module: `cuda.bindings.driver`, for its types.
    """

    def __init__(self, device: int = 0, module: Any = None) -> None:
        """Enter the device's primary context: the one that PyTorch and ONNX Runtime use too.

        Args:
            device: Its number.
            module: The module `cuda.bindings.driver`.

        Raises:
            InvalidSetting: There is no such device, or no way to it.
        """
        self.device = device
        self.module = module or _module()
        try:
            _begin(self.module)
            number = self.do("find the device", "cuDeviceGet", device)
            self._context = self.do("enter", "cuDevicePrimaryCtxRetain", number)
        except NoMemory as error:
            raise InvalidSetting(f"there is no CUDA device {device}: {error}") from None
        self.enter()

    def enter(self) -> None:
        """A context belongs to a thread, and pages are moved by another one than runs."""
        self.do("enter", "cuCtxSetCurrent", self._context)

    def do(self, what: str, name: str, *arguments: Any) -> Any:
        """What a function of the driver gives.

        Args:
            what: It does, in words.
            name: Its own.
            arguments: What it takes.

        Raises:
            NoMemory: It fails.
        """
        return _done(self.module, what, name, *arguments)

    def free_bytes(self) -> int:
        """What nobody has of the device's memory."""
        self.enter()
        _, free, _ = self.module.cuMemGetInfo()
        return int(free)


@cache
def driver_of(device: int) -> CudaDriver:
    """The one way to a device that all arenas of the process share.

    Raises:
        InvalidSetting: There is no such device, or no way to it.
    """
    return CudaDriver(device)


def pools_bytes(wanted_bytes: int = 0, module: Any = None) -> tuple[tuple[str, int], ...]:
    """The name of each device, as PyTorch has it, and a sensible capacity of its pool.

    Args:
        wanted_bytes: The capacity, if that much is there; 0 for most of what there is.
        module: The module `cuda.bindings.driver`.
    """
    try:
        module = module or _module()
        _begin(module)
        count = int(_done(module, "count the devices", "cuDeviceGetCount"))
        sizes = [_size_bytes(module, number) for number in range(count)]
    except (InvalidSetting, NoMemory):
        return ()
    wanted = [min(wanted_bytes or int(size * PART), size) for size in sizes]
    return tuple((f"cuda:{number}", each) for number, each in enumerate(wanted))


def _size_bytes(module: Any, number: int) -> int:
    device = _done(module, "find the device", "cuDeviceGet", number)
    return int(_done(module, "measure the device", "cuDeviceTotalMem", device))


def _begin(module: Any) -> None:
    try:
        _done(module, "begin", "cuInit", 0)
    except RuntimeError as error:  # cuda-bindings looks for the driver at the first call
        said = str(error).partition("\n")[0]
        raise InvalidSetting(f"there is no CUDA driver: {said}") from None


def _done(module: Any, what: str, name: str, *arguments: Any) -> Any:
    number, *given = getattr(module, name)(*arguments)
    if int(number):
        raise NoMemory(f"the CUDA driver cannot {what}: {name} says {number}")
    return given[0] if given else None


def _module() -> Any:
    try:
        from cuda.bindings import driver  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise InvalidSetting("memory on CUDA needs the package cuda-bindings") from None
    return driver
