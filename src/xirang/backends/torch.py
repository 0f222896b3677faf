"""PyTorch: exported programs, TorchScript, and modules that the user names."""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xirang.backends.executable import Footprint, OutOfMemory
from xirang.backends.torch_allocator import allocator
from xirang.backends.torch_place import Place, place_of
from xirang.backends.torch_planned import PlannedProgram
from xirang.backends.torch_program import (
    Program,
    named_outputs,
    open_exported,
    open_module,
    open_script,
)
from xirang.backends.torch_replayed import replayed
from xirang.backends.torch_room import room_here
from xirang.backends.torch_study import Feed, Study, study
from xirang.backends.torch_trace import Unplannable
from xirang.core.memory.polynomial import Polynomial, Size, area
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.memory.arena import NoMemory
from xirang.memory.footprint import NativeFootprint
from xirang.memory.packed import PackedFeed, PackedFootprint, reached
from xirang.tensors.packed import OFFSETS, offsets
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

SHARE_MIN = 0.9
"""A graph that places less of the bytes is left alone, and each allocation placed instead."""

REFUSALS = (
    "Guard failed:",  # a size beyond what the program was exported for
    "Expected input at",
    "Runtime assertion failed",
    "index out of range in self",  # a token that no embedding has
    "is out of bounds for dimension",
)
"""What PyTorch says when an input is at fault; it has no class of error for that."""


