"""Python callables: a function, or an object with __call__, from a list of inputs to a list.

A callable says what it takes and gives by two attributes (of the function, the class or the
object):

    inputs = {"x": ("FP32", [64])}          # shapes of one request's row, -1 where it may vary
    outputs = {"y": ("FP32", [10])}

With `ragged = True` beside them, requests whose shapes differ share a list; without it, only those
of equal shapes do, so that the callable may stack its items.

With one input each item of the list is that input's array, with several a dict of arrays; what it
returns is the same for the outputs. Without the attributes it takes strings and gives strings.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xirang.backends.declaration import declared_specs
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidSetting
from xirang.tensors.split import RowsMismatchError
from xirang.tensors.tensor import NUMPY_TYPES, Array, decoded

_TEXT = ("BYTES", ())


class PythonExecutable:
    """A callable over a list of inputs, served through the same protocol as any model."""

    platform = "python"
    is_reentrant = False
    keeps_inputs = True

    def __init__(self, function: Callable[[list[Any]], Sequence[Any]], *, name: str) -> None:
        """Wrap a callable.

        Raises:
            InvalidSetting: Its `inputs` or `outputs` are not understood.
        """
        self._function = function
        self._is_text = not hasattr(function, "inputs")
        self.takes_lists = not self._is_text and bool(getattr(function, "ragged", False))
        self.inputs = _specs(function, "inputs", model=name)
        self.outputs = _specs(function, "outputs", model=name)

    def run(self, inputs: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Call it with one item a row; see `Executable.run`."""
        results = self._results(self._items(inputs))
        return {
            spec.name: _stack(spec, self._column(spec, results))
            for spec in self.outputs
            if spec.name in wanted
        }

    def run_lists(
        self, columns: Mapping[str, Sequence[Array]], wanted: Sequence[str]
    ) -> dict[str, list[Array]]:
        """Call it with rows that need not be of one shape; see `executable.ListExecutable`."""
        results = self._results(self._items(columns))
        return {
            spec.name: [_as_row(spec, value) for value in self._column(spec, results)]
            for spec in self.outputs
            if spec.name in wanted
        }

    def _results(self, items: list[Any]) -> Sequence[Any]:
        results = self._function(items)
        if not isinstance(results, list | tuple | np.ndarray) or len(results) != len(items):
            raise RowsMismatchError(
                f"the callable returned {_described(results)} for a list of {len(items)} inputs; "
                f"expected a list of {len(items)}"
            )
        return results

    def _items(self, inputs: Mapping[str, Any]) -> list[Any]:
        columns = [inputs[spec.name] for spec in self.inputs]
        if self._is_text:
            return list(decoded(columns[0], self.inputs[0].name))
        if len(columns) == 1:
            return list(columns[0])
        names = [spec.name for spec in self.inputs]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _column(self, spec: TensorSpec, results: Sequence[Any]) -> Sequence[Any]:
        if len(self.outputs) == 1:
            return results
        return [result[spec.name] for result in results]


def import_object(name: str) -> Any:
    """The object that `module:attribute` names; a class is instantiated.

    Raises:
        InvalidSetting: There is no such module or attribute, or it cannot be called.
    """
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: the user's own module lies here
    found: Any
    try:
        found = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidSetting(f"cannot import {name}: {error}; expected module:name") from error
    instance = found() if isinstance(found, type) else found
    if not callable(instance):
        raise InvalidSetting(
            f"{name} is not callable; expected a function or a class with __call__"
        )
    return instance


def _specs(function: object, attribute: str, *, model: str) -> tuple[TensorSpec, ...]:
    declared = getattr(function, attribute, None)
    if declared is None:
        declared = {attribute[:-1]: _TEXT}
    return declared_specs(declared, f"{attribute} of {model}")


def _stack(spec: TensorSpec, column: Sequence[Any]) -> Array:
    if spec.datatype == "BYTES":
        return np.array([_words(value, len(spec.dims) - 1) for value in column], object)
    return np.stack([np.asarray(value, NUMPY_TYPES[spec.datatype]) for value in column])


def _as_row(spec: TensorSpec, value: Any) -> Array:
    if spec.datatype == "BYTES":
        return np.array(_words(value, len(spec.dims) - 1), object)
    return np.asarray(value, NUMPY_TYPES[spec.datatype])


def _words(value: Any, axes: int) -> Any:
    """A word as bytes, or nested lists of words."""
    if axes:
        return [_words(element, axes - 1) for element in value]
    return value if isinstance(value, bytes) else str(value).encode()


def _described(results: object) -> str:
    size = f" of {len(results)}" if hasattr(results, "__len__") else ""
    return f"{type(results).__name__}{size}"
