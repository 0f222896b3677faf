"""A model whose batch is baked to 1, made to take many rows, if that leaves its answers alone."""

import logging
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from xirang.backends.executable import Executable
from xirang.backends.onnx import OnnxExecutable
from xirang.backends.onnx_rewrite import free_batch
from xirang.config import ModelSettings
from xirang.engine.clock import Clock
from xirang.engine.probe import Findings, Kind, probe
from xirang.errors import InvalidSetting
from xirang.tensors.tensor import NUMPY_TYPES, Array

log = logging.getLogger(__name__)

TOLERANCE = 1e-5
"""Largest difference, against the largest value, between the two graphs' answers."""


def rewritten(
    path: Path, original: Executable, settings: ModelSettings, *, clock: Clock
) -> tuple[Executable, Findings] | None:
    """The freed model and what the probe found about it; None if the original has to do.

    Args:
        path: The ONNX file.
        original: The same, loaded.
        settings: Of the model.
        clock: Measures runs.
    """
    try:
        with TemporaryDirectory() as folder:
            target = Path(folder) / path.name
            free_batch(path, target)
            freed = OnnxExecutable(
                target, threads=settings.threads, is_governed=settings.memory_native
            )
        worst = _difference(original, freed)
    except Exception as error:  # whatever does not work out: the original does
        log.info("%s: its batch cannot be freed: %s", path, error)
        return None
    rows_max, length_max = settings.max_batch_size, settings.length_max or None
    findings = probe(freed, rows_max=rows_max, length_max=length_max, clock=clock)
    if worst > TOLERANCE or findings.kind not in {Kind.EXACT, Kind.TOLERANT, Kind.PAD_UNSAFE}:
        log.info("%s: freed, its answers move (%.1e; %s)", path, worst, findings.verdict)
        return None
    log.info("%s: its batch is freed: %s", path, findings.verdict)
    return freed, findings


def _difference(original: Executable, freed: Executable) -> float:
    """Largest difference between both models' answers to one made-up request."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Array] = {}
    for spec in original.inputs:
        if spec.datatype == "BYTES":
            raise InvalidSetting("a model of words is not rewritten")
        shape = [dim if isinstance(dim, int) else 8 for dim in spec.dims]
        inputs[spec.name] = rng.random(shape).astype(NUMPY_TYPES[spec.datatype])
    names = [spec.name for spec in original.outputs]
    expected, got = original.run(inputs, names), freed.run(inputs, names)
    worst = 0.0
    for name in names:
        if expected[name].shape != got[name].shape:
            return float("inf")
        a, b = expected[name].astype(np.float64), got[name].astype(np.float64)
        scale = max(1e-30, float(np.abs(a).max(initial=0.0)))
        worst = max(worst, float(np.abs(a - b).max(initial=0.0)) / scale)
    return worst