class TorchExecutable:
    """A program of PyTorch in its place.

    Attributes:
        footprint: What its runs take; None while that is not known.
        is_governed: Whether its memory is to be planned and shared with other models.
        planning: How much of it lies in a plan, or why it has none; empty while nobody asked.
    """

    keeps_inputs = False

    def __init__(self, program: Program, place: Place, *, is_governed: bool = False) -> None:
        """Bind a program to where it runs."""
        self.footprint: Footprint | None = None
        self.is_governed = is_governed
        self.planning = ""
        self._heard: dict[str, Array] | None = None
        self._planned: PlannedProgram | None = None
        self._program = program
        self._place = place
        self._names = [spec.name for spec in program.outputs]
        self.platform = program.platform
        self.inputs = program.inputs
        self.outputs = program.outputs
        self.is_reentrant = program.is_reentrant
        self.is_packed = program.is_packed
        self.bounds = program.bounds
        self.device = place.device

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Run the program; see `Executable.run`."""
        if self.is_packed and OFFSETS in inputs:
            return self._run(inputs, wanted)
        for spec in self.inputs:
            _check(spec, inputs.get(spec.name))
        given = {spec.name: inputs[spec.name] for spec in self.inputs}
        if self._heard is not None:
            self._heard = given
        return self._run_rows(given, wanted) if self.is_packed else self._run(given, wanted)

    def heard(self, run: Callable[[], object]) -> dict[str, Array]:
        """What it is given last while something around it is run; nobody else may run it then."""
        self._heard = {}
        try:
            run()
            return self._heard
        finally:
            self._heard = None

    def study(
        self, feeds: Sequence[Feed], inputs: Sequence[Polynomial], lengths: Sequence[Size]
    ) -> Footprint | None:
        """Find out how its memory can be planned; `planning` says what was found.

        A graph that places most of what it takes needs the least, for it may write results over
        arguments. All others run as they are, each allocation at its place.

        Args:
            feeds: Tiny runs.
            inputs: What the inputs of a run take, as those who fill them have them.
            lengths: For which plans are made.

        Returns:
            What its runs take; None if it runs as PyTorch runs it.
        """
        found: Study | None = None
        try:
            found = self._from_graph(feeds, inputs, lengths)
            why = found.says
        except Unplannable as error:
            why = str(error)
        except Exception as error:  # whatever it is, the model serves as it did before
            why = f"{type(error).__name__}: {error}"
        if found is None or found.share < SHARE_MIN:
            replayed = self._replayed(feeds, inputs, lengths)
            if replayed is not None:
                count = len(replayed.law.regimes[0].slots) - len(inputs)
                self.planning = f"each of {count} allocations a run has its place (graph: {why})"
                return replayed
        if found is None:
            self.planning = f"runs unplanned: {why}"
            return None
        self.planning = why
        self._planned = found.footprint.program
        return found.footprint

    def _replayed(
        self, feeds: Sequence[Feed], inputs: Sequence[Polynomial], lengths: Sequence[Size]
    ) -> NativeFootprint | None:
        """What it takes as it is, in our allocator; None where there is none for it."""
        if self.device != "cpu" or self.is_packed or not feeds or (library := allocator()) is None:
            return None
        try:
            self._slim(feeds)
            return replayed(
                library, lambda feed: self.run(feed.inputs, self._names), feeds, inputs, lengths
            )
        except Exception as error:  # the same
            log.warning("what %s takes could not be recorded: %s", self.platform, error)
            return None

    def study_packed(
        self, runs: Sequence[PackedFeed], inputs: Sequence[Polynomial]
    ) -> PackedFootprint | None:
        """The same for runs of rows end to end, which have a law and no plan.

        Args:
            runs: Tiny ones: the lengths of their rows, and what the program is given.
            inputs: What the inputs of a run take.
        """
        library = allocator() if self.device == "cpu" else None
        if library is None:
            self.planning = "runs unplanned: sequences end to end need our allocator in PyTorch"
            return None
        try:
            acts = [(run.lengths, partial(self.run, run.inputs, self._names)) for run in runs]
            found = PackedFootprint(library, reached(library, acts), inputs)
        except Exception as error:  # whatever it is, the model serves as it did before
            self.planning = f"runs unplanned: {type(error).__name__}: {error}"
            return None
        self.planning = "sequences end to end: leased by tokens, rows and the longest row"
        return found

    def _slim(self, feeds: Sequence[Feed]) -> None:
        """Take a call that needs less memory, if there is one and its answers are the same bits."""
        own = self._program
        if own.slimmer is None:
            return
        expected = [self.run(feed.inputs, self._names) for feed in feeds]
        try:
            self._program = replace(own, call=own.slimmer())
            given = [self.run(feed.inputs, self._names) for feed in feeds]
        except Exception:  # whatever it is, the first is as good as before
            self._program = own
            return
        if not all(map(_are_same, given, expected)):
            self._program = own

    def _from_graph(
        self, feeds: Sequence[Feed], inputs: Sequence[Polynomial], lengths: Sequence[Size]
    ) -> Study:
        program = self._program
        ordered = [
            Feed(feed.rows, feed.length, {name: feed.inputs[name] for name in program.order})
            for feed in feeds
        ]
        exported = self._exported(ordered)
        return study(exported, program.call, ordered, inputs, lengths, self._place.accelerator)

    def _exported(self, feeds: Sequence[Feed]) -> Any:
        program = self._program
        if program.export is None:
            raise Unplannable("TorchScript has no graph that could be planned")
        if program.is_packed:
            raise Unplannable("it takes sequences end to end")
        if not program.is_reentrant:
            raise Unplannable("it may keep something from call to call (is_reentrant is not true)")
        if not feeds:
            raise Unplannable("it takes no tiny run")
        return program.export(max(feeds, key=lambda feed: feed.rows * area(feed.length)))

    def _run_rows(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Rows of one length, through a program that takes them end to end."""
        varies = [spec.name for spec in self.inputs if _has_length(spec)]
        rows, length = inputs[varies[0]].shape[:2]
        flat = {
            name: array.reshape(rows * length, *array.shape[2:]) if name in varies else array
            for name, array in inputs.items()
        }
        flat[OFFSETS] = offsets(rows=[rows], lengths=[length])
        outputs = self._run(flat, wanted)
        return {
            spec.name: outputs[spec.name].reshape(rows, length, *outputs[spec.name].shape[1:])
            if _has_length(spec)
            else outputs[spec.name]
            for spec in self.outputs
            if spec.name in outputs
        }

    def _run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        import torch

        def call(tensors: dict[str, Any]) -> dict[str, Any]:
            outputs = named_outputs(self._result(tensors), self._names)
            return {name: outputs[name] for name in wanted}

        room = room_here(self._planned)
        try:
            with torch.inference_mode(), _letting_go():
                outputs = self._place.run(call, inputs, None if room is None else room.send)
        except NoMemory:
            raise
        except (MemoryError, torch.OutOfMemoryError) as error:
            # Where it was raised says nothing, and closures there may hold what the run has made.
            raise OutOfMemory(str(error)) from error.with_traceback(None)
        except (AssertionError, IndexError, RuntimeError) as error:
            raise _translated(error) from error
        types = {spec.name: NUMPY_TYPES[spec.datatype] for spec in self.outputs}
        return {name: array.astype(types[name], copy=False) for name, array in outputs.items()}

    def _result(self, tensors: dict[str, Any]) -> Any:
        """What the program gives: in the room where this thread is, from its plan."""
        if (room := room_here(self._planned)) is not None:
            outputs = room.call(tensors)
            if outputs is not None:
                return room.program.shaped(outputs)
        return self._program.call(tensors)


