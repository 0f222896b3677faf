"""Loads one version of a model as its Triton configuration wants it."""

import logging
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from xirang.backends.executable import Executable
from xirang.config import ModelSettings
from xirang.engine.clock import Clock
from xirang.engine.model import Model
from xirang.errors import InvalidSetting
from xirang.repository.discover import Kind, Source
from xirang.repository.load import Adapted, Loaded, load
from xirang.repository.triton.batching import mixes_shapes
from xirang.repository.triton.checks import ONNX, PYTHON, with_backend
from xirang.repository.triton.completion import completed
from xirang.repository.triton.conform import conformed
from xirang.repository.triton.layout import Place
from xirang.repository.triton.meaning import meaning_of
from xirang.repository.triton.python_model import completed_by_itself, python_source
from xirang.repository.triton.samples import run_samples
from xirang.repository.triton.schema import InstanceGroup, ModelConfig

log = logging.getLogger(__name__)

LABELS_BYTES_MAX = 1 << 24


@dataclass(frozen=True, slots=True)
class Terms:
    """What the operator says about models of a repository.

    Attributes:
        common: Settings of all models.
        own: Settings of this one; None if it has none.
        can_complete: Whether a configuration may leave out what the model says.
    """

    common: ModelSettings
    own: ModelSettings | None = None
    can_complete: bool = True


def load_version(
    place: Place, config: ModelConfig, version: int, terms: Terms, *, clock: Clock
) -> Loaded:
    """Load one version, adapt it to its configuration, run its samples, and measure it.

    Args:
        place: The model's folder.
        config: Checked; it is left as it is.
        version: Its number.
        terms: What the operator says.
        clock: Measures runs.

    Raises:
        InvalidSetting: It cannot be served, and why.
    """
    folder = place.folder / str(version)
    config = with_backend(deepcopy(config), folder)
    file = place.inside(folder / config.default_model_filename)
    if not file.is_file():
        raise InvalidSetting(f"unable to find '{file.name}' in version {version} of {place.name}")
    if not (terms.can_complete or (config.input and config.output)):
        raise InvalidSetting(
            f"the configuration of {place.name} names no inputs or no outputs, and completing it "
            "from the model is switched off"
        )
    source = _source(place, config, version, file, can_complete=terms.can_complete)
    if not place.has_config() and (folder / "tokenizer.json").is_file():
        place.inside(folder / "tokenizer.json")
        return load(replace(source, kind=Kind.TEXT), terms.own or terms.common, clock=clock)

    meaning = meaning_of(config, terms.common, terms.own)

    def adapt(executable: Executable) -> Adapted:
        nonlocal config, meaning
        if source.kind is Kind.TRITON_PYTHON:
            config = completed_by_itself(config, executable)
            meaning = meaning_of(config, terms.common, terms.own)
        completed(config, executable.inputs, executable.outputs)
        adapted = conformed(executable, config)
        return Adapted(
            adapted,
            not config.max_batch_size,
            meaning.settings,
            meaning.rules,
            mixes_shapes=mixes_shapes(config),
        )

    loaded = load(source, meaning.settings, clock=clock, adapt=adapt)
    for words in meaning.unheeded:
        log.warning("%s: without effect here: %s", place.name, words)
    try:
        _warm(config, loaded.model, place)
        loaded.model.declared = _declared(config, loaded.model)
        loaded.model.labels = _labels(config, place)
    except BaseException:
        if loaded.model.workers is not None:
            loaded.model.workers.close()
        raise
    return loaded


def _source(
    place: Place, config: ModelConfig, version: int, file: Path, *, can_complete: bool
) -> Source:
    if config.backend == PYTHON:
        return python_source(place, config, version, file, can_complete=can_complete)
    kind = Kind.ONNX if config.backend == ONNX else Kind.TORCH
    return Source(place.name, kind, file, version=str(version))


def _warm(config: ModelConfig, model: Model, place: Place) -> None:
    """Run the samples, in every process if the model has some."""
    for _ in range(model.workers.living if model.workers is not None else 1):
        run_samples(config, model.executable, place.folder)


def _declared(config: ModelConfig, model: Model) -> Mapping[str, Any]:
    """The configuration as Triton would show it, with the instances that there are."""
    device = str(getattr(model.executable, "device", "cpu"))
    group = InstanceGroup(
        name=config.name,
        kind="KIND_GPU" if device.startswith("cuda") else "KIND_CPU",
        count=model.policy.instances,
    )
    config.instance_group = [group]
    told: Mapping[str, Any] = msgspec.to_builtins(config)
    return told


def _labels(config: ModelConfig, place: Place) -> dict[str, tuple[str, ...]]:
    """The names of classes, by output."""
    found = {}
    for output in config.output:
        if output.label_filename:
            file = place.inside(place.folder / output.label_filename)
            found[output.name] = _lines(file)
    return found


def _lines(file: Path) -> tuple[str, ...]:
    try:
        with file.open(encoding="utf-8") as opened:
            return tuple(opened.read(LABELS_BYTES_MAX).splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"failed to open text file for read {file}: {error}") from error
