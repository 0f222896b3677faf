"""A model's findings: those of an earlier start if its file is the same, else of a probe now."""

import logging
import platform
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from xirang.backends.executable import Executable
from xirang.config import ModelSettings
from xirang.engine.clock import Clock
from xirang.engine.probe import Declared, Findings, Kind, probe
from xirang.engine.probe.kept import VERSION, from_plain, to_plain
from xirang.engine.probe.operators import suspects
from xirang.errors import InvalidSetting
from xirang.repository.learned import Learned

log = logging.getLogger(__name__)

KIND = "verdict"
"""Of what is kept about a model file."""

_DISTRIBUTIONS = {"pytorch": "torch"}


def examine(
    executable: Executable,
    file: Path | None,
    settings: ModelSettings,
    *,
    learned: Learned,
    length_max: int | None,
    clock: Clock,
) -> Findings:
    """How a model may be batched.

    Args:
        executable: The loaded model.
        file: An ONNX file is searched for operators that explain the verdict.
        settings: What its operator says about it.
        learned: What is kept about its file.
        length_max: Longest row that it takes, if that is known.
        clock: Measures runs.

    Raises:
        InvalidSetting: It has no such input, or that input no such axis.
    """
    declared = _declared(executable, settings)
    told = f"{settings.max_batch_size} {length_max} {sorted(declared.items())}"
    key = _key(executable, told)
    kept = learned.read(KIND)
    if kept is not None and kept.get("key") == key:
        findings = from_plain(kept.get("findings", {}))
        if findings is not None:
            log.info("known from an earlier start: %s", findings.verdict)
            return replace(findings, ran=())  # in this process nothing has run yet
    findings = probe(
        executable,
        rows_max=settings.max_batch_size,
        length_max=length_max,
        clock=clock,
        declared=declared,
    )
    if file is not None and file.suffix == ".onnx":
        findings = replace(findings, suspects=suspects(file))
    if findings.kind is not Kind.UNPROBED:
        learned.write(KIND, {"key": key, "findings": to_plain(findings)})
    return findings


def _declared(executable: Executable, settings: ModelSettings) -> dict[str, Declared]:
    axes = {spec.name: len(spec.dims) for spec in executable.inputs}
    for name, told in settings.inputs.items():
        if name not in axes:
            raise InvalidSetting(f"there are settings for input '{name}'; inputs are {list(axes)}")
        of_rows = () if told.batch_axis is None else (told.batch_axis,)
        wrong = [a for a in (*of_rows, *(told.lengths or ())) if not -1 <= a < axes[name]]
        if wrong or len(told.sizes) > axes[name]:
            raise InvalidSetting(
                f"input '{name}' has {axes[name]} axes, from 0; settings name "
                f"{wrong[0] if wrong else f'{len(told.sizes)} sizes'}"
            )
    return {name: Declared(**asdict(told)) for name, told in settings.inputs.items()}


def _key(executable: Executable, told: str) -> str:
    """What findings hold for: other settings, another library or machine may find otherwise."""
    specs = (*executable.inputs, *executable.outputs)
    names = [f"{spec.name}{list(spec.shape)}" for spec in specs]
    library = executable.platform.partition("_")[0]
    try:
        release = version(_DISTRIBUTIONS.get(library, library))
    except PackageNotFoundError:
        release = ""
    return " ".join((str(VERSION), library, release, platform.machine(), told, *names))
