"""The seam between the engine and the libraries that execute models."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from xirang.core.memory.polynomial import Polynomial, Size
from xirang.core.signature import TensorSpec
from xirang.tensors.tensor import Array


class OutOfMemory(Exception):
    """A run needed more memory than there is; a smaller one may succeed."""


class Workers(Protocol):
    """The processes that a model runs in.

    Attributes:
        hang_s: A run that takes longer is taken for hung, and its process ended.
        living: Processes that can run the model now.
        restarts: How many were started in the place of another.
    """

    hang_s: float
    living: int
    restarts: int

    def wait(self, timeout_s: float) -> bool:
        """Whether a process takes a run, now or within that time; false at once if none starts."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


class WorkerDied(Exception):
    """The process that ran the model ended under a run, or there is none just now.

    Attributes:
        workers: Which one.
        is_suspect: Whether something in the run may have ended it.
    """

    def __init__(self, text: str, workers: Workers, *, is_suspect: bool = True) -> None:
        super().__init__(text)
        self.workers = workers
        self.is_suspect = is_suspect


class Executable(Protocol):
    """A loaded model that maps input arrays to output arrays.

    `run` is called from instance threads, as many at once as the model has instances.

    Attributes:
        platform: The name that the Open Inference Protocol's clients expect.
        inputs: What it declares to take; the probe finds out what is true.
        outputs: What it declares to give.
        is_reentrant: Whether several threads may run it at once.
        keeps_inputs: Whether its outputs may share memory with its inputs.
    """

    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    is_reentrant: bool
    keeps_inputs: bool

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """The outputs that are wanted.

        Raises:
            InvalidRequest: The model refused the input itself.
            OutOfMemory: It needed more memory than there is.
            Exception: Anything else that the library or the model raises.
        """
        ...


class Room(Protocol):
    """What one run after another takes of an arena; it belongs to one thread.

    Attributes:
        peak_bytes: How far the last run reached, inputs and outputs included.
        is_planned: Whether every tensor of the last run lay where it was planned.
    """

    peak_bytes: int
    is_planned: bool

    def open(self, rows: int, length: Size, lease_bytes: int) -> None:
        """Begin a run that may take so many bytes from the bottom of the arena."""
        ...

    def extend(self, lease_bytes: int) -> None:
        """The run may take so many bytes instead; its inputs stay where they are."""
        ...

    def take(self, shape: Sequence[int], dtype: Any) -> Array:
        """An input of the run, not filled yet; like `numpy.empty` where it finds no room."""
        ...

    def run(
        self, executable: "Executable", inputs: Mapping[str, Array], wanted: Sequence[str]
    ) -> dict[str, Array]:
        """`Executable.run`, in the room; the outputs lie outside of it and are the caller's.

        Raises:
            OutOfMemory: The lease is too small.
        """
        ...


class Footprint(Protocol):
    """How much memory a model's runs take, inputs and outputs included.

    One whose arenas are not the host's has a method `arena` that reserves one, and says by `device`
    which pool they are of, and by `beside_bytes` what an instance holds there beside its arena.

    Attributes:
        peaks: A run needs no more of an arena than the largest of these; they change when runs
            teach something new.
    """

    peaks: tuple[Polynomial, ...]

    def peak_bytes(self, rows: int, length: Size) -> int:
        """What a run needs of an arena."""
        ...

    def rows_max(self, length: Size, size_bytes: int) -> int:
        """The largest batch of a length that stays within so many bytes; 0 if not one row does."""
        ...

    def room(self, arena: Any) -> Room:
        """A place for runs of one instance, in an arena of the host, or of its `device`."""
        ...


def footprint_of(executable: Executable) -> Footprint | None:
    """What is known of its memory; None if it allocates as it likes.

    Such an executable has an attribute `footprint`. One around another shows that of the other.
    """
    found: Footprint | None = getattr(executable, "footprint", None)
    return found


class ListExecutable(Executable, Protocol):
    """A model that takes lists: rows need not be of one shape, and nothing is padded.

    Attributes:
        takes_lists: Whether it does; an executable without this attribute does not.
    """

    takes_lists: bool

    def run_lists(
        self, columns: Mapping[str, Sequence[Array]], wanted: Sequence[str]
    ) -> Mapping[str, Sequence[Array]]:
        """The outputs that are wanted, one array a row.

        Args:
            columns: Name of an input to one array a row, without a batch axis.
            wanted: Names of outputs.
        """
        ...


def takes_lists(executable: Executable) -> bool:
    """Whether it has `run_lists`."""
    return bool(getattr(executable, "takes_lists", False))


def is_packed(executable: Executable) -> bool:
    """Whether `run` also takes sequences end to end instead of padded rows.

    Such an executable has a true attribute `is_packed`. Handed one more input,
    `tensors.packed.OFFSETS`, it reads every other as laid out by `tensors.packed.pack`, and gives
    its outputs in the same way. Without that input it takes rows of one length, as any other.
    """
    return bool(getattr(executable, "is_packed", False))
