"""An ONNX model that computes its widest tensors in slices, if that leaves every bit alone."""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from xirang.backends.executable import Executable
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_slices import sliced
from xirang.config import ModelSettings
from xirang.core.signature import TensorSpec
from xirang.errors import InvalidRequest, InvalidSetting
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

SIZES = ((1, 1), (1, 7), (2, 16), (3, 24))
"""Of its first axis, and of all others that are free: one position is a case of its own."""

HIGHS = (1000, 100, 8, 2)
"""Whole numbers below this one, for a model that refuses what its vocabulary does not have."""


def open_onnx(path: Path, settings: ModelSettings) -> OnnxExecutable:
    """Load a model file, in slices where that is possible.

    Args:
        path: The ONNX file.
        settings: Of the model.

    Raises:
        InvalidSetting: It cannot be loaded.
    """
    original = OnnxExecutable(path, threads=settings.threads, is_governed=settings.memory_native)
    if not settings.memory_native:
        return original
    try:
        with TemporaryDirectory() as folder:
            target = Path(folder) / path.name
            if not sliced(path, target):
                return original
            other = OnnxExecutable(target, threads=settings.threads, is_governed=True)
        _compare(original, other)
    except Exception as error:  # whatever does not work out: the original does
        log.info("%s: its widest tensors stay whole: %s", path, error)
        return original
    log.info("%s: its widest tensors are computed in slices", path)
    return other


def _compare(original: Executable, other: Executable) -> None:
    """Hold two models against each other.

    Raises:
        InvalidSetting: They differ in a bit, or take nothing that was tried.
    """
    names = [spec.name for spec in original.outputs]
    dice = np.random.default_rng(0)
    tried = 0
    for size in SIZES:
        for high in HIGHS:
            inputs = {spec.name: _made(spec, *size, high, dice) for spec in original.inputs}
            try:
                expected = original.run(inputs, names)
            except InvalidRequest:
                continue
            got = other.run(inputs, names)
            moved = [name for name in names if expected[name].tobytes() != got[name].tobytes()]
            if moved:
                raise InvalidSetting(f"answers of {moved} move")
            tried += 1
            break
    if not tried:
        raise InvalidSetting("it takes no made-up inputs")


def _made(spec: TensorSpec, rows: int, length: int, high: int, dice: np.random.Generator) -> Array:
    free = (rows, *[length] * len(spec.dims))
    dims = zip(spec.dims, free, strict=False)
    shape = [dim if isinstance(dim, int) else size for dim, size in dims]
    dtype = np.dtype(NUMPY_TYPES[spec.datatype])
    if dtype.kind == "f":
        return dice.standard_normal(shape).astype(dtype)
    return dice.integers(0, 2 if "mask" in spec.name else high, shape).astype(dtype)
