"""A `model.py` of Triton's Python backend as a source: what its worker processes are told."""

from copy import deepcopy
from pathlib import Path

import msgspec

from xirang.backends.executable import Executable
from xirang.errors import InvalidSetting
from xirang.repository.discover import Kind, Source
from xirang.repository.triton.checks import checked
from xirang.repository.triton.layout import Place
from xirang.repository.triton.reading import read_json
from xirang.repository.triton.schema import InstanceGroup, ModelConfig

ENVIRONMENT = "EXECUTION_ENV_PATH"
"""The parameter by which a model brings an interpreter of its own."""


def python_source(
    place: Place, config: ModelConfig, version: int, file: Path, *, can_complete: bool
) -> Source:
    """What its processes load.

    Args:
        place: The model's folder.
        config: Checked.
        version: Its number.
        file: The model file.
        can_complete: Whether the file may complete the configuration.

    Raises:
        InvalidSetting: It wants an environment of its own.
    """
    if ENVIRONMENT in config.parameters:
        raise InvalidSetting(
            f"parameter {ENVIRONMENT} of {place.name}: environments of their own are not served; "
            "install what the model imports where xirang runs, and leave the parameter out"
        )
    told = deepcopy(config)
    groups = told.instance_group = told.instance_group or [InstanceGroup(name=place.name)]
    for number, group in enumerate(groups):
        group.name = group.name or f"{place.name}_{number}"
        group.count = group.count or 1
        group.kind = "KIND_CPU" if group.kind == "KIND_AUTO" else group.kind
    return Source(
        place.name,
        Kind.TRITON_PYTHON,
        file.absolute(),
        version=str(version),
        options={
            "model_config": msgspec.json.encode(told).decode(),
            "can_complete": "yes" if can_complete else "",
            "group": groups[0].name,
            "model_repository": str(place.folder.absolute()),
            "model_version": str(version),
        },
    )


def completed_by_itself(config: ModelConfig, executable: Executable) -> ModelConfig:
    """The configuration as the model file completed it.

    Args:
        config: What it was given.
        executable: The model.

    Raises:
        InvalidSetting: It is wrong now, or still says too little.
    """
    declared: str = getattr(executable, "declared", "")
    found = checked(read_json(declared), config.name)
    found.default_model_filename = config.default_model_filename
    for sort, tensors in (("input", found.input), ("output", found.output)):
        if not tensors:
            raise InvalidSetting(
                f"the configuration of {config.name} names no {sort}, and its model.py adds none "
                "in auto_complete_config"
            )
    return found