def torch_file(
    path: Path, *, threads: int = 1, device: str = "auto", is_governed: bool = False
) -> TorchExecutable:
    """Load a .pt2 of `torch.export.save` or a .pt of `torch.jit.save`.

    Args:
        path: The file.
        threads: Threads inside one run on the CPU.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        is_governed: Whether its memory is to be planned and shared with other models.

    Raises:
        InvalidSetting: PyTorch is not installed, or cannot load the file.
    """
    place = _place(str(path), threads=threads, device=device)
    opened = open_exported if path.suffix == ".pt2" else open_script
    program = opened(path, device=place.target)
    return TorchExecutable(program, place, is_governed=is_governed)


def torch_module(
    model: Any, *, name: str, threads: int = 1, device: str = "auto", is_governed: bool = False
) -> TorchExecutable:
    """Wrap a module, a function over tensors, or something that makes one.

    Args:
        model: Has `inputs` and `outputs`, as a Python callable has, or `example_inputs`.
        name: For errors.
        threads: Threads inside one run on the CPU.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        is_governed: Whether its memory is to be planned and shared with other models.

    Raises:
        InvalidSetting: PyTorch is not installed, or the model does not say what it takes.
    """
    place = _place(name, threads=threads, device=device)
    program = open_module(model, name=name, device=place.target)
    return TorchExecutable(program, place, is_governed=is_governed)


def _place(what: str, *, threads: int, device: str) -> Place:
    try:
        return place_of(device, threads=threads)
    except ImportError as error:
        raise InvalidSetting(f"{what} needs PyTorch: pip install 'xirang[torch]'") from error


@contextmanager
def _letting_go() -> Iterator[None]:
    """An error keeps the frames that it came through, and with them what they have made."""
    try:
        yield
    except Exception as error:
        known: BaseException | None = error
        while known is not None:
            traceback.clear_frames(known.__traceback__)
            known = known.__cause__ or known.__context__
        raise


def _are_same(given: Mapping[str, Array], expected: Mapping[str, Array]) -> bool:
    """Whether answers are the same bits, or both not a number."""
    return all(
        np.array_equal(given[name], array, equal_nan=array.dtype.kind == "f")
        for name, array in expected.items()
    )


def _has_length(spec: TensorSpec) -> bool:
    """Whether axis 1, which a packed program lays end to end with the rows, may vary."""
    return len(spec.dims) > 1 and not isinstance(spec.dims[1], int)


def _check(spec: TensorSpec, array: Array | None) -> None:
    """Hold an input against its declaration: PyTorch would often take what nobody meant."""
    if array is None:
        raise InvalidRequest(f"input '{spec.name}' is missing")
    fits = len(array.shape) == len(spec.dims) and all(
        not isinstance(dim, int) or size == dim
        for size, dim in zip(array.shape, spec.dims, strict=True)
    )
    if not fits or array.dtype != NUMPY_TYPES[spec.datatype]:
        raise InvalidRequest(
            f"input '{spec.name}' is {array.dtype} of shape {list(array.shape)}; "
            f"expected {spec.datatype} of {list(spec.shape)}"
        )


def _translated(error: Exception) -> Exception:
    """A class of error for what PyTorch only says in words; else the error itself."""
    text = str(error)
    if "can't allocate memory" in text or "not enough memory" in text:
        return OutOfMemory(text)
    if any(words in text for words in REFUSALS):
        said = [line for line in text.splitlines() if line.strip()]
        return InvalidRequest(f"the model refused its input: {said[-1].strip()}")
    return error
